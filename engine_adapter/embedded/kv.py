"""Keys and values of many sequences, one row each, laid out so that a decode step reads them without a copy."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate

import attrs
import torch

_FIRST_LENGTH = 128
"""Positions a row has room for at first: a short prompt and its answer, so that most runs grow once or twice."""


@attrs.frozen(eq=False)
class Window:
    """What one forward pass appends: to each of some neighbouring rows one token or more. They are packed: first those
    of the first row, then those of the next.

    Attributes:
        first: the first row.
        widths: how many tokens each row gets.
        ends: for each row, how many tokens the pass has up to its last.
        lengths: how many tokens each row holds after the pass.
        positions: int64 [tokens]; the position of each token in its row.
        places: int64 [2 * kv_heads * tokens]; where a layer's slab, as vectors of head_dim, takes the tokens' keys and
            values.
    """

    first: int
    widths: tuple[int, ...]
    ends: tuple[int, ...]
    lengths: tuple[int, ...]
    positions: torch.Tensor
    places: torch.Tensor


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
        self._set_slab(torch.zeros((layers, 2, 0, kv_heads, 0, head_dim), dtype=dtype, device=device))

    def _set_slab(self, slab: torch.Tensor) -> None:
        """Remembers, with the slab, its views by layer as vectors of head_dim, and where those of position 0 of row 0
        are: int64 [2, kv_heads, 1]."""
        _, two, rows, kv_heads, length, _ = slab.shape
        heads = torch.arange(two * rows * kv_heads, device=slab.device).view(two, rows, kv_heads, 1)
        first_places = heads[:, :1].squeeze(1) * length
        # At once: an exception above leaves all three as they were.
        self._slab, self._vectors, self._first_places = slab, slab.flatten(1, -2).unbind(0), first_places

    @property
    def dtype(self) -> torch.dtype:
        """Of the keys and values."""
        return self._slab.dtype

    def length(self, row: int) -> int:
        """How many tokens the row holds."""
        return self._lengths[row]

    @contextmanager
    def appending(self, first: int, widths: Sequence[int]) -> Iterator[Window]:
        """Makes `widths[i]` more tokens part of row `first + i`, for a forward pass that writes them in the block.

        Raises:
            ValueError: a row gets no token, does not exist, or would outgrow `max_len`; nothing has changed.

        An exception inside the block takes the tokens back.
        """
        before = self._lengths[first : first + len(widths)]
        if not widths or min(widths) < 1:
            raise ValueError(f"rows from {first} on are to get {list(widths)} tokens; each needs one at least")
        after = [length + width for length, width in zip(before, widths, strict=False)]
        if len(before) < len(widths) or max(after) > self.max_len:
            raise ValueError(
                f"rows {first}..{first + len(widths) - 1} cannot take {list(widths)} tokens more ({before=})"
            )
        self._reserve(first + len(widths), max(after))
        self._lengths[first : first + len(widths)] = after
        try:
            yield self._window(first, tuple(widths), tuple(after))
        except BaseException:
            for row, length in enumerate(before, start=first):
                self.truncate(row, length)
            raise

    def _window(self, first: int, widths: tuple[int, ...], lengths: tuple[int, ...]) -> Window:
        _, _, _, kv_heads, capacity, _ = self._slab.shape
        positions: list[int] = []
        places: list[int] = []
        for row, (width, length) in enumerate(zip(widths, lengths, strict=True), start=first):
            row_place = row * kv_heads * capacity
            positions += range(length - width, length)
            places += range(row_place + length - width, row_place + length)
        device = self._slab.device
        return Window(
            first=first,
            widths=widths,
            ends=tuple(accumulate(widths)),
            lengths=lengths,
            positions=torch.tensor(positions, device=device),
            places=(self._first_places + torch.tensor(places, device=device)).flatten(),
        )

    def write(self, layer: int, window: Window, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Stores one layer's new keys and values, [1, kv_heads, tokens, head_dim], at the window's positions."""
        self._vectors[layer].index_copy_(0, window.places, torch.stack((keys, values)).flatten(0, -2))

    def views(self, rows: slice, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Each layer's keys and values up to some length, [rows, kv_heads, length, head_dim]: what is written shows."""
        return [(keys, values) for keys, values in self._slab[:, :, rows, :, :length].unbind(0)]

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
        self._set_slab(grown)
