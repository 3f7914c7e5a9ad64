"""A compiled grammar and its matchers.

llguidance copies a matcher in a few microseconds because the copies share one lexer, whose states are then found once
for all sequences. The price: a lexer that hits a limit is broken for good, for everyone. So a broken lexer is replaced
by a new one, on which each sequence repeats the tokens that it has consumed, and only a sequence that breaks the new
one too has failed.
"""

import ctypes
import threading
from collections.abc import Sequence
from typing import Final

import llguidance
import numpy as np

from structout.backend import Bitmask, BitmaskRow, Finding, Status
from structout.errors import GrammarFailure
from structout.forced import LookAhead
from structout_llguidance.errors import limit_error

LIMITS: Final = llguidance.LLParserLimits(verbose_errors=False)

_EXHAUSTED: Final = "NoExtension"
_LEXER_ERROR: Final = "lexer error"


def build(tokenizer: llguidance.LLTokenizer, source: str) -> llguidance.LLMatcher:
    """A native matcher with a lexer of its own; it may be in an error state."""
    return llguidance.LLMatcher(tokenizer, source, log_level=0, limits=LIMITS)


def address(array: Bitmask) -> int:
    """Where a writable C-contiguous array begins; a third of the time of ``array.ctypes.data``."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]


def is_exhausted(native: llguidance.LLMatcher) -> bool:
    """Whether a matcher in an error state only has no token that could follow."""
    return native.get_error().startswith(_EXHAUSTED)


def breaks_lexer(native: llguidance.LLMatcher) -> bool:
    """Whether a matcher is in an error state because its lexer hit a limit."""
    return native.is_error() and _LEXER_ERROR in native.get_error()


class Lexer:
    """What the matchers of a grammar share.

    Whoever calls a matcher that uses it has to hold it: only then is it known who broke it. llguidance itself lets only
    one thread at a time use it, so nobody waits for longer.

    Attributes:
        native: the matcher before its first token that all others are copied from.
        is_broken: whether it hit a limit, after which it allows nothing any more.
    """

    __slots__ = ("_lock", "is_broken", "native")

    def __init__(self, native: llguidance.LLMatcher) -> None:
        self.native = native
        self.is_broken = False
        self._lock = threading.Lock()

    def __enter__(self) -> "Lexer":
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class LlguidanceGrammar:
    """A grammar for one tokenizer.

    Args:
        tokenizer: see `structout_llguidance.tokenizer`.
        look_ahead: finds what is forced.
        source: the grammar as llguidance reads it.
        native: a matcher of it, before its first token.
        permitted: row of the tokens that the grammar may use; None if it can only use text.
        unenforced, narrowed: see `structout.backend.CompiledGrammar`.
    """

    def __init__(
        self,
        tokenizer: llguidance.LLTokenizer,
        look_ahead: LookAhead,
        source: str,
        native: llguidance.LLMatcher,
        *,
        permitted: BitmaskRow | None = None,
        unenforced: tuple[Finding, ...] = (),
        narrowed: tuple[Finding, ...] = (),
    ) -> None:
        self.look_ahead = look_ahead
        self.permitted = permitted
        self.unenforced = unenforced
        self.narrowed = narrowed
        self.row_bytes = -(-tokenizer.vocab_size // 32) * 4
        self._tokenizer = tokenizer
        self._source = source
        self._lexer = Lexer(native)
        self._lock = threading.Lock()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> "LlguidanceMatcher":
        """A copy of the matcher that was made at compile time. Rollback is unlimited."""
        return LlguidanceMatcher(self, frozenset(stop_token_ids))

    def lexer(self) -> Lexer:
        """The lexer that matchers share; a new one if the last one broke."""
        with self._lock:
            if self._lexer.is_broken:
                self._lexer = Lexer(build(self._tokenizer, self._source))
            return self._lexer

    def permits(self, token: int) -> bool:
        return self.permitted is None or bool(int(self.permitted[token >> 5]) >> (token & 31) & 1)


def _stop_bits(stop_ids: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """The word and the bit, as an int32, of each stop token."""
    return tuple((token >> 5, 1 << bit if (bit := token & 31) < 31 else -(1 << 31)) for token in stop_ids)


class _Holding:
    """Holds the lexer of a matcher, after a broken one has been replaced."""

    __slots__ = ("_lexer", "_matcher")

    def __init__(self, matcher: "LlguidanceMatcher") -> None:
        self._matcher = matcher

    def __enter__(self) -> llguidance.LLMatcher:
        self._lexer = self._matcher.lexer.__enter__()
        while self._lexer.is_broken:
            self._lexer.__exit__()
            self._lexer = self._matcher.renew().__enter__()
        return self._matcher.native

    def __exit__(self, *_: object) -> None:
        self._lexer.__exit__()


class LlguidanceMatcher:
    """The state of one sequence. Stop tokens never reach llguidance: where they end the text is decided here.

    Attributes:
        lexer: of ``native``.
        native: llguidance's matcher, which has consumed all tokens but the stop token.
    """

    __slots__ = ("_grammar", "_stop_bits", "_stop_ids", "_terminated", "_tokens", "lexer", "native")

    def __init__(self, grammar: LlguidanceGrammar, stop_ids: frozenset[int]) -> None:
        self._grammar = grammar
        self._stop_ids = stop_ids
        self._stop_bits = _stop_bits(stop_ids)
        self._tokens: list[int] = []
        self._terminated = False
        self.lexer = grammar.lexer()
        self.native = self.lexer.native.deep_copy()

    @property
    def is_terminated(self) -> bool:
        return self._terminated

    @property
    def is_accepting(self) -> bool:
        with _Holding(self) as native:
            return native.is_accepting()

    def renew(self) -> Lexer:
        """Goes on with the grammar's present lexer, which it returns. Raises `GrammarFailure`."""
        self.lexer = self._grammar.lexer()
        with self.lexer:
            if not self.lexer.is_broken:
                self._repeat()
        return self.lexer

    def _repeat(self) -> None:
        """Makes a native matcher that is in the state of the sequence. The lexer is held."""
        self.native = self.lexer.native.deep_copy()
        if self.native.try_consume_tokens(self._tokens) < len(self._tokens):
            raise self._failure()

    def _failure(self) -> Exception:
        """What to raise after the native matcher failed. The lexer is held, and marked if it broke."""
        self.lexer.is_broken |= breaks_lexer(self.native)
        raw = self.native.get_error() or "tokens that were accepted are refused"
        is_limit = self.native.is_error() and not raw.startswith("panic")
        return GrammarFailure(limit_error(len(self._tokens), raw)) if is_limit else RuntimeError(raw)

    def fill(self, row: BitmaskRow) -> Status:
        """Raises `GrammarFailure`."""
        if self._terminated:
            return Status.TERMINATED
        self._complete(row, self._compute(row))
        return Status.OK

    def finish(self, row: BitmaskRow) -> Status:
        """`fill` for a row that llguidance has written already. Raises `GrammarFailure`."""
        if self._terminated:
            return Status.TERMINATED
        is_accepting = self._compute(row) if self.native.is_error() else self.is_accepting
        self._complete(row, is_accepting)
        return Status.OK

    def _compute(self, row: BitmaskRow) -> bool:
        """Writes the tokens of text that may follow, and returns whether the text is complete.

        Tries it once more, on a new lexer, if it breaks the present one.
        """
        for is_last in (False, True):
            with _Holding(self) as native:
                if native.is_error():  # after a batch, which leaves it at that
                    self._repeat()
                self.native.unsafe_compute_mask_ptr(address(row), self._grammar.row_bytes)
                if self.native.is_error() and is_exhausted(self.native):
                    row.fill(0)
                    self._repeat()
                if not self.native.is_error():
                    return self.native.is_accepting()
                failure = self._failure()
                if is_last or not self.lexer.is_broken:
                    raise failure
        raise AssertionError("the second time is the last")

    def _complete(self, row: BitmaskRow, is_accepting: bool) -> None:
        """Takes out what the grammar may not use, and puts in the stop tokens where the text is complete."""
        if self._grammar.permitted is not None:
            np.bitwise_and(row, self._grammar.permitted, out=row)
        if is_accepting:
            for word, bit in self._stop_bits:
                row[word] |= bit
        else:
            for word, bit in self._stop_bits:
                row[word] &= ~bit

    def accept(self, token: int) -> Status:
        """Raises `GrammarFailure`."""
        if self._terminated:
            return Status.TERMINATED
        if token in self._stop_ids:
            self._terminated = self.is_accepting
            return Status.OK if self._terminated else Status.REJECTED
        if not self._grammar.permits(token):
            return Status.REJECTED
        with _Holding(self) as native:
            if native.try_consume_tokens([token]):
                self._tokens.append(token)
                return Status.OK
            if native.is_error():
                raise self._failure()
            return Status.REJECTED

    def forced_text(self, limit: int) -> bytes:
        """Raises `GrammarFailure`."""
        # Not by `compute_ff_bytes`, which finds all that is forced, however long that is.
        return self._grammar.look_ahead.forced_text(self, limit, self._stop_ids)

    def rollback(self, tokens: int) -> Status:
        if tokens and self._terminated:
            self._terminated = False
            tokens -= 1
        if tokens:
            before = self.native
            del self._tokens[-tokens:]
            with _Holding(self) as native:
                if native is before and not native.rollback(tokens):
                    self._repeat()
        return Status.OK

    def fork(self) -> "LlguidanceMatcher":
        copy = LlguidanceMatcher.__new__(LlguidanceMatcher)
        copy._grammar = self._grammar
        copy._stop_ids = self._stop_ids
        copy._stop_bits = self._stop_bits
        copy._tokens = self._tokens.copy()
        copy._terminated = self._terminated
        with _Holding(self) as native:
            copy.native = native.deep_copy()
            copy.lexer = self.lexer
        return copy
