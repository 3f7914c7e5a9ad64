"""Where generators get their choices from: a seed, or Hypothesis, which can shrink them."""

import abc
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Choices(abc.ABC):
    """A source of choices. What is chosen from is listed with the simplest first: that is what shrinking goes for."""

    @abc.abstractmethod
    def below(self, bound: int) -> int:
        """A number from 0 to ``bound - 1``; ``bound`` is at least 1."""

    def part(self, make: Callable[[], T]) -> T:
        """What ``make`` makes, whose choices shrinking may leave out as a whole."""
        return make()

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included; ``low`` if they cross."""
        return low + self.below(max(1, high - low + 1))

    def pick(self, options: Sequence[T]) -> T:
        """One of at least one."""
        return options[self.below(len(options))]

    def one_in(self, number: int) -> bool:
        """True with a chance of one in ``number``, else False, which is the simpler."""
        return self.below(number) == number - 1

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """One of several (weight, value) pairs."""
        point = self.below(sum(weight for weight, _ in options))
        for weight, value in options:
            point -= weight
            if point < 0:
                return value
        raise AssertionError("below() is below its bound")


class Seeded(Choices):
    """Choices that a seed decides: the same ones in every process."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Drawn(Choices):
    """Choices that Hypothesis makes, by the ``draw`` of a composite strategy, and shrinks."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def below(self, bound: int) -> int:
        number: int = self._draw(_numbers(bound))
        return number

    def part(self, make: Callable[[], T]) -> T:
        made: T = self._draw(_part(self, make))
        return made

    def drawing_by(self, draw: Callable[[st.SearchStrategy[Any]], Any], make: Callable[[], T]) -> T:
        """What ``make`` makes, with its choices drawn by ``draw``."""
        outer, self._draw = self._draw, draw
        try:
            return make()
        finally:
            self._draw = outer


@functools.lru_cache(maxsize=256)
def _numbers(bound: int) -> st.SearchStrategy[int]:
    return st.integers(0, bound - 1)


@st.composite
def _part(draw: st.DrawFn, choices: Drawn, make: Callable[[], Any]) -> Any:
    return choices.drawing_by(draw, make)
