"""The sampler on the CPU: hands `engine_adapter.sampling.cpu_kernels` what it needs as it needs it."""

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.cpu_kernels import CHANGE, sample_rows
from engine_adapter.sampling.penalties import LogitChanges
from engine_adapter.sampling.sampled import SAMPLED_ROW, SampledRows

_NO_CHANGES: Final = (np.empty(0, np.int64), np.empty(0, CHANGE))
_NO_TOP: Final = (np.empty((0, 0), np.int64), np.empty((0, 0), np.float32))


def sample_batch(
    logits: torch.Tensor, rows: SamplingRows, bitmask: npt.NDArray[np.int32], row_map: npt.NDArray[np.int64]
) -> SampledRows:
    """`engine_adapter.sampling.sampler.sample` for logits [n, V] on the CPU, and a bitmask on the host.

    Raises:
        ValueError: they do not fit together.
    """
    if logits.requires_grad:
        logits = logits.detach()
    if logits.dtype is not torch.float32 or not logits.is_contiguous():
        logits = logits.float().contiguous()
    out = np.empty(len(rows), SAMPLED_ROW)
    top = _NO_TOP
    if rows.alternatives:
        shape = (len(rows), rows.alternatives)
        top = np.empty(shape, np.int64), np.empty(shape, np.float32)
    fits = sample_rows(
        logits.numpy(),
        bitmask if bitmask.flags.c_contiguous else np.ascontiguousarray(bitmask),
        row_map,
        rows.settings,
        rows.uniforms,
        *(_NO_CHANGES if rows.changes is None else _changes(rows.changes)),
        out,
        *top,
    )
    if not fits:
        raise ValueError(
            f"logits {list(logits.shape)} do not fit {len(rows)} rows of parameters and {len(bitmask)} of masks"
        )
    return SampledRows(out, top)


def _changes(changes: Sequence[LogitChanges | None]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.void]]:
    """Where each row's ends, and those of all rows, one behind the other."""
    ends = list(itertools.accumulate(0 if each is None else len(each.tokens) for each in changes))
    there = [each for each in changes if each is not None]
    found = np.empty(ends[-1], CHANGE)
    found["token"] = np.concatenate([each.tokens for each in there])
    found["bias"] = np.concatenate([each.bias for each in there])
    found["repetition"] = np.concatenate([each.repetition for each in there])
    found["penalty"] = np.concatenate([each.penalty for each in there])
    return np.array(ends, np.int64), found
