"""The sampler on the CPU: hands `engine_adapter.sampling.cpu_kernels` what it needs as it needs it."""

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.cpu_kernels import sample_rows
from engine_adapter.sampling.penalties import LogitChanges
from engine_adapter.sampling.sampled import SAMPLED_ROW, SampledRows

_INT64, _FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)
_NO_CHANGES: Final = (np.empty(0, _INT64), np.empty(0, _INT64), *(np.empty(0, _FLOAT32) for _ in range(3)))
_NO_TOP: Final = (np.empty((0, 0), _INT64), np.empty((0, 0), _FLOAT32))


def sample_batch(
    logits: torch.Tensor, rows: SamplingRows, bitmask: npt.NDArray[np.int32], row_map: npt.NDArray[np.int64]
) -> SampledRows:
    """`engine_adapter.sampling.sampler.sample` for logits [n, V] on the CPU, and a bitmask on the host."""
    if logits.dtype is not torch.float32 or not logits.is_contiguous():
        logits = logits.float().contiguous()
    out = np.empty(len(rows), SAMPLED_ROW)
    top = _NO_TOP
    if rows.alternatives:
        shape = (len(rows), rows.alternatives)
        top = np.empty(shape, _INT64), np.empty(shape, _FLOAT32)
    sample_rows(
        logits.numpy(),
        bitmask if bitmask.flags.c_contiguous else np.ascontiguousarray(bitmask),
        row_map,
        rows.temperature,
        rows.top_k,
        rows.top_p,
        rows.min_p,
        rows.logprobs,
        rows.uniforms,
        *(_NO_CHANGES if rows.changes is None else _changes(rows.changes)),
        out,
        *top,
    )
    return SampledRows(out, top)


def _changes(changes: Sequence[LogitChanges | None]) -> tuple[npt.NDArray[Any], ...]:
    """Where each row's ends, and those of all rows, one behind the other."""
    ends = itertools.accumulate(0 if each is None else len(each.tokens) for each in changes)
    there = [each for each in changes if each is not None]
    return (
        np.fromiter(ends, _INT64, len(changes)),
        np.concatenate([each.tokens for each in there]),
        np.concatenate([each.bias for each in there]),
        np.concatenate([each.repetition for each in there]),
        np.concatenate([each.penalty for each in there]),
    )
