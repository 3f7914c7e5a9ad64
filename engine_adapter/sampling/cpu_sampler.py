"""The sampler on the CPU: hands `engine_adapter.sampling.cpu_kernels` what it needs as it needs it."""

import itertools
from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.cpu_kernels import CHANGE, sample_rows
from engine_adapter.sampling.penalties import LogitChanges
from engine_adapter.sampling.sampled import SampledRows

_NO_CHANGES: Final = (array("q"), array("b"))


def sample_batch(
    logits: torch.Tensor, rows: SamplingRows, bitmask: npt.NDArray[np.int32], row_map: Sequence[int]
) -> SampledRows:
    """`engine_adapter.sampling.sampler.sample` for logits [n, V] on the CPU, and a contiguous bitmask on the host.

    Raises:
        ValueError: they do not fit together.
    """
    if logits.dtype is not torch.float32 or not logits.is_contiguous():
        logits = logits.float().contiguous()
    count, vocabulary = logits.shape
    settings, draws = rows.settings, rows.draws
    sampled = SampledRows.empty(count, settings.alternatives)
    # These have names, or their memory would be gone before it is read.
    mapped = array("q", row_map)
    ends, changes = _NO_CHANGES if rows.changes is None else _changes(rows.changes)
    fits = (
        vocabulary > 0
        and draws.typecode == "d"
        and count == len(mapped) == len(draws) == len(settings.table)
        and len(ends) in (0, count)
    )
    fits = fits and sample_rows(
        bitmask,
        count,
        vocabulary,
        logits.data_ptr(),
        mapped.buffer_info()[0],
        settings.address,
        draws.buffer_info()[0],
        len(ends),
        ends.buffer_info()[0],
        changes.buffer_info()[0],
        *sampled.memory(),
    )
    if not fits:
        raise ValueError(
            f"logits {list(logits.shape)} do not fit {len(rows)} rows of parameters and {len(bitmask)} of masks"
        )
    return sampled


def _changes(changes: Sequence[LogitChanges | None]) -> "tuple[array[int], array[int]]":
    """Where each row's `CHANGE` end, and the memory of all rows', one behind the other."""
    ends = array("q", itertools.accumulate(0 if each is None else len(each.tokens) for each in changes))
    there = [each for each in changes if each is not None]
    found = np.empty(ends[-1], CHANGE)
    found["token"] = np.concatenate([each.tokens for each in there])
    found["bias"] = np.concatenate([each.bias for each in there])
    found["repetition"] = np.concatenate([each.repetition for each in there])
    found["penalty"] = np.concatenate([each.penalty for each in there])
    return ends, array("b", found.tobytes())
