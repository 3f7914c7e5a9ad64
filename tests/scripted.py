"""A model whose logits are scripted, for tests of the engine."""

import zlib
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch

from tests.fakes import BYTES

HIDDEN_SIZE = 5


def states_after(tokens: Sequence[int]) -> torch.Tensor:
    """A last hidden state."""
    seed = zlib.crc32(np.asarray([-1, *tokens], np.int64).tobytes())
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(HIDDEN_SIZE).astype(np.float32))


class ScriptedRunner:
    """A model without weights: logits are a fixed function of all tokens in a row.

    It checks how it is driven (chunks in order, rows in range), so that an engine that mixes up rows is found, and its
    output for a request does not depend on what runs beside it. ``fail_on`` names a token that makes the forward
    passes that meet it raise.
    """

    device: ClassVar[torch.device] = torch.device("cpu")

    def __init__(self, logit_width: int = BYTES.padded_size, *, max_rows: int = 4, max_len: int = 64) -> None:
        self.logit_width = logit_width
        self.max_rows = max_rows
        self.max_len = max_len
        self.fail_on: int | None = None
        self.prefilled = 0
        self._rows: list[list[int]] = [[] for _ in range(max_rows)]

    def logits_of(self, tokens: Sequence[int]) -> torch.Tensor:
        seed = zlib.crc32(np.asarray(tokens, np.int64).tobytes())
        return torch.from_numpy(np.random.default_rng(seed).standard_normal(self.logit_width).astype(np.float32))

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        assert start == len(self._rows[row]), "a chunk has to follow what the row holds"
        assert tokens, "a chunk has at least one token"
        self._check(tokens)
        self._rows[row] += tokens
        self.prefilled += len(tokens)
        assert len(self._rows[row]) <= self.max_len
        return self.logits_of(self._rows[row])

    def prefill_pooled(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        """The sum of as many vectors, each of which is a function of its token and of all before it."""
        states = [states_after([*self._rows[row], *tokens[:end]]) for end in range(1, len(tokens) + 1)]
        self.prefill(row, tokens, start)
        return torch.stack(states).double().sum(dim=0)

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        assert all(tokens), "each row gets one token at least"
        for new in tokens:
            self._check(new)
        for row, new in zip(self._rows, tokens, strict=False):
            row += new
            assert len(row) <= self.max_len
        return torch.stack([self.logits_of(row) for row in self._rows[: len(tokens)]])

    def _check(self, tokens: Sequence[int]) -> None:
        if self.fail_on in tokens:
            raise RuntimeError("the model failed")

    def swap(self, a: int, b: int) -> None:
        self._rows[a], self._rows[b] = self._rows[b], self._rows[a]

    def truncate(self, row: int, length: int) -> None:
        del self._rows[row][length:]

    def length(self, row: int) -> int:
        return len(self._rows[row])
