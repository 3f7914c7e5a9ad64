"""Shrinking: what comes out still fails, is no bigger, and is as small as it gets for simple predicates."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structout.fuzz.choices import Choices, Seeded
from structout.fuzz.shrinking import Shrinker, Trace

FOREVER = time.monotonic() + 1e9


def numbers(choices: Choices) -> list[int]:
    """Up to eight numbers below a thousand, each a part."""
    found: list[int] = []
    while len(found) < 8 and not choices.one_in(4):
        found.append(choices.part(lambda: choices.below(1000)))
    return found


Tree = list["Tree"]


def tree(choices: Choices, depth: int = 4) -> Tree:
    inner: Tree = []
    while depth and choices.part(lambda: _grow(choices, inner, depth)):
        pass
    return inner


def _grow(choices: Choices, inner: Tree, depth: int) -> bool:
    goes_on = choices.below(2) == 1
    if goes_on:
        inner.append(tree(choices, depth - 1))
    return goes_on


def shrunk(seed: int, threshold: int) -> tuple[list[int], list[int], Trace, Trace] | None:
    """Numbers whose sum is over a threshold, and what shrinking makes of them."""
    trace = Trace(rest=random.Random(seed))
    before = numbers(trace)
    if sum(before) <= threshold:
        return None
    shrinker = Shrinker(numbers, lambda found: sum(found) > threshold, before, trace, FOREVER)
    return before, shrinker.shrink(), trace, shrinker.trace


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(0, 500))
def test_the_result_still_fails_and_is_no_bigger(seed: int, threshold: int) -> None:
    if found := shrunk(seed, threshold):
        before, after, first, last = found
        assert sum(after) > threshold
        assert len(after) <= len(before)
        assert (len(last.used), last.used) <= (len(first.used), first.used)
        assert numbers(Trace(last.used)) == after


@pytest.mark.parametrize("threshold", [0, 7, 500])
def test_it_finds_the_smallest_number(threshold: int) -> None:
    traces = [
        trace for seed in range(12) if max(numbers(trace := Trace(rest=random.Random(seed))), default=0) > threshold
    ]
    assert traces
    for trace in traces:
        before = numbers(Trace(trace.used))
        shrinker = Shrinker(numbers, lambda found: max(found, default=0) > threshold, before, trace, FOREVER)
        assert shrinker.shrink() == [threshold + 1]


def test_it_finds_the_smallest_tree() -> None:
    def depth(found: Tree) -> int:
        return 1 + max(map(depth, found), default=0)

    trace = next(trace for seed in range(99) if depth(tree(trace := Trace(rest=random.Random(seed)))) >= 4)
    before = tree(Trace(trace.used))
    assert Shrinker(tree, lambda found: depth(found) >= 4, before, trace, FOREVER).shrink() == [[[[]]]]


def test_it_shortens_what_follows_its_length() -> None:
    def make(choices: Choices) -> tuple[list[int], int]:
        return [choices.below(9) for _ in range(choices.below(9))], choices.below(9)

    trace = Trace([4, 1, 2, 3, 4, 5])
    shrinker = Shrinker(make, lambda found: len(found[0]) > 1 and found[1] == 5, make(trace), trace, FOREVER)
    assert shrinker.shrink() == ([0, 0], 5)


def test_it_stops_when_the_time_is_up() -> None:
    trace = Trace(rest=random.Random(1))
    before = numbers(trace)

    def fails(_found: list[int]) -> bool:
        raise AssertionError("the time was up before")

    assert Shrinker(numbers, fails, before, trace, time.monotonic() - 1.0).shrink() is before


def test_no_choices_are_tried_twice() -> None:
    seen: list[list[int]] = []
    trace = Trace([5, 900, 33])

    def make(choices: Choices) -> list[int]:
        return [choices.below(1000) for _ in range(3)]

    def fails(found: list[int]) -> bool:
        seen.append(found)
        return found[1] > 600

    assert Shrinker(make, fails, make(trace), trace, FOREVER).shrink() == [0, 601, 0]
    assert len(seen) == len(set(map(tuple, seen)))


@given(st.integers(0, 2**32))
def test_a_trace_repeats_what_it_remembers(seed: int) -> None:
    trace = Trace(rest=random.Random(seed))
    made = tree(trace)
    assert tree(Trace(trace.used)) == made
    assert all(0 <= start <= end <= len(trace.used) for start, end in trace.parts)


def test_choices_out_of_bounds_and_beyond_the_end() -> None:
    trace = Trace([9, 9])
    assert [trace.below(4), trace.below(100), trace.below(5)] == [3, 9, 0]
    assert trace.used == [3, 9, 0]


@given(st.integers(0, 2**32), st.integers(-5, 5), st.integers(-5, 5))
def test_seeded_choices_are_in_bounds_and_repeat(seed: int, low: int, high: int) -> None:
    one, other = Seeded(seed), Seeded(seed)
    numbers = [one.between(low, high) for _ in range(5)]
    assert numbers == [other.between(low, high) for _ in range(5)]
    assert all(low <= number <= max(low, high) for number in numbers)
    assert one.weighted([(0, "never"), (1, "always")]) == "always"
