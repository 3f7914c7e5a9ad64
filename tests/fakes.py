"""Explicit stand-ins: a complete small grammar backend, and a plugin around it.

`TrieBackend` compiles choices over any vocabulary and is exact, so that laws about the core can be tested without any
native library. Subclasses misbehave in one stated way. Processes that are made to be killed import this too: no torch.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import takewhile

import attrs
import numpy as np

from structout import (
    BackendInfo,
    Choice,
    Err,
    ErrorKind,
    Finding,
    GrammarError,
    Ok,
    Result,
    Status,
    Vocabulary,
    hookimpl,
)
from structout.backend import Backend, BitmaskRow, CompiledGrammar, Matcher
from structout.grammar import BoundBackend, Grammar
from structout.spec import GrammarSpec

EOS = 256
BYTES = Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"", b"ab", b"cd", "é".encode()],
    eos_token_ids=[EOS],
    control=[(EOS, "</s>")],
    padded_size=288,
)
"""A token for each byte, EOS, three longer tokens, and padding to a whole number of words and one word more."""


@cache
def _tokens_by_bytes(vocabulary: Vocabulary) -> dict[bytes, list[int]]:
    tokens: dict[bytes, list[int]] = {}
    for token, piece in enumerate(vocabulary.tokens()):
        tokens.setdefault(piece, []).append(token)
    return tokens


@cache
def _packed(columns: int, tokens: frozenset[int]) -> BitmaskRow:
    bits = np.zeros(-(-columns // 32) * 32, np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


@attrs.define(eq=False)
class TrieMatcher:
    """Matches one of several byte strings; has none of the optional abilities."""

    options: frozenset[bytes]
    vocabulary: Vocabulary
    stops: frozenset[int]
    text: bytes = b""
    ended: bool = False

    def fill(self, row: BitmaskRow) -> Status:
        if self.ended:
            return Status.TERMINATED
        row[:] = _packed(self.vocabulary.padded_size, self._allowed())
        return Status.OK

    def _allowed(self) -> frozenset[int]:
        rest = set(self._rest())
        pieces = _tokens_by_bytes(self.vocabulary)
        starts = {text[:length] for text in rest for length in range(1, len(text) + 1)}
        follow = {token for start in starts for token in pieces.get(start, ())}
        return frozenset(follow - self.stops | (self.stops if b"" in rest else set()))

    def _rest(self) -> list[bytes]:
        return [option[len(self.text) :] for option in self.options if option.startswith(self.text)]

    def accept(self, token: int) -> Status:
        if self.ended:
            return Status.TERMINATED
        if token not in self._allowed():
            return Status.REJECTED
        self.ended = token in self.stops
        if not self.ended:
            self.text += self.vocabulary.token(token)
        return Status.OK

    @property
    def is_accepting(self) -> bool:
        return self.text in self.options

    @property
    def is_terminated(self) -> bool:
        return self.ended


@attrs.define(eq=False)
class RollbackTrieMatcher(TrieMatcher):
    """Can also roll back, and cannot fork."""

    undo: list[tuple[bytes, bool]] = attrs.field(factory=list)

    def accept(self, token: int) -> Status:
        before = (self.text, self.ended)
        status = TrieMatcher.accept(self, token)
        if status is Status.OK:
            self.undo.append(before)
        return status

    def rollback(self, tokens: int) -> Status:
        for _ in range(tokens):
            self.text, self.ended = self.undo.pop()
        return Status.OK


@attrs.define(eq=False)
class ForkTrieMatcher(TrieMatcher):
    """Can also fork, and cannot roll back."""

    def fork(self) -> "ForkTrieMatcher":
        return attrs.evolve(self)


class ForcingTrieMatcher(RollbackTrieMatcher):
    """Can also roll back, and knows what is forced."""

    def forced_text(self, limit: int) -> bytes:
        rest = [] if self.ended else sorted(self._rest())
        same = takewhile(lambda pair: pair[0] == pair[1], zip(rest[0], rest[-1], strict=False)) if rest else ()
        return bytes(byte for byte, _ in same)[:limit]


MatcherType = type[TrieMatcher]
MATCHER_TYPES: tuple[MatcherType, ...] = (TrieMatcher, RollbackTrieMatcher, ForkTrieMatcher, ForcingTrieMatcher)


@attrs.frozen(eq=False)
class TrieGrammar:
    """A compiled choice."""

    options: frozenset[bytes]
    vocabulary: Vocabulary
    matcher: Callable[..., Matcher] = TrieMatcher
    unenforced: Sequence[Finding] = ()
    narrowed: Sequence[Finding] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        return self.matcher(self.options, self.vocabulary, frozenset(stop_token_ids))


@attrs.frozen(eq=False)
class TrieBackend:
    """Compiles `Choice`. An option ``refuse`` is refused, an option ``raise`` raises: for tests of failures."""

    vocabulary: Vocabulary
    matcher: Callable[..., Matcher] = TrieMatcher

    def __attrs_post_init__(self) -> None:
        _tokens_by_bytes(self.vocabulary)  # or the first fill would, which is slow with a real vocabulary

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        if "refuse" in spec.options:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="the option 'refuse' is refused"))
        if "raise" in spec.options:
            raise RuntimeError("secret internals")
        return Ok(TrieGrammar(frozenset(option.encode() for option in spec.options), self.vocabulary, self.matcher))


def trie_info(id: str = "trie", matcher: Callable[..., Matcher] = TrieMatcher) -> BackendInfo:
    def create(vocabulary: Vocabulary) -> Backend:
        return TrieBackend(vocabulary, matcher)

    return BackendInfo(id=id, create=create, spec_kinds=frozenset({"choice"}))


class TriePlugin:
    """A plugin that registers the backends it is given."""

    def __init__(self, *infos: BackendInfo) -> None:
        self.infos = infos or (trie_info(),)

    @hookimpl
    def structout_register_backends(self) -> Sequence[BackendInfo]:
        return self.infos


def trie_grammar(
    *options: str, vocabulary: Vocabulary = BYTES, matcher: Callable[..., Matcher] = TrieMatcher
) -> Grammar:
    """A guarded grammar for one of ``options``."""
    bound = BoundBackend.create(trie_info(matcher=matcher), "trie 1.0", vocabulary).unwrap()
    return bound.compile(Choice(options)).unwrap()


def allowed(row: BitmaskRow, columns: int) -> set[int]:
    """The token ids whose bits are set in a row, up to ``columns``."""
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits[:columns]).tolist())
