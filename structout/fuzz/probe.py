"""Drives a plugin's backend and matchers without the core's guard, so that what they do wrong is seen, not repaired."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from structout.backend import BitmaskRow, CompiledGrammar, Matcher, Status, SupportsFork, SupportsRollback
from structout.errors import describe_exception, reraise_users_interrupt
from structout.fuzz.law import Law, broken
from structout.vocabulary import TokenKind, Vocabulary

T = TypeVar("T")

_GUARD: Final = np.int32(0x5AA55AA5)
_GUARD_WORDS: Final = 2

Bits = npt.NDArray[np.bool_]
"""Which tokens a row allows: bool [padded vocabulary]."""


def call(what: str, function: Callable[[], T]) -> T:
    """What a plugin's call returns; that it raises breaks a law."""
    try:
        return function()
    except BaseException as exc:
        reraise_users_interrupt(exc)
        law = Law.MEMORY if isinstance(exc, MemoryError) else Law.RESULT_DISCIPLINE
        broken(law, f"{what} raised {describe_exception(exc)}")


@attrs.define
class FillTimes:
    """The slowest fill: the best of several fills of the same state, in seconds of wall time."""

    slowest_s: float = 0.0
    fills: int = 0

    def add(self, seconds: float) -> None:
        self.fills += 1
        self.slowest_s = max(self.slowest_s, seconds)


@attrs.frozen(eq=False)
class Probed:
    """A compiled grammar under test, and all that is needed to start matchers of it.

    Attributes:
        compiled: the plugin's object.
        vocabulary: what it was compiled for.
        times: how long its fills take.
        suspicious_s: a fill that takes longer is repeated, and its best time counts.
        budget_s: what a fill may take.
    """

    compiled: CompiledGrammar
    vocabulary: Vocabulary
    times: FillTimes = attrs.field(factory=FillTimes)
    suspicious_s: float = 0.01
    budget_s: float = math.inf
    never: Bits = attrs.field(init=False, repr=False)
    """Ids that are no text, padding included: bool [32 * words]."""

    @never.default
    def _never(self) -> Bits:
        bits = np.ones(self.vocabulary.bitmask_width * 32, np.bool_)
        bits[self.vocabulary.ids(TokenKind.TEXT, TokenKind.ADDED)] = False
        return bits

    def start(self, *, stops: Sequence[int] | None = None, max_rollback: int = 64) -> "Probe":
        """A probe before its first token."""
        chosen = tuple(self.vocabulary.eos_token_ids if stops is None else stops)
        start = self.compiled.start
        matcher: object = call("start()", lambda: start(stop_token_ids=chosen, max_rollback=max_rollback))
        if not call("isinstance(matcher, Matcher)", lambda: isinstance(matcher, Matcher)):
            broken(Law.RESULT_DISCIPLINE, f"start() returned {type(matcher).__name__}, which is no Matcher")
        return Probe(self, matcher, chosen, max_rollback)


