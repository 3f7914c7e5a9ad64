"""Attention over rows is the plain formula for each token: over what its own row holds up to it."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from engine_adapter.embedded.attention import RowsAttention, UnsupportedAttentionError, attention_forward
from engine_adapter.embedded.kv import KVRows

KV_HEADS, DIM, ROWS = 2, 4, 6
LAYER, SCALING = 1, 0.7


def filled(held: Sequence[int], random: torch.Generator) -> KVRows:
    """Rows that hold so many tokens each, with random keys and values."""
    rows = KVRows(
        layers=2,
        kv_heads=KV_HEADS,
        head_dim=DIM,
        max_rows=ROWS,
        max_len=64,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )
    for row, tokens in enumerate(held):
        if tokens:
            with rows.appending(row, [tokens]) as window:
                new = torch.randn(2, 1, KV_HEADS, tokens, DIM, generator=random)
                rows.write(LAYER, window, *new)
    return rows


def plainly(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One token's attention, [heads, dim], to keys and values [kv_heads, length, dim] which are all that it sees."""
    group = len(query) // KV_HEADS
    scores = torch.einsum("hd,hld->hl", query, keys.repeat_interleave(group, 0)) * SCALING
    return torch.einsum("hl,hld->hd", scores.softmax(-1), values.repeat_interleave(group, 0))


ROW = st.tuples(st.integers(0, 9), st.one_of(st.just(1), st.integers(1, 5)))
"""How many tokens a row holds, and how many it gets; one, more often than not."""


@given(st.lists(ROW, min_size=1, max_size=4), st.integers(0, 2), st.sampled_from([1, 2, 3]), st.integers(0, 2**32))
def test_each_token_sees_its_own_row_up_to_itself(
    rows_of_pass: list[tuple[int, int]], first: int, group: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    held = [*[3] * first, *(before for before, _ in rows_of_pass)]
    widths = [width for _, width in rows_of_pass]
    rows = filled(held, random)
    query = torch.randn(1, group * KV_HEADS, sum(widths), DIM, generator=random)
    keys, values = torch.randn(2, 1, KV_HEADS, sum(widths), DIM, generator=random)
    with rows.appending(first, widths) as window:
        attended = RowsAttention(rows, window, group).attend(LAYER, query, keys, values, SCALING)
    assert attended.shape == (1, sum(widths), group * KV_HEADS, DIM)
    token = 0
    for row, (before, width) in enumerate(rows_of_pass, start=first):
        for position in range(before, before + width):
            stored_keys, stored_values = (part[0] for part in rows.views(slice(row, row + 1), position + 1)[LAYER])
            assert torch.equal(stored_keys[:, position], keys[0, :, token])
            expected = plainly(query[0, :, token], stored_keys, stored_values)
            torch.testing.assert_close(attended[0, token], expected, atol=1e-5, rtol=1e-5)
            token += 1


@pytest.mark.parametrize(
    ("widths", "calls"),
    [
        ([1], [1]),
        ([7], [1]),
        ([1] * 5, [5]),
        ([1, 1, 4, 1, 1], [1, 5]),
        ([3, 3, 3, 1, 1], [3, 2]),
        ([3, 3, 2, 2, 4], [2, 2, 1]),
        ([1, 2, 3, 2, 1], [1, 1, 1, 5]),
    ],
)
def test_all_rows_with_one_token_are_one_call_over_the_rows_as_they_are_stored(
    widths: list[int], calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many rows each call is over, and that the keys are no copies."""
    rows = filled([5] * ROWS, torch.Generator().manual_seed(0))
    stored, _ = rows.views(slice(0, ROWS), 5)[LAYER]
    seen: list[int] = []

    def counting(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, **options: Any) -> torch.Tensor:
        assert keys.untyped_storage().data_ptr() == stored.untyped_storage().data_ptr()
        seen.append(len(query))
        return scaled_dot_product_attention(query, keys, values, **options)

    monkeypatch.setattr("engine_adapter.embedded.attention.scaled_dot_product_attention", counting)
    new = torch.ones(1, KV_HEADS, sum(widths), DIM)
    with rows.appending(0, widths) as window:
        RowsAttention(rows, window, 1).attend(LAYER, new, new, new, None)
    assert seen == calls


class Untouched:
    """A pass that must not come to attention."""

    def attend(self, *arguments: Any) -> torch.Tensor:
        raise AssertionError(arguments)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"attending": None}, "that is not handed what the model was called with"),
        ({"attention_mask": torch.zeros(1, 1, 1, 1)}, "with attention_mask"),
        ({"dropout": 0.1}, "with dropout"),
        ({"is_causal": False}, "with looking_ahead"),
        ({"sliding_window": 8}, "with sliding_window"),
        ({"softcap": 50.0, "s_aux": torch.zeros(2)}, "with s_aux, softcap"),
    ],
)
def test_what_would_change_attention_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    token = torch.ones(1, KV_HEADS, 1, DIM)
    without_effect = {"attention_mask": None, "sliding_window": None, "output_attentions": False, "use_cache": True}
    options = {**without_effect, "attending": Untouched(), **options}
    with pytest.raises(UnsupportedAttentionError, match=f"attention {named}$"):
        attention_forward(torch.nn.Module(), token, token, token, **options)
