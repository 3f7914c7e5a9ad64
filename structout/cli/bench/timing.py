"""Process time of several ways to do the same, in turn, so that what else the machine does falls on all alike."""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs

Way: TypeAlias = Callable[[int], Callable[[], object]]
"""Prepares the call of a number, which is not timed, and returns what is."""

OWN: Final = "structout"
_MIN_ROUNDS: Final = 3


@attrs.frozen
class Figure:
    """What one case of a benchmark came to.

    Attributes:
        case: what was measured, by name: the vocabulary, the batch, and so on.
        own_us: median over the rounds, in microseconds of process time for each row.
        peer: who it is compared to.
        peer_us: the peer's median.
        ratio: median over the rounds of the peer's time by our own: above 1, structout is faster.
        rounds: how many there were.
    """

    case: Mapping[str, Any]
    own_us: float
    peer: str
    peer_us: float
    ratio: float
    rounds: int


def compare(case: Mapping[str, Any], ways: Mapping[str, Way], *, calls: int, rows: int, seconds: float) -> list[Figure]:
    """Compares `OWN` with each other way, for ``seconds``. A round is ``calls`` calls, of ``rows`` rows each."""
    with _no_collection():
        rounds = _rounds(ways, calls, seconds)
    own = rounds.pop(OWN)
    unit = 1e-3 / (calls * rows)
    return [
        Figure(
            case=case,
            own_us=statistics.median(own) * unit,
            peer=peer,
            peer_us=statistics.median(times) * unit,
            ratio=statistics.median(theirs / ours for theirs, ours in zip(times, own, strict=True)),
            rounds=len(own),
        )
        for peer, times in rounds.items()
    ]


def _rounds(ways: Mapping[str, Way], calls: int, seconds: float) -> dict[str, list[int]]:
    """Nanoseconds of each round, by way."""
    order, draw = list(ways), random.Random(0)
    times: dict[str, list[int]] = {name: [] for name in ways}
    _round(ways, order, calls, draw)  # warms up
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[order[0]]) < _MIN_ROUNDS:
        for name, spent in _round(ways, order, calls, draw).items():
            times[name].append(spent)
    return times


def _round(ways: Mapping[str, Way], order: list[str], calls: int, draw: random.Random) -> dict[str, int]:
    """Each way makes all its calls, one way after the other, in an order that changes."""
    draw.shuffle(order)
    spent = dict.fromkeys(ways, 0)
    for name in order:
        for number in range(calls):
            call = ways[name](number)
            began = time.process_time_ns()
            call()
            spent[name] += time.process_time_ns() - began
    return spent


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector, whose turn would fall on whoever runs just then."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
