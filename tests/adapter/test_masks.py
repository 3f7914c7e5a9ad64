"""Leased mask buffers, and filling many rows at once."""

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engine_adapter.masks import MaskBuffers, accept_tokens, are_ok, batches, fill_rows
from structout import BackendInfo, Choice, Status, Vocabulary
from structout.backend import Backend, Bitmask
from structout.constraint import AtOffset, Constraint
from structout.grammar import BoundBackend, Grammar
from tests.fakes import BYTES, EOS, TrieBackend, TrieMatcher

WIDTH = BYTES.bitmask_width
OPTIONS = ("ab", "abcd", "b", "éab")


class BatchBackend(TrieBackend):
    """Also fills in batches."""

    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [matcher.fill(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]


class RaisingBatch(BatchBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        super().fill_batch(matchers[:1], bitmask, rows[:1])
        raise RuntimeError("secret")


class ShortBatch(BatchBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return super().fill_batch(matchers, bitmask, rows)[1:]


class NonsenseBatch(BatchBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        super().fill_batch(matchers, bitmask, rows)
        return [True] * len(matchers)  # type: ignore[list-item]


class FillRaises(TrieMatcher):
    def fill(self, row: Any) -> Status:
        raise RuntimeError("secret")


GRAMMARS: dict[tuple[type[TrieBackend], type[TrieMatcher]], Grammar] = {}
"""Each is made once: constraints of two backends never share a call."""


def grammar(backend: type[TrieBackend], matcher: type[TrieMatcher]) -> Grammar:
    def create(vocabulary: Vocabulary) -> Backend:
        return backend(vocabulary, matcher)

    if (backend, matcher) not in GRAMMARS:
        info = BackendInfo(id=backend.__name__.lower(), create=create, spec_kinds=frozenset({"choice"}))
        bound = BoundBackend.create(info, None, BYTES).unwrap()
        GRAMMARS[backend, matcher] = bound.compile(Choice(OPTIONS)).unwrap()
    return GRAMMARS[backend, matcher]


def constraint(
    backend: type[TrieBackend], tokens: Sequence[int] = (), *, matcher: type[TrieMatcher] = TrieMatcher, start: int = 0
) -> Constraint:
    made = grammar(backend, matcher).start(activation=AtOffset(start)).unwrap()
    for token in tokens:
        assert made.accept(token) is Status.OK
    return made


histories = st.sampled_from([(), (97,), (97, 98), (257,), (257, 258), (98,), (98, EOS), (257, EOS)])
made = st.builds(
    constraint, st.sampled_from([TrieBackend, BatchBackend, RaisingBatch, ShortBatch]), histories, start=st.just(0)
)


@given(st.lists(made, max_size=6), st.randoms(use_true_random=False))
def test_a_batch_is_what_its_rows_are_alone(constraints: list[Constraint], random: Any) -> None:
    rows = random.sample(range(8), len(constraints))
    bitmask = np.full((8, WIDTH), 7, np.int32)
    statuses = fill_rows(constraints, bitmask, rows)
    for each, row, status in zip(constraints, rows, statuses, strict=True):
        alone = np.zeros(WIDTH, np.int32)
        assert each.fill(alone) is Status(status)
        assert (bitmask[row] == alone).all()
    untouched = sorted(set(range(8)) - set(rows))
    assert (bitmask[untouched] == 7).all()


@given(st.lists(made, max_size=6), st.data())
def test_each_is_in_one_call_with_others_of_a_backend_that_fills_batches(
    constraints: list[Constraint], data: st.DataObject
) -> None:
    indices = sorted(data.draw(st.sets(st.sampled_from(range(len(constraints)))) if constraints else st.just(set())))
    calls = batches(constraints, indices)
    assert sorted(index for call in calls for index in call) == indices
    for call in calls:
        backends = {id(constraints[index].grammar.backend) for index in call}
        assert len(call) == 1 or (len(backends) == 1 and constraints[call[0]].grammar.backend.batch_filler is not None)
    assert batches(constraints) == batches(constraints, range(len(constraints)))


@given(st.lists(st.sampled_from(Status), max_size=300))
def test_rows_are_ok_if_each_is(statuses: list[Status]) -> None:
    assert are_ok(np.array(statuses, np.uint8)) is all(status is Status.OK for status in statuses)


@pytest.mark.parametrize("backend", [BatchBackend, RaisingBatch, ShortBatch])
def test_what_goes_wrong_with_one_row_is_its_own(backend: type[TrieBackend]) -> None:
    good, bad, free = constraint(backend), constraint(backend, matcher=FillRaises), constraint(backend, start=3)
    bitmask = np.zeros((3, WIDTH), np.int32)
    assert fill_rows([good, bad, free], bitmask).tolist() == [Status.OK, Status.FAILED, Status.FREE]
    assert (bitmask[1:] == -1).all()
    assert not (bitmask[0] == -1).any()
    assert bad.error is not None
    assert "secret" not in str(bad.error.to_json())


def test_a_batch_of_answers_that_are_no_statuses_fails_its_rows() -> None:
    bitmask = np.zeros((2, WIDTH), np.int32)
    one = constraint(NonsenseBatch)
    assert fill_rows([one, one.fork().unwrap()], bitmask).tolist() == [Status.FAILED] * 2
    assert (bitmask == -1).all()


def test_one_call_accepts_a_steps_tokens() -> None:
    constraints = [constraint(TrieBackend), constraint(TrieBackend, (98, EOS)), constraint(TrieBackend)]
    assert accept_tokens(constraints, [97, 97, 99]).tolist() == [Status.OK, Status.TERMINATED, Status.REJECTED]


def test_a_buffer_is_written_again_only_when_nothing_reads_it_any_more() -> None:
    buffers = MaskBuffers(2, WIDTH, depth=2)
    waited: list[str] = []
    first, second = buffers.lease(), buffers.lease()
    assert first.bitmask.shape == (2, WIDTH)
    assert not np.shares_memory(first.bitmask, second.bitmask)
    with pytest.raises(RuntimeError, match="all 2 mask buffers are leased"):
        buffers.lease()
    first.end(after=lambda: waited.append("first copied"))
    assert not waited
    third = buffers.lease()
    assert waited == ["first copied"]
    assert third.bitmask is first.bitmask


def test_a_lease_ends_once() -> None:
    buffers = MaskBuffers(1, WIDTH, depth=1)
    lease = buffers.lease()
    lease.end()
    with pytest.raises(RuntimeError, match="has ended already"):
        lease.end()
