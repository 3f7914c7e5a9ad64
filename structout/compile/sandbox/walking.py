"""Random walks through a grammar's masks: what a sequence would meet, met in a process that may suffer from it."""

import time
from random import Random
from typing import Final, Self

import attrs
import numpy as np
import numpy.typing as npt

from structout.backend import BitmaskRow, Status
from structout.constraint import Constraint
from structout.errors import GrammarError
from structout.grammar import Grammar
from structout.result import Err, Ok, Result
from structout.vocabulary import Vocabulary

WALKS: Final = 4
_ENDING: Final = b'"}],:'
_NO_BYTE: Final = 256
# Some systems count a process's time in ticks.
_TICK_S: Final = 0.01


class Stopwatch:
    """Measures a block: seconds of the clock, but not many more than those of the processor, however long it waited."""

    seconds = 0.0

    def __enter__(self) -> Self:
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        wall, cpu = self._began
        self.seconds = max(0.0, min(time.perf_counter() - wall, time.process_time() - cpu + _TICK_S))


@attrs.define
class Walked:
    """What walks have come to so far.

    Attributes:
        fill_budget_s: what a fill may take.
        fills: how many rows were filled.
        slowest_fill_s: what the slowest of them took.
    """

    fill_budget_s: float
    fills: int = 0
    slowest_fill_s: float = 0.0

    @property
    def is_too_slow(self) -> bool:
        return self.slowest_fill_s > self.fill_budget_s

    def add(self, fill_s: float) -> None:
        self.fills += 1
        self.slowest_fill_s = max(self.slowest_fill_s, fill_s)


class Walker:
    """Walks through grammars of one vocabulary. Not safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._row: BitmaskRow = np.zeros(vocabulary.bitmask_width, np.int32)
        self._first = _first_bytes(vocabulary)
        self._ends = np.isin(self._first, list(_ENDING))

    def walk(
        self, grammar: Grammar, *, max_steps: int, fill_budget_s: float, seed: int
    ) -> Result[Walked, GrammarError]:
        """Walks a few times from the start, every other time in a hurry to close what is open.

        Args:
            grammar: where to walk.
            max_steps: how many rows may be filled, all walks together.
            fill_budget_s: a fill that takes longer ends it: the grammar is known to be too slow.
            seed: of the random choices.

        Returns:
            What was measured; or the error of a matcher that failed, or that refused what its own mask allows.
        """
        random, walked = Random(seed), Walked(fill_budget_s)
        for number in range(1, WALKS + 1):
            match grammar.start():
                case Err(error):
                    return Err(error)
                case Ok(constraint):
                    until = max_steps * number // WALKS
                    if failed := self._walk_once(constraint, walked, until, random, hurry=number % 2 == 0):
                        return Err(failed)
        return Ok(walked)

    def _walk_once(
        self, constraint: Constraint, walked: Walked, until: int, random: Random, *, hurry: bool
    ) -> GrammarError | None:
        """Walks until there is no way on, or ``until`` rows were filled in all; the error if the backend fails."""
        while walked.fills < until and not walked.is_too_slow:
            with Stopwatch() as watch:
                status = constraint.fill(self._row)
            walked.add(watch.seconds)
            if status is Status.OK:
                status = constraint.accept(self._choose(random, hurry=hurry))
                if status is Status.REJECTED:
                    return constraint.grammar.backend.failure("its matcher refuses what its mask allows", "accept()")
            if status is not Status.OK:
                return constraint.error
        return None

    def _choose(self, random: Random, *, hurry: bool) -> int:
        """One of the allowed tokens: first its first byte, so that what ends a string is as likely as a letter."""
        bits = np.unpackbits(self._row.view(np.uint8), bitorder="little")[: len(self._first)]
        tokens = np.flatnonzero(bits)
        if hurry and (ending := tokens[self._ends[tokens]]).size:
            tokens = ending
        first = self._first[tokens]
        byte = random.choice(np.flatnonzero(np.bincount(first)).tolist())
        return int(random.choice(tokens[first == byte]))


def _first_bytes(vocabulary: Vocabulary) -> npt.NDArray[np.int16]:
    """Of each column, the first byte of its token; 256 where there is none: control tokens and padding."""
    first = np.full(vocabulary.padded_size, _NO_BYTE, np.int16)
    starts, ends = vocabulary.offsets[:-1], vocabulary.offsets[1:]
    with_text = np.flatnonzero(ends > starts)
    first[with_text] = np.frombuffer(vocabulary.data, np.uint8)[starts[with_text]]
    return first
