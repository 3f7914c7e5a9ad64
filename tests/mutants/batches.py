"""Faults of filling many rows in one call."""

import time
from collections.abc import Sequence
from typing import cast

import numpy as np

from structout import Status
from structout.backend import Bitmask, Matcher
from tests.mutants.wrapping import PassBackend, PassMatcher


class SwapsRows(PassBackend):
    """The first two rows of a batch change places."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        statuses = super().fill_batch(matchers, bitmask, rows)
        if len(rows) > 1:
            bitmask[[rows[0], rows[1]]] = bitmask[[rows[1], rows[0]]]
        return statuses


class IgnoresRowNumbers(PassBackend):
    """The matchers' rows are written one after the other, from the first of the bitmask."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return super().fill_batch(matchers, bitmask, range(len(matchers)))


class HidesTheEndInABatch(PassBackend):
    """In a batch a sequence that has ended is reported as filled."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [Status.OK for _ in super().fill_batch(matchers, bitmask, rows)]


class ForgetsTheLastRow(PassBackend):
    """The last row of a batch of three or more is not written."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        written = len(rows) - (len(rows) > 2)
        return [*super().fill_batch(matchers[:written], bitmask, rows[:written]), *[Status.OK] * (len(rows) - written)]


class OneStatusForAll(PassBackend):
    """A batch has one status, whatever its size."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [max(super().fill_batch(matchers, bitmask, rows), default=Status.OK)]


class ClearsOtherRows(PassBackend):
    """Rows of the bitmask that are none of the batch's are cleared."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        bitmask[:] = 0
        return super().fill_batch(matchers, bitmask, rows)


class FillsEightRows(PassBackend):
    """Of a batch of more than eight only the first eight rows are written."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [*super().fill_batch(matchers[:8], bitmask, rows[:8]), *[Status.OK] * len(rows[8:])]


class SortsRows(PassBackend):
    """The matchers' rows are written in ascending order."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return super().fill_batch(matchers, bitmask, sorted(rows))


class EndsLikeTheFirst(PassBackend):
    """All rows of a batch have the stop tokens of the first matcher."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        own = cast(Sequence[PassMatcher], matchers)
        stops = [matcher.stops for matcher in own]
        for matcher in own:
            matcher.stops = stops[0]
        statuses = super().fill_batch(matchers, bitmask, rows)
        for matcher, before in zip(own, stops, strict=True):
            matcher.stops = before
        return statuses


class FillsOneGrammar(PassBackend):
    """In a batch of several grammars, those of others than the first matcher's have its row."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        own = cast(Sequence[PassMatcher], matchers)
        alike = [matcher if matcher.grammar is own[0].grammar else own[0] for matcher in own]
        return super().fill_batch(alike, bitmask, rows)


class DropsTheRemainder(PassBackend):
    """Of a batch of more than 32 rows as many are written as 32 goes into."""

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        count = len(rows) if len(rows) <= 32 else len(rows) // 32 * 32
        filled = super().fill_batch(matchers[:count], bitmask, rows[:count])
        return [*filled, *[Status.OK] * (len(rows) - count)]


class FillsABufferOfItsOwn(PassBackend):
    """A batch is filled in a buffer of the backend, where another thread's may overwrite it, and copied from there."""

    buffer: Bitmask | None = None

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        if self.buffer is None or len(self.buffer) < len(rows):
            self.buffer = np.zeros((len(rows) + 64, bitmask.shape[1]), np.int32)
        buffer = self.buffer
        statuses = super().fill_batch(matchers, buffer, range(len(rows)))
        time.sleep(0.0005)
        for place, row in enumerate(rows):
            bitmask[row] = buffer[place]
        return statuses
