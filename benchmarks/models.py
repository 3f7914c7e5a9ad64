"""Models for benchmarks of what is beside the model: see `engine_adapter.embedded.model.ModelRunner`."""

import time
from collections.abc import Sequence
from typing import Final

import numpy as np
import torch

from engine_adapter.embedded.model import ModelRunner

_SCRIPT: Final = 64


class ScriptedModel:
    """Logits that somebody has written down: those of a row depend on its last token and its length."""

    device = torch.device("cpu")

    def __init__(self, logit_width: int, *, max_rows: int, max_len: int) -> None:
        self.logit_width, self.max_rows, self.max_len = logit_width, max_rows, max_len
        self._script = torch.from_numpy(np.random.default_rng(0).standard_normal((_SCRIPT, logit_width), np.float32))
        self._rows = [(0, 0)] * max_rows  # length and last token

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        self._rows[row] = (start + len(tokens), tokens[-1])
        return self._script[sum(self._rows[row]) % _SCRIPT]

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        ends = [(self._rows[row][0] + len(new), new[-1]) for row, new in enumerate(tokens)]
        self._rows[: len(ends)] = ends
        return self._script[[sum(end) % _SCRIPT for end in ends]]

    def swap(self, a: int, b: int) -> None:
        self._rows[a], self._rows[b] = self._rows[b], self._rows[a]

    def truncate(self, row: int, length: int) -> None:
        self._rows[row] = (length, self._rows[row][1])

    def length(self, row: int) -> int:
        return self._rows[row][0]


class TimedModel:
    """Another model, with a watch.

    Attributes:
        seconds: how long it has computed so far.
    """

    def __init__(self, model: ModelRunner) -> None:
        self._model = model
        self.logit_width, self.max_rows, self.max_len = model.logit_width, model.max_rows, model.max_len
        self.device = model.device
        self.seconds = 0.0

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        began = time.perf_counter()
        try:
            return self._model.prefill(row, tokens, start)
        finally:
            self.seconds += time.perf_counter() - began

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        began = time.perf_counter()
        try:
            return self._model.decode(tokens)
        finally:
            self.seconds += time.perf_counter() - began

    def swap(self, a: int, b: int) -> None:
        self._model.swap(a, b)

    def truncate(self, row: int, length: int) -> None:
        self._model.truncate(row, length)

    def length(self, row: int) -> int:
        return self._model.length(row)
