"""Rows keep what was written to them, whatever happens to the others."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from engine_adapter.embedded.kv import KVRows

LAYERS, HEADS, DIM, ROWS, LENGTH = 2, 3, 4, 5, 300


def make_rows(max_rows: int = ROWS, max_len: int = LENGTH) -> KVRows:
    return KVRows(
        layers=LAYERS,
        kv_heads=HEADS,
        head_dim=DIM,
        max_rows=max_rows,
        max_len=max_len,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


def append(rows: KVRows, first: int, new: torch.Tensor) -> torch.Tensor:
    """Writes `new` [layers, 2, count, heads, width, dim] and returns what attention reads, stacked the same way."""
    with rows.appending(first, new.shape[2], new.shape[4]) as window:
        return torch.stack([torch.stack(rows.write(layer, window, *new[layer])) for layer in range(LAYERS)])


class RowsMachine(RuleBasedStateMachine):
    """`KVRows` against one plain tensor [layers, 2, heads, length, dim] a row."""

    @initialize()
    def start(self) -> None:
        self.rows = make_rows()
        self.expected = [torch.zeros(LAYERS, 2, HEADS, 0, DIM) for _ in range(ROWS)]
        self.random = torch.Generator().manual_seed(0)

    @rule(first=st.integers(0, ROWS - 1), count=st.integers(1, ROWS), width=st.integers(1, 70))
    def append(self, first: int, count: int, width: int) -> None:
        chosen = self.expected[first : first + count]
        new = torch.randn(LAYERS, 2, count, HEADS, width, DIM, generator=self.random)
        if first + count > ROWS or max(row.shape[3] for row in chosen) + width > LENGTH:
            with pytest.raises(ValueError, match="cannot take"):
                append(self.rows, first, new)
            return
        read = append(self.rows, first, new)
        for index, old in enumerate(chosen):
            whole = torch.cat([old, new[:, :, index]], dim=3)
            self.expected[first + index] = whole
            assert torch.equal(read[:, :, index, :, : whole.shape[3]], whole)
            assert not read[:, :, index, :, whole.shape[3] :].any(), "not zero beyond a row's length"

    @rule(first=st.integers(0, ROWS - 1), width=st.integers(1, 70))
    def fail_midway(self, first: int, width: int) -> None:
        """A forward pass that fails after the first layer, having written what must not stay."""
        poison = torch.full((1, 2, 1, HEADS, width, DIM), torch.nan)
        if self.rows.length(first) + width <= LENGTH:
            with pytest.raises(IndexError):
                append(self.rows, first, poison)

    @rule(a=st.integers(0, ROWS - 1), b=st.integers(0, ROWS - 1))
    def swap(self, a: int, b: int) -> None:
        self.rows.swap(a, b)
        self.expected[a], self.expected[b] = self.expected[b], self.expected[a]

    @rule(row=st.integers(0, ROWS - 1), part=st.floats(0, 1.5))
    def truncate(self, row: int, part: float) -> None:
        length = int(self.expected[row].shape[3] * part)
        self.rows.truncate(row, length)
        self.expected[row] = self.expected[row][:, :, :, :length]

    def teardown(self) -> None:
        for row, expected in enumerate(getattr(self, "expected", [])):
            assert self.rows.length(row) == expected.shape[3]


TestRows = RowsMachine.TestCase
TestRows.settings = settings(max_examples=60, stateful_step_count=25)


def test_swapping_and_truncating_rows_never_used_is_harmless() -> None:
    rows = make_rows()
    rows.swap(0, 4)
    rows.truncate(4, 0)
    assert [rows.length(row) for row in range(ROWS)] == [0] * ROWS


def test_what_attention_reads_is_the_stored_rows_not_a_copy() -> None:
    rows = make_rows()
    read = [append_layer(rows, torch.ones(2, HEADS, 1, DIM)) for _ in range(2)]
    assert read[0].untyped_storage().data_ptr() == read[1].untyped_storage().data_ptr()
    assert read[1].untyped_storage().nbytes() >= 2 * LAYERS * read[1].nbytes


def append_layer(rows: KVRows, new: torch.Tensor) -> torch.Tensor:
    with rows.appending(0, 2, 1) as window:
        return rows.write(0, window, new, new)[0]


def test_memory_follows_use_and_not_the_limits() -> None:
    rows = make_rows(max_rows=32, max_len=2048)
    whole = 32 * 2048 * LAYERS * 2 * HEADS * DIM * 4
    keys = append_layer(rows, torch.ones(2, HEADS, 1, DIM))
    assert keys.untyped_storage().nbytes() <= whole / 100


def test_a_token_sees_the_past_of_its_own_row_and_itself() -> None:
    rows = make_rows()
    append(rows, 1, torch.ones(LAYERS, 2, 1, HEADS, 2, DIM))
    with rows.appending(0, 2, 2) as window:
        seen = window.attention_mask(torch.float32) == 0
    assert window.positions.tolist() == [[0, 1], [2, 3]]
    assert seen.shape == (2, 1, 2, 4)
    assert seen[:, 0].int().tolist() == [[[1, 0, 0, 0], [1, 1, 0, 0]], [[1, 1, 1, 0], [1, 1, 1, 1]]]
