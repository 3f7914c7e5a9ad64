"""The draws and the slots of running requests."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.sampling import SamplingBatch, SamplingParams, SamplingRows, request_uniform

seeds = st.integers(-(2**63), 2**63 - 1)


@given(seed=seeds, position=st.integers(0, 300))
def test_draw_is_found_by_counter(seed: int, position: int) -> None:
    stream = np.random.Generator(np.random.Philox(key=seed % 2**64)).random(position + 1)
    assert request_uniform(seed, position) == stream[position]


@given(
    requests=st.lists(seeds, min_size=1, max_size=20),
    steps=st.lists(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 400)), max_size=8), max_size=8),
)
def test_each_row_gets_its_request_s_settings_and_draw(requests: list[int], steps: list[list[tuple[int, int]]]) -> None:
    """Also when a request has rows in two chunks of draws, goes back, or repeats a position."""
    batch = SamplingBatch()
    params = [SamplingParams(seed=seed, top_k=number, temperature=0.5 + number) for number, seed in enumerate(requests)]
    slots = [batch.join(each) for each in params]
    for step in steps:
        pairs = [(request % len(requests), position) for request, position in step]
        rows = batch.rows([slots[request] for request, _ in pairs], [position for _, position in pairs])
        assert rows.top_k.tolist() == [request for request, _ in pairs]
        assert rows.temperature.tolist() == [0.5 + request for request, _ in pairs]
        assert rows.uniforms.tolist() == [request_uniform(requests[request], position) for request, position in pairs]


@given(
    running=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    steps=st.lists(st.none() | st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=20),
)
def test_rows_of_a_step_are_its_own(running: list[int], steps: list[tuple[int, int] | None]) -> None:
    """Step after step of the same slots, whose requests change: each has what its own ask for, and keeps it."""
    batch = SamplingBatch()
    slots = [batch.join(_asking_for(number)) for number in running]
    made: list[tuple[SamplingRows, list[int], int]] = []
    for position, change in enumerate(steps):
        if change is not None:
            row, running = change[0] % len(slots), running.copy()
            running[row] = change[1]
            batch.leave(slots[row])
            slots[row] = batch.join(_asking_for(running[row]))
        made.append((batch.rows(slots, [position] * len(slots)), running, position))
    for rows, numbers, position in made:
        assert rows.top_k.tolist() == numbers
        assert rows.logprobs.tolist() == numbers
        assert rows.settings.alternatives == max(numbers)
        drawn = [uniform for number, uniform in zip(numbers, rows.uniforms.tolist(), strict=True) if number % 2]
        assert drawn == [request_uniform(number, position) for number in numbers if number % 2]


def _asking_for(number: int) -> SamplingParams:
    """What is known by its number in all columns; greedy if that is even."""
    return SamplingParams(seed=number, temperature=number % 2, top_k=number, logprobs=number)


@pytest.mark.parametrize("position", [-1, -64, -65])
def test_position_below_0_is_refused(position: int) -> None:
    """No draw of whoever had the slot before is taken for it."""
    batch = SamplingBatch()
    slot = batch.join(SamplingParams(seed=1))
    with pytest.raises(ValueError, match="positions count from 0"):
        batch.rows([slot], [position])


def test_slot_is_used_again_with_nothing_of_the_last_request() -> None:
    batch = SamplingBatch()
    first = batch.join(SamplingParams(seed=1, top_k=5, logprobs=2))
    batch.rows([first], [0])
    batch.leave(first)
    assert batch.join(SamplingParams(seed=2)) == first
    rows = batch.rows([first], [0])
    assert (rows.top_k.tolist(), rows.logprobs.tolist()) == ([0], [-1])
    assert rows.uniforms.tolist() == [request_uniform(2, 0)]


def test_free_slot_is_refused() -> None:
    batch = SamplingBatch()
    slot = batch.join(SamplingParams())
    batch.leave(slot)
    with pytest.raises(ValueError, match=f"slot {slot} is free"):
        batch.rows([slot], [0])
    with pytest.raises(ValueError, match=f"slot {slot} is free"):
        batch.leave(slot)
    with pytest.raises(ValueError, match="slot -1 is free"):
        batch.rows([-1], [0])
    with pytest.raises(ValueError, match="1 slots but 2 positions"):
        batch.rows([batch.join(SamplingParams())], [0, 1])


def test_requests_without_a_seed_draw_differently() -> None:
    batch = SamplingBatch()
    slots = [batch.join(SamplingParams()) for _ in range(50)]
    assert len(set(batch.rows(slots, [0] * 50).uniforms.tolist())) == 50
    assert SamplingParams(seed=7).seeded().seed == 7


def test_temperature_too_small_to_divide_by_is_greedy() -> None:
    rows = SamplingRows.of([SamplingParams(temperature=1e-6), SamplingParams(temperature=1e-5)], [0.0, 0.0])
    assert (rows.temperature == 0).tolist() == [True, False]
