"""One sequence's constraint: a plugin's matcher behind a guard, with what every engine needs around it.

`Constraint` is what engines hold. It contains whatever a matcher raises or returns of a wrong type, emulates rollback
and fork by replay where the backend has none, starts the grammar at a token offset (after reasoning), and keeps the
laws the same for every backend: nothing after the end, a refused token changes nothing, an empty row is a dead end.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs
import numpy as np

from structout.backend import BitmaskRow, Matcher, Status, SupportsForcedText, SupportsFork, SupportsRollback
from structout.errors import ErrorKind, GrammarError, reraise_users_interrupt
from structout.result import Err, Ok, Result

if TYPE_CHECKING:
    from structout.grammar import Grammar


@attrs.frozen
class AtOffset:
    """The constraint starts at the sequence's token ``offset``; 0 is the first generated token."""

    offset: int = attrs.field(default=0, validator=attrs.validators.ge(0))


def _token_ids(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(values)


@attrs.frozen
class AfterTokens:
    """The constraint starts behind the first place where ``tokens`` follow each other, such as ``</think>``."""

    tokens: tuple[int, ...] = attrs.field(converter=_token_ids, validator=attrs.validators.min_len(1))


Activation: TypeAlias = AtOffset | AfterTokens
T = TypeVar("T")

_INT32: Final = np.dtype(np.int32)
_OK: Final = Status.OK
"""Looking a member up in its enum takes longer than most of what a fill does here."""
_zeros: Final = cache(bytes)
"""That many bytes of zeros."""


class Constraint:
    """The constraint of one sequence, from its first generated token on. Made by ``Grammar.start``.

    Methods return a `Status` or a `Result`; they raise only on misuse by the engine, such as a row of a wrong shape.
    Calls come from one thread at a time, not always the same one. A row whose status is not OK is all ones, so that an
    engine that has to run it anyway meets no NaN: what the row is worth is said by the status alone.

    Attributes:
        grammar: what it was started from.
        error: why it failed; None as long as no call has returned FAILED.
        replayed: how many tokens were accepted again to emulate its rollbacks and its forks: the price of a missing
            ability. A fork starts at 0.
    """

    __slots__ = (
        "_activation",
        "_fed",
        "_matcher",
        "_max_rollback",
        "_row_bytes",
        "_start",
        "_stop_token_ids",
        "_terminated",
        "_tokens",
        "error",
        "grammar",
        "replayed",
    )

    def __init__(
        self,
        grammar: "Grammar",
        matcher: Matcher,
        *,
        stop_token_ids: frozenset[int],
        max_rollback: int,
        activation: Activation,
    ) -> None:
        self.grammar = grammar
        self.error: GrammarError | None = None
        self.replayed = 0
        self._row_bytes = grammar.vocabulary.bitmask_width * _INT32.itemsize
        self._matcher = matcher
        self._stop_token_ids = stop_token_ids
        self._max_rollback = max_rollback
        self._activation = activation
        self._start = activation.offset if isinstance(activation, AtOffset) else None
        self._tokens: list[int] = []
        self._fed = 0  # how many of the last tokens the matcher has seen
        self._terminated = False

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens accepted so far, those before the activation and the stop token included."""
        return tuple(self._tokens)

    @property
    def is_active(self) -> bool:
        """Whether the grammar constrains the next token."""
        return self._start is not None and len(self._tokens) >= self._start

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted."""
        return self._terminated

    @property
    def is_accepting(self) -> bool:
        """Whether the text since the activation is complete. False before the activation and after a failure."""
        ended_before_the_start = self._terminated and not self._fed
        if self.error is not None or not self.is_active or ended_before_the_start:
            return False
        try:
            answer: object = self._matcher.is_accepting
        except BaseException as exc:
            reraise_users_interrupt(exc)
            self.fail("is_accepting", exc)
            return False
        if not isinstance(answer, bool):
            self.fail("is_accepting", _returned(answer))
        return answer is True

    def fill(self, row: BitmaskRow) -> Status:
        """Writes which tokens may follow.

        Args:
            row: writable contiguous int32 [ceil(padded vocabulary / 32)].

        Returns:
            OK; FREE before the activation; TERMINATED after the end; DEAD_END if no token can follow; LATE; FAILED.

        Raises:
            ValueError: the row has another shape or dtype. A native backend would write beyond it.
        """
        self._check_row(row)
        status = self.idle_status()
        if status is None:
            try:
                status = self.settle_fill(self._matcher.fill(row.view()), row)
            except BaseException as exc:
                reraise_users_interrupt(exc)
                status = self.fail("fill", exc)
        if status is not _OK:
            row.fill(-1)
        return status

    def idle_status(self) -> Status | None:
        """The status that `fill` has without asking the matcher; None if it has to be asked."""
        if self.error is not None:
            return Status.FAILED
        if self._terminated:
            return Status.TERMINATED
        if self._start is None or len(self._tokens) < self._start:
            return Status.FREE
        return None

    @property
    def matcher(self) -> Matcher:
        """The plugin's matcher, for a native batch call of its own backend."""
        return self._matcher

    def settle_fill(self, status: object, row: BitmaskRow) -> Status:
        """The status of a fill that the plugin answered with ``status``: checked, and with an empty row found."""
        if status is _OK:
            # Beside a forward pass no code is in the caches, and NumPy's count or reductions need far more of it.
            return Status.DEAD_END if row.tobytes() == _zeros(row.nbytes) else _OK
        if status is Status.DEAD_END or status is Status.LATE:
            return status
        return self.fail("fill", _returned(status))

    def accept(self, token: int) -> Status:
        """Moves on by one token.

        Returns:
            OK; REJECTED if the token cannot follow (nothing has changed); TERMINATED after the end; FAILED.
        """
        idle = self.idle_status()
        if idle is not None:
            return self._accept_free(token) if idle is Status.FREE else idle
        if not 0 <= token < self.grammar.vocabulary.padded_size:
            return Status.REJECTED
        try:
            status = self._matcher.accept(token)
        except BaseException as exc:
            reraise_users_interrupt(exc)
            return self.fail("accept", exc)
        if status is _OK:
            self._tokens.append(token)
            self._fed += 1
            self._terminated = token in self._stop_token_ids
        elif status is not Status.REJECTED:
            return self.fail("accept", _returned(status))
        return status

    def _accept_free(self, token: int) -> Status:
        self._tokens.append(token)
        self._terminated = token in self._stop_token_ids
        if isinstance(self._activation, AfterTokens):
            marker = self._activation.tokens
            if tuple(self._tokens[-len(marker) :]) == marker:
                self._start = len(self._tokens)
        return Status.OK

    def rollback(self, tokens: int) -> Status:
        """Undoes the last ``tokens`` tokens; a stop token counts as one.

        Native if the matcher can, else the remaining tokens are accepted again by a new matcher (see `replayed`).

        Returns:
            OK; REJECTED, with nothing changed, for more tokens than there are or than ``max_rollback``; FAILED.
        """
        if self.error is not None:
            return Status.FAILED
        if not 0 <= tokens <= min(len(self._tokens), self._max_rollback):
            return Status.REJECTED
        return self._undo(tokens)

    def _undo(self, tokens: int) -> Status:
        if tokens == 0:
            return Status.OK
        kept = len(self._tokens) - tokens
        fed = max(0, self._fed - tokens)
        if self._fed > fed and self._undo_fed(self._fed - fed, self._tokens[kept - fed : kept]) is not Status.OK:
            return Status.FAILED
        del self._tokens[kept:]
        self._fed = fed
        self._terminated = False
        if isinstance(self._activation, AfterTokens) and self._start is not None and kept < self._start:
            self._start = None
        return Status.OK

    def _undo_fed(self, tokens: int, remaining: Sequence[int]) -> Status:
        """Takes ``tokens`` back from the matcher, which then has seen ``remaining``."""
        try:
            if not isinstance(self._matcher, SupportsRollback):
                self._matcher = self._replay(remaining)
                return Status.OK
            status = self._matcher.rollback(tokens)
        except BaseException as exc:
            reraise_users_interrupt(exc)
            return self.fail("rollback", exc)
        return status if status is Status.OK else self.fail("rollback", _returned(status))

    def _replay(self, tokens: Sequence[int]) -> Matcher:
        """A new matcher that has seen ``tokens``. Raises what the plugin raises, and RuntimeError if it refuses."""
        matcher = self.grammar.compiled.start(
            stop_token_ids=tuple(self._stop_token_ids), max_rollback=self._max_rollback
        )
        for token in tokens:
            if matcher.accept(token) is not Status.OK:
                raise RuntimeError(f"refused token {token}, which it had accepted before")
        self.replayed += len(tokens)
        return matcher

    def _fed_tokens(self) -> list[int]:
        return self._tokens[len(self._tokens) - self._fed :]

    def fork(self) -> "Result[Constraint, GrammarError]":
        """An independent constraint in the same state; native if the matcher can, else by replay."""
        if self.error is not None:
            return Err(self.error)
        cause: BaseException | str
        try:
            copy = self._copy_matcher()
            if isinstance(copy, Matcher) and copy is not self._matcher:
                return Ok(self._copy_around(copy))
            cause = "returned the matcher itself" if copy is self._matcher else _returned(copy)
        except BaseException as exc:
            reraise_users_interrupt(exc)
            cause = exc
        return Err(self._failure("fork", cause))

    def _copy_matcher(self) -> object:
        """What the plugin gives for a copy of the matcher."""
        matcher = self._matcher
        return matcher.fork() if isinstance(matcher, SupportsFork) else self._replay(self._fed_tokens())

    def _copy_around(self, matcher: Matcher) -> "Constraint":
        copy = Constraint(
            self.grammar,
            matcher,
            stop_token_ids=self._stop_token_ids,
            max_rollback=self._max_rollback,
            activation=self._activation,
        )
        copy._start, copy._fed, copy._terminated = self._start, self._fed, self._terminated
        copy._tokens = self._tokens.copy()
        return copy

    def failed_copy(self, error: GrammarError) -> "Constraint":
        """A constraint in the same state that takes nothing any more: what a trial gets when the fork failed."""
        copy = self._copy_around(self._matcher)
        copy.error = error
        return copy

    def rolls_back_cheaper(self, tokens: int) -> bool:
        """Whether undoing ``tokens`` costs this matcher less than being forked: it can roll back and cannot fork."""
        can_fork, can_roll_back = isinstance(self._matcher, SupportsFork), isinstance(self._matcher, SupportsRollback)
        return can_roll_back and not can_fork and tokens <= self._max_rollback

    def try_and_undo(self, trial: Callable[[], T]) -> T:
        """Runs ``trial``, which accepts tokens, and returns its value; the state is as before, a failure undone too."""
        before, start, fed = len(self._tokens), self._start, self._fed_tokens()
        result = trial()
        if self.error is None and self._undo(len(self._tokens) - before) is Status.OK:
            return result
        self.error = None
        del self._tokens[before:]
        self._start, self._fed, self._terminated = start, len(fed), False
        try:
            self._matcher = self._replay(fed)
        except BaseException as exc:
            reraise_users_interrupt(exc)
            self.fail("start", exc)
        return result

    def forced_text(self, limit: int) -> bytes:
        """The bytes that must follow, ``limit`` at most, where the backend can tell; empty where it cannot, or where
        there is a choice, and after a failure."""
        if self.idle_status() is not None:
            return b""
        try:
            text: object = self._matcher.forced_text(limit) if isinstance(self._matcher, SupportsForcedText) else b""
        except BaseException as exc:
            reraise_users_interrupt(exc)
            self.fail("forced_text", exc)
            return b""
        if isinstance(text, bytes):
            return text[:limit]
        self.fail("forced_text", _returned(text))
        return b""

    def error_for(self, status: Status, *, token: int | None = None) -> GrammarError:
        """What to tell the caller of a sequence that ``status`` ends: DEAD_END, REJECTED or FAILED."""
        if self.error is not None:
            return self.error
        after = f"after {len(self._tokens)} generated tokens"
        dead_end = status is Status.DEAD_END
        return GrammarError(
            kind=ErrorKind.DEAD_END if dead_end else ErrorKind.REJECTED_TOKEN,
            message=f"no token can follow {after}" if dead_end else f"token {token} was refused {after}",
            backend=self.grammar.backend.id,
            distribution=self.grammar.backend.distribution,
        )

    def fail(self, call: str, cause: BaseException | str) -> Status:
        """Records that the plugin failed in ``call``; the first failure stays. Returns FAILED."""
        if self.error is None:
            self.error = self._failure(call, cause)
        return Status.FAILED

    def _failure(self, call: str, cause: BaseException | str) -> GrammarError:
        return self.grammar.backend.failure(f"its matcher failed in {call}()", cause)

    def _check_row(self, row: BitmaskRow) -> None:
        fits = row.nbytes == self._row_bytes and row.ndim == 1 and row.dtype == _INT32
        if not (fits and row.flags.carray):
            width = self.grammar.vocabulary.bitmask_width
            raise ValueError(f"a bitmask row is contiguous, writable int32 [{width}], not {row.dtype} {row.shape}")


def _returned(value: object) -> str:
    """What a plugin returned, by its type alone: its repr could raise."""
    return f"returned {value.name if isinstance(value, Status) else type(value).__name__}"