class Probe:
    """One matcher under test, with the tokens that it accepted.

    Its methods raise `structout.fuzz.law.Broken` where the plugin raises, returns a wrong type or writes a wrong row.
    """

    def __init__(self, probed: Probed, matcher: Any, stops: tuple[int, ...], max_rollback: int) -> None:
        self.probed = probed
        self.matcher = matcher
        self.stops = stops
        self.max_rollback = max_rollback
        self.tokens: list[int] = []

    @property
    def vocabulary(self) -> Vocabulary:
        return self.probed.vocabulary

    @property
    def text(self) -> bytes:
        """What it accepted, as bytes; stop tokens are no text."""
        return self.vocabulary.decode(token for token in self.tokens if token not in self.stops)

    def try_fill(self) -> tuple[Status, Bits]:
        """The status of a fill and the row: checked to be written whole and alone, where the status is OK."""
        status, row, seconds = self._timed_fill()
        if status is Status.OK:
            self._check_row(row)
        for _ in range(3 if seconds > self.probed.suspicious_s else 0):
            seconds = min(seconds, self._timed_fill()[2])
        self.probed.times.add(seconds)
        if seconds > self.probed.budget_s:
            message = f"a row takes {seconds * 1e3:.0f} ms, over the budget of {self.probed.budget_s * 1e3:.0f} ms"
            broken(Law.MASK_TIME, message, seconds=seconds, **self.where())
        return status, unpack(row)[: self.vocabulary.padded_size]

    def _timed_fill(self) -> tuple[Status, BitmaskRow, float]:
        buffer = np.full(self.vocabulary.bitmask_width + 2 * _GUARD_WORDS, _GUARD)
        row = buffer[_GUARD_WORDS:-_GUARD_WORDS]
        begun = time.perf_counter()
        status = self._status("fill()", lambda: self.matcher.fill(row))
        seconds = time.perf_counter() - begun
        if (buffer[:_GUARD_WORDS] != _GUARD).any() or (buffer[-_GUARD_WORDS:] != _GUARD).any():
            broken(Law.ROW, "fill() wrote beside its row", **self.where())
        return status, row, seconds

    def _check_row(self, row: BitmaskRow) -> None:
        """That it allows nothing that is never allowed, and that no bit of what it held before survives."""
        forbidden = np.flatnonzero(unpack(row) & self.probed.never).tolist()
        if wrong := [token for token in forbidden if token not in self.stops]:
            what = "a row allows padding, a hole or a control token that is no stop"
            broken(Law.ROW, what, wrong=wrong[:8], **self.where())
        other = np.zeros_like(row)
        self._status("fill()", lambda: self.matcher.fill(other))
        if not np.array_equal(row, other):
            law = Law.ROW if np.array_equal(row & ~_GUARD, other & ~_GUARD) else Law.FILL_IS_PURE
            broken(law, "a second fill of the same state gives another row", **self.where())

    def fill(self) -> Bits:
        """Which tokens may follow, where the sequence has not ended."""
        status, bits = self.try_fill()
        if status is not Status.OK:
            law = Law.LIVENESS if status is Status.DEAD_END else Law.RESULT_DISCIPLINE
            broken(law, f"fill() returned {status.name} before the end", **self.where())
        return bits

    def accept(self, token: int) -> Status:
        """Offers a token; remembers it if it is accepted."""
        status = self._status("accept()", lambda: self.matcher.accept(token))
        if status is Status.OK:
            self.tokens.append(token)
        elif status not in (Status.REJECTED, Status.TERMINATED):
            broken(Law.RESULT_DISCIPLINE, f"accept() returned {status.name}", token=token, **self.where())
        return status

    def feed(self, tokens: Sequence[int]) -> int:
        """Accepts tokens up to the first that is refused. Returns how many were accepted."""
        for count, token in enumerate(tokens):
            if self.accept(token) is not Status.OK:
                return count
        return len(tokens)

    @property
    def is_accepting(self) -> bool:
        return self._flag("is_accepting")

    @property
    def is_terminated(self) -> bool:
        return self._flag("is_terminated")

    @property
    def can_roll_back(self) -> bool:
        return isinstance(self.matcher, SupportsRollback)

    @property
    def can_fork(self) -> bool:
        return isinstance(self.matcher, SupportsFork)

    def rollback(self, tokens: int) -> None:
        """Undoes tokens, which has to be possible."""
        status = self._status("rollback()", lambda: self.matcher.rollback(tokens))
        if status is not Status.OK:
            broken(Law.ROLLBACK, f"rollback({tokens}) returned {status.name}", **self.where())
        del self.tokens[len(self.tokens) - tokens :]

    def fork(self) -> "Probe":
        """An independent probe in the same state, by the matcher's own fork."""
        matcher: object = call("fork()", lambda: self.matcher.fork())
        if not call("isinstance(matcher, Matcher)", lambda: isinstance(matcher, Matcher)):
            broken(Law.RESULT_DISCIPLINE, f"fork() returned {type(matcher).__name__}, which is no Matcher")
        copy = Probe(self.probed, matcher, self.stops, self.max_rollback)
        copy.tokens = list(self.tokens)
        return copy

    def replayed(self) -> "Probe":
        """Another matcher, fed the same tokens from the beginning."""
        other = self.probed.start(stops=self.stops, max_rollback=self.max_rollback)
        if other.feed(self.tokens) < len(self.tokens):
            broken(Law.DETERMINISM, "another sequence refuses the same tokens", **self.where())
        return other

    def where(self) -> dict[str, Any]:
        """The state, for a violation's evidence."""
        return {"text": self.text.decode("utf-8", "backslashreplace"), "tokens": list(self.tokens)}

    def _status(self, what: str, function: Callable[[], object]) -> Status:
        status = call(what, function)
        if not isinstance(status, Status):
            broken(Law.RESULT_DISCIPLINE, f"{what} returned {type(status).__name__}, not a Status", **self.where())
        return status

    def _flag(self, name: str) -> bool:
        value: object = call(name, lambda: getattr(self.matcher, name))
        if not isinstance(value, bool):
            broken(Law.RESULT_DISCIPLINE, f"{name} is {type(value).__name__}, not a bool", **self.where())
        return value


def unpack(row: BitmaskRow) -> Bits:
    """The bits of a row: bool [32 * words]."""
    return np.unpackbits(row.view(np.uint8), bitorder="little").astype(np.bool_)
