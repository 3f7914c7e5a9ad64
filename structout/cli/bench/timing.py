"""Process time of several ways to do the same, in turn, so that what else the machine does falls on all alike."""

import gc
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import attrs

Way: TypeAlias = Callable[[int], Callable[[], object]]
"""Prepares the call of a number, which is not timed, and returns what is."""

OWN: Final = "structout"
_MIN_ROUNDS: Final = 3

_Spent = TypeVar("_Spent")


@attrs.frozen
class Figure:
    """What one case of a benchmark came to.

    Attributes:
        case: what was measured, by name: the vocabulary, the batch, and so on.
        own_us: median over the rounds, in microseconds for each row, or what else the benchmark counts.
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


def compare(
    case: Mapping[str, Any],
    ways: Mapping[str, Way],
    *,
    calls: int,
    rows: int,
    seconds: float,
    clock: Callable[[], int] = time.process_time_ns,
) -> list[Figure]:
    """Compares `OWN` with each other way, for ``seconds``. A round is ``calls`` calls, of ``rows`` rows each. ``clock``
    tells nanoseconds."""
    sides = {name: partial(_turn, way, calls, clock) for name, way in ways.items()}
    with no_collection():
        in_turn(sides, 0.0, min_rounds=1)  # warms up
        rounds = in_turn(sides, seconds)
    return figures(case, rounds, unit=1e-3 / (calls * rows))


def figures(case: Mapping[str, Any], rounds: Mapping[str, Sequence[float]], *, unit: float) -> list[Figure]:
    """What rounds of `OWN` and of each peer come to.

    Args:
        case: what was measured.
        rounds: by side, what each round took.
        unit: microseconds that one of it stands for.
    """
    own = rounds[OWN]
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
        if peer != OWN
    ]


def in_turn(
    sides: Mapping[str, Callable[[], _Spent]], seconds: float, *, min_rounds: int = _MIN_ROUNDS
) -> dict[str, list[_Spent]]:
    """What each side came to in each round. In a round each has its turn, in an order that changes; there are rounds
    for ``seconds``, and ``min_rounds`` at least."""
    order, draw = list(sides), random.Random(0)
    spent: dict[str, list[_Spent]] = {name: [] for name in sides}

    with no_collection():
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(spent[order[0]]) < min_rounds:
            draw.shuffle(order)
            for name in order:
                spent[name].append(sides[name]())
    return spent


def _turn(way: Way, calls: int, now: Callable[[], int]) -> int:
    """Makes all calls of a way. Returns the nanoseconds that they took."""
    spent = 0
    for number in range(calls):
        call = way(number)
        began = now()
        call()
        spent += now() - began
    return spent


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the garbage collector, whose turn would fall on whoever runs just then."""
    if not gc.isenabled():  # somebody else sees to it
        yield
        return
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread only, in the block."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
