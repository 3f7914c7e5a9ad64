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


def append(rows: KVRows, first: int, widths: list[int], new: torch.Tensor) -> list[torch.Tensor]:
    """Writes `new` [layers, 2, heads, tokens, dim], packed, and returns what each row then is: [layers, 2, heads,
    length, dim] of the longest."""
    with rows.appending(first, widths) as window:
        for layer in range(LAYERS):
            rows.write(layer, window, *new[layer, :, None])
    read = rows.views(slice(first, first + len(widths)), max(window.lengths))
    return list(torch.stack([torch.stack(each) for each in read]).unbind(2))


class RowsMachine(RuleBasedStateMachine):
    """`KVRows` against one plain tensor [layers, 2, heads, length, dim] a row."""

    @initialize()
    def start(self) -> None:
        self.rows = make_rows()
        self.expected = [torch.zeros(LAYERS, 2, HEADS, 0, DIM) for _ in range(ROWS)]
        self.random = torch.Generator().manual_seed(0)

    @rule(first=st.integers(0, ROWS - 1), widths=st.lists(st.integers(1, 70), min_size=1, max_size=ROWS))
    def append(self, first: int, widths: list[int]) -> None:
        chosen = self.expected[first : first + len(widths)]
        new = torch.randn(LAYERS, 2, HEADS, sum(widths), DIM, generator=self.random)
        after = [row.shape[3] + width for row, width in zip(chosen, widths, strict=False)]
        if first + len(widths) > ROWS or max(after) > LENGTH:
            with pytest.raises(ValueError, match="cannot take"):
                append(self.rows, first, widths, new)
            return
        read = append(self.rows, first, widths, new)
        for row, (old, its_new, its_read) in enumerate(
            zip(chosen, torch.split(new, widths, 3), read, strict=True), first
        ):
            self.expected[row] = whole = torch.cat([old, its_new], dim=3)
            assert torch.equal(its_read[..., : whole.shape[3], :], whole)
            assert not its_read[..., whole.shape[3] :, :].any(), "not zero beyond a row's length"

    @rule(first=st.integers(0, ROWS - 1), widths=st.lists(st.integers(1, 70), min_size=1, max_size=ROWS))
    def fail_midway(self, first: int, widths: list[int]) -> None:
        """A forward pass that fails after the first layer, having written what must not stay."""
        poison = torch.full((1, 2, HEADS, sum(widths), DIM), torch.nan)
        held = [row.shape[3] for row in self.expected[first:]]
        if len(widths) <= len(held) and all(map(lambda had, width: had + width <= LENGTH, held, widths)):
            with pytest.raises(IndexError):
                append(self.rows, first, widths, poison)

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


def test_what_is_read_is_the_stored_rows_not_a_copy() -> None:
    rows = make_rows()
    read = [append_layer(rows) for _ in range(2)]
    assert read[0].untyped_storage().data_ptr() == read[1].untyped_storage().data_ptr()
    assert read[1].untyped_storage().nbytes() >= 2 * LAYERS * read[1].nbytes


def append_layer(rows: KVRows) -> torch.Tensor:
    new = torch.ones(1, HEADS, 2, DIM)
    with rows.appending(0, [1, 1]) as window:
        rows.write(0, window, new, new)
        return rows.views(slice(0, 2), 1)[0][0]


def test_memory_follows_use_and_not_the_limits() -> None:
    rows = make_rows(max_rows=32, max_len=2048)
    whole = 32 * 2048 * LAYERS * 2 * HEADS * DIM * 4
    assert append_layer(rows).untyped_storage().nbytes() <= whole / 100


def test_a_window_says_at_which_position_each_of_its_packed_tokens_is() -> None:
    rows = make_rows()
    append(rows, 2, [2], torch.ones(LAYERS, 2, HEADS, 2, DIM))
    with rows.appending(1, [1, 3, 2]) as window:
        assert window.positions.tolist() == [0, 2, 3, 4, 0, 1]
        assert (window.ends, window.lengths) == ((1, 4, 6), (1, 5, 2))


@pytest.mark.parametrize("widths", [[], [0], [1, 0, 2]])
def test_each_row_of_a_window_gets_a_token(widths: list[int]) -> None:
    rows = make_rows()
    with pytest.raises(ValueError, match="each needs one at least"), rows.appending(0, widths):
        pytest.fail("it began")
    assert [rows.length(row) for row in range(ROWS)] == [0] * ROWS


@pytest.mark.parametrize(("owner", "name"), [(torch.Tensor, "new_zeros"), (torch, "arange"), (torch, "tensor")])
def test_rows_that_get_no_memory_are_as_before(owner: object, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever allocation of a growing pass it is that fails, what is written afterwards is what is read."""
    rows = make_rows()
    append(rows, 0, [2], torch.ones(LAYERS, 2, HEADS, 2, DIM))

    def fails(*_arguments: object, **_options: object) -> None:
        raise MemoryError

    more = torch.full((LAYERS, 2, HEADS, 200, DIM), 2.0)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fails)
        with pytest.raises(MemoryError):
            append(rows, 0, [200], more)
    assert rows.length(0) == 2
    [read] = append(rows, 0, [1], torch.full((LAYERS, 2, HEADS, 1, DIM), 3.0))
    assert (read[..., 0] == torch.tensor([1.0, 1.0, 3.0])).all()
