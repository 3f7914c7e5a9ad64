"""Leased mask buffers, and filling many rows at once."""

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engine_adapter.masks import MaskBuffers, accept_tokens, fill_rows
from structout import BackendInfo, Choice, Status, Vocabulary
from structout.backend import Backend, Bitmask
from structout.constraint import AtOffset, Constraint
from structout.grammar import BoundBackend
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


def constraint(
    backend: type[TrieBackend], tokens: Sequence[int] = (), *, matcher: type[TrieMatcher] = TrieMatcher, start: int = 0
) -> Constraint:
    def create(vocabulary: Vocabulary) -> Backend:
        return backend(vocabulary, matcher)

    info = BackendInfo(id=backend.__name__.lower(), create=create, spec_kinds=frozenset({"choice"}))
    grammar = BoundBackend.create(info, None, BYTES).unwrap().compile(Choice(OPTIONS)).unwrap()
    made = grammar.start(activation=AtOffset(start)).unwrap()
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
