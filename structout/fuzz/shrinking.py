"""Makes an example small by making the choices small that it came from.

The choices are a list of numbers, as in Hypothesis (MacIver and Donaldson, "Test-case reduction via test-case
generation", ECOOP 2020), which cannot begin from an example that was found elsewhere. Whatever numbers are tried, the
generator makes a valid case of them.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

import attrs

from structout.fuzz.choices import Choices

T = TypeVar("T")
Edit: TypeAlias = tuple[int, int, tuple[int, ...]]
"""Beginning and end of a run of choices, and the choices that take its place."""


class Trace(Choices):
    """Choices that are remembered.

    Args:
        numbers: the first choices; one that is out of bounds is the largest possible.
        rest: where further choices come from; None for the simplest.

    Attributes:
        used: all choices made.
        parts: beginning and end of the choices of each part, inner ones first.
    """

    def __init__(self, numbers: Sequence[int] = (), rest: random.Random | None = None) -> None:
        self._numbers = numbers
        self._rest = rest
        self.used: list[int] = []
        self.parts: list[tuple[int, int]] = []

    def below(self, bound: int) -> int:
        if len(self.used) < len(self._numbers):
            number = min(self._numbers[len(self.used)], bound - 1)
        else:
            number = self._rest.randrange(bound) if self._rest else 0
        self.used.append(number)
        return number

    def part(self, make: Callable[[], T]) -> T:
        start = len(self.used)
        made = make()
        self.parts.append((start, len(self.used)))
        return made


@attrs.define
class Shrinker(Generic[T]):
    """Makes one failing example smaller.

    Attributes:
        make: makes an example of choices.
        fails: whether an example still shows what it is about.
        best: the smallest example so far.
        trace: the choices that it came from.
        until: when to stop, by `time.monotonic`.
    """

    make: Callable[[Choices], T]
    fails: Callable[[T], bool]
    best: T
    trace: Trace
    until: float
    _tried: set[tuple[int, ...]] = attrs.field(init=False, factory=set)

    def shrink(self) -> T:
        """The smallest example that was found in the time."""
        improved = True
        while improved and time.monotonic() < self.until:
            passes = [self._pass(edits) for edits in (_without_parts, _without_runs, _lower, _shorter)]
            improved = any(passes)
        return self.best

    def _pass(self, edits: Callable[[Trace], Sequence[Edit]]) -> bool:
        """Tries one edit after the other, and keeps each that fails. Whether there was one."""
        improved = False
        position = 0
        while position < len(possible := edits(self.trace)) and time.monotonic() < self.until:
            if self._take(possible[position]):
                improved = True
            else:
                position += 1
        return improved

    def _take(self, edit: Edit) -> bool:
        start, end, instead = edit
        numbers = (*self.trace.used[:start], *instead, *self.trace.used[end:])
        if numbers in self._tried:
            return False
        trace = Trace(numbers)
        example = self.make(trace)
        used = tuple(trace.used)
        is_known = used in self._tried or _size(used) >= _size(self.trace.used)
        self._tried |= {numbers, used}
        if is_known or not self.fails(example):
            return False
        self.best, self.trace = example, trace
        return True


def _size(numbers: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    return len(numbers), tuple(numbers)


def _without_parts(trace: Trace) -> list[Edit]:
    """Without one of the parts, the longest first; or with the simplest choices for it."""
    longest_first = sorted(set(trace.parts), key=lambda part: part[0] - part[1])
    return [(start, end, instead) for start, end in longest_first for instead in ((), (0,), (0,) * (end - start))]


def _without_runs(trace: Trace) -> list[Edit]:
    """Without 8, 4, 2 and 1 choices in a row, the last first."""
    count = len(trace.used)
    return [(start, start + length, ()) for length in (8, 4, 2, 1) for start in range(count - length, -1, -1)]


def _lower(trace: Trace) -> list[Edit]:
    """With one choice lower: 0, a half, one less."""
    return [
        (index, index + 1, (lower,))
        for index, number in enumerate(trace.used)
        for lower in sorted({0, number // 2, number - 1})
        if 0 <= lower < number
    ]


def _shorter(trace: Trace) -> list[Edit]:
    """With one choice lower by one and without the next: what a number of things, followed by the things, takes."""
    return [(index, index + 2, (number - 1,)) for index, number in enumerate(trace.used[:-1]) if number]
