"""Keys and values of many sequences, one row each, laid out so that a decode step reads them without a copy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from transformers import Cache

_FIRST_LENGTH = 128
"""Positions a row has room for at first: a short prompt and its answer, so that most runs grow once or twice."""


@attrs.frozen
class Window:
    """Where one forward pass writes, and what it reads: `count` neighbouring rows from row `first` on.

    Attributes:
        first: the first row.
        count: how many rows.
        length: how many positions of each row attention reads: the longest row's length after the pass.
        rows: int64 [count, 1]; each row's number.
        positions: int64 [count, width]; each new token's position in its own row.
    """

    first: int
    count: int
    length: int
    rows: torch.Tensor
    positions: torch.Tensor

    def attention_mask(self, dtype: torch.dtype) -> torch.Tensor:
        """What to add to the attention scores, [count, 1, width, length]: -inf after a token's own position, else 0."""
        keys = torch.arange(self.length, device=self.positions.device)
        hidden = keys > self.positions[:, None, :, None]
        return torch.zeros(hidden.shape, dtype=dtype, device=hidden.device).masked_fill_(hidden, -torch.inf)


class KVRows:
    """The keys and values of up to `max_rows` sequences of up to `max_len` tokens each.

    All layers live in one slab [layers, 2 (keys, values), rows, kv_heads, positions, head_dim], so a row is moved or
    cleared by one operation, and neighbouring rows up to some length are a view. Rows and positions are allocated
    when they are first needed, at least doubling, so unused rows and lengths cost no memory.

    What lies beyond a row's length is always zero. It must be finite: attention multiplies what its mask hides by
    0, and 0 * NaN would carry a failed sequence's NaN into its neighbours and into the row's next user.
    """

    def __init__(
        self,
        *,
        layers: int,
        kv_heads: int,
        head_dim: int,
        max_rows: int,
        max_len: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.max_rows = max_rows
        self.max_len = max_len
        self._lengths = [0] * max_rows
        self._slab = torch.zeros((layers, 2, 0, kv_heads, 0, head_dim), dtype=dtype, device=device)

    def length(self, row: int) -> int:
        """How many tokens the row holds."""
        return self._lengths[row]

    @contextmanager
    def appending(self, first: int, count: int, width: int) -> Iterator[Window]:
        """Makes `width` more tokens part of each of `count` rows, for a forward pass that writes them in the block.

        Raises:
            ValueError: a row does not exist, or would outgrow `max_len`; nothing has changed.

        An exception inside the block takes the tokens back.
        """
        before = self._lengths[first : first + count]
        after = [length + width for length in before]
        if len(before) < count or max(after) > self.max_len:
            raise ValueError(f"rows {first}..{first + count - 1} cannot take {width} tokens more ({before=})")
        self._reserve(first + count, max(after))
        rows = torch.arange(first, first + count, device=self._slab.device)[:, None]
        starts = torch.tensor(before, device=self._slab.device)[:, None]
        positions = starts + torch.arange(width, device=self._slab.device)
        self._lengths[first : first + count] = after
        try:
            yield Window(first, count, length=max(after), rows=rows, positions=positions)
        except BaseException:
            for row, length in enumerate(before, start=first):
                self.truncate(row, length)
            raise

    def write(
        self, layer: int, window: Window, keys: torch.Tensor, values: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Stores one layer's new keys and values, [count, kv_heads, width, head_dim], at the window's positions.

        Returns:
            Views of all the keys and values up to the window's length, [count, kv_heads, length, head_dim].
        """
        stored_keys, stored_values = self._slab[layer]
        stored_keys[window.rows, :, window.positions] = keys.transpose(1, 2)
        stored_values[window.rows, :, window.positions] = values.transpose(1, 2)
        read = slice(window.first, window.first + window.count)
        return stored_keys[read, :, : window.length], stored_values[read, :, : window.length]

    def swap(self, a: int, b: int) -> None:
        """Exchanges two rows."""
        used = max(self._lengths[a], self._lengths[b])
        self._reserve(max(a, b) + 1, used)
        row_a, row_b = self._slab[:, :, a, :, :used], self._slab[:, :, b, :, :used]
        kept = row_a.clone()
        row_a.copy_(row_b)
        row_b.copy_(kept)
        self._lengths[a], self._lengths[b] = self._lengths[b], self._lengths[a]

    def truncate(self, row: int, length: int) -> None:
        """Drops what the row holds beyond `length` tokens; 0 frees the row."""
        if length < self._lengths[row]:
            self._slab[:, :, row, :, length : self._lengths[row]] = 0
            self._lengths[row] = length

    def _reserve(self, rows: int, length: int) -> None:
        """Allocates at least `rows` rows of `length` positions, keeping what is stored."""
        layers, two, had_rows, kv_heads, had_length, head_dim = self._slab.shape
        if rows <= had_rows and length <= had_length:
            return
        rows = min(max(rows, 2 * had_rows), self.max_rows) if rows > had_rows else had_rows
        length = min(max(length, 2 * had_length, _FIRST_LENGTH), self.max_len) if length > had_length else had_length
        grown = self._slab.new_zeros((layers, two, rows, kv_heads, length, head_dim))
        grown[:, :, :had_rows, :, :had_length] = self._slab
        self._slab = grown


class WindowCache(Cache):
    """What a transformers model is given as its cache: one forward pass's window on the rows."""

    def __init__(self, rows: KVRows, window: Window) -> None:
        super().__init__(layers=[])
        self._rows = rows
        self._window = window

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """See `KVRows.write`; models pass more arguments, for kinds of cache that this is not."""
        return self._rows.write(layer_idx, self._window, key_states, value_states)
