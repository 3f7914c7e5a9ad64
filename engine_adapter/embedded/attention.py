"""Attention over rows of stored keys and values, for transformers models that take theirs from outside."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final, Protocol

import attrs
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from engine_adapter.embedded.kv import KVRows, Window

IMPLEMENTATION: Final = "structout_rows"
"""What `PreTrainedModel.set_attn_implementation` knows it by. transformers makes no mask for it."""

_WITHOUT_EFFECT: Final = frozenset({"position_ids", "use_cache"})
"""What models hand on to their attention, though it changes nothing there."""


class Attending(Protocol):
    """One forward pass, as its layers see it."""

    def attend(
        self, layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """One layer's attention for the pass's tokens, which are packed into one batch whoever they belong to.

        Args:
            layer: the layer's number.
            query: [1, heads, tokens, head_dim].
            keys: [1, kv_heads, tokens, head_dim], of the same tokens.
            values: like `keys`.
            scaling: of the scores; None is 1 / sqrt(head_dim).

        Returns:
            [1, tokens, heads, head_dim].
        """


class UnsupportedAttentionError(Exception):
    """A model asks its attention for more than there is here; the message says for what."""


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    attending: Attending | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls. The model is called with `attending`, and hands it on.

    Raises:
        UnsupportedAttentionError: it wants something else than attention to all that its tokens have behind them.
    """
    if attention_mask is not None or dropout or is_causal is False or not _WITHOUT_EFFECT.issuperset(others):
        _refuse(attention_mask=attention_mask, dropout=dropout or None, looking_ahead=is_causal is False, **others)
    if attending is None:
        raise UnsupportedAttentionError("attention that is not handed what the model was called with")
    layer: int = module.layer_idx  # type: ignore[assignment]  # torch does not know the attributes of its modules
    return attending.attend(layer, query, key, value, scaling), None


def _refuse(**wanted: Any) -> None:
    """Raises, unless all of it is without effect here."""
    named = sorted(wanted.keys() - _WITHOUT_EFFECT)
    if found := [name for name in named if wanted[name] is not None and wanted[name] is not False]:
        raise UnsupportedAttentionError(f"attention with {', '.join(found)}")


AttentionInterface.register(IMPLEMENTATION, attention_forward)


@attrs.frozen(eq=False)
class _Part:
    """Neighbouring rows whose attention is one call, and their tokens in it, equally many of each row.

    Attributes:
        tokens: which of the pass's tokens, row by row: a slice or int64 indices.
        width: how many of each row.
        stored: each layer's keys and values, [rows, kv_heads, length, head_dim]: up to the longest row's last token.
        mask: what to add to the scores, [rows, 1, group * width, length], -inf where a token must not look. None: each
            token looks at all that is read; or these tokens are all of it, and each looks at those before it.
    """

    tokens: slice | torch.Tensor
    width: int
    stored: list[tuple[torch.Tensor, torch.Tensor]]
    mask: torch.Tensor | None

    def attend(self, layer: int, queries: torch.Tensor, scaling: float | None) -> torch.Tensor:
        """The attention of its tokens, whose queries are [1, tokens, heads, head_dim], and so is what it returns."""
        keys, values = self.stored[layer]
        count, kv_heads, _, head_dim = keys.shape
        # The query heads of one key head become so many queries of it: no key is copied, on whichever device.
        if self.width == 1:
            grouped = queries.view(count, kv_heads, -1, head_dim)
            attended = scaled_dot_product_attention(grouped, keys, values, attn_mask=self.mask, scale=scaling)
            return attended.reshape(queries.shape)
        by_row = queries.view(count, self.width, kv_heads, -1, head_dim)
        if self.mask is None:
            whole = by_row.flatten(2, 3).transpose(1, 2)
            attended = scaled_dot_product_attention(whole, keys, values, is_causal=True, scale=scaling, enable_gqa=True)
            return attended.transpose(1, 2).reshape(queries.shape)
        by_head = by_row.permute(0, 2, 3, 1, 4)
        grouped = by_head.flatten(2, 3)
        attended = scaled_dot_product_attention(grouped, keys, values, attn_mask=self.mask, scale=scaling)
        return attended.view(by_head.shape).permute(0, 3, 1, 2, 4).reshape(queries.shape)


class RowsAttention:
    """`Attending` for one pass over `KVRows`: writes the new keys and values, and reads all there are.

    Rows with one new token are attended to in one call, over the stored rows as they lie; rows between them that have
    more take part with their last token. Neighbours with equally many more are one call.

    Args:
        rows: where keys and values are.
        window: what the pass appends.
        group: query heads to each key head.
    """

    def __init__(self, rows: KVRows, window: Window, group: int) -> None:
        self._rows = rows
        self._window = window
        self._group = group
        self._parts = list(self._split())

    def attend(
        self, layer: int, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """See `Attending.attend`."""
        self._rows.write(layer, self._window, keys, values)
        queries = query.transpose(1, 2)
        if len(self._parts) == 1:
            return self._parts[0].attend(layer, queries, scaling)
        attended = torch.empty_like(queries)
        for part in self._parts:
            attended[:, part.tokens] = part.attend(layer, queries[:, part.tokens], scaling)
        return attended

    def _split(self) -> Iterator[_Part]:
        """The window's parts; one may repeat tokens of those before it."""
        widths, ends = self._window.widths, self._window.ends
        row = 0
        for width, run in groupby(widths):
            rows = slice(row, row := row + len(list(run)))
            if width > 1:
                yield self._part(rows, slice(ends[rows.start] - width, ends[rows.stop - 1]), width)
        single = [row for row, width in enumerate(widths) if width == 1]
        if single:
            rows = slice(single[0], single[-1] + 1)
            last = [end - 1 for end in ends[rows]]
            is_packed = last[-1] - last[0] == len(last) - 1
            indices = self._window.positions.new_tensor
            yield self._part(rows, slice(last[0], last[-1] + 1) if is_packed else indices(last), 1)

    def _part(self, rows: slice, tokens: slice | torch.Tensor, width: int) -> _Part:
        """So many tokens each of some of the window's rows."""
        lengths = set(self._window.lengths[rows])
        length = max(lengths)
        mask = None
        if len(lengths) > 1 or width not in (1, length):
            positions = self._window.positions[tokens].view(-1, width, 1)
            hidden = torch.arange(length, device=positions.device) > positions
            mask = torch.zeros(hidden.shape, dtype=self._rows.dtype, device=hidden.device)
            mask = mask.masked_fill_(hidden, -torch.inf).repeat(1, self._group, 1)[:, None]
        first = self._window.first
        stored = self._rows.views(slice(first + rows.start, first + rows.stop), length)
        return _Part(tokens, width, stored, mask)
