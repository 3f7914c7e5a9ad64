"""`sample`: the one door to the sampler, whatever computes behind it."""

import contextlib
import functools
from collections.abc import Callable, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling import cpu_sampler, torch_sampler
from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.sampled import Sampled


def sample(
    logits: torch.Tensor,
    rows: SamplingRows,
    bitmask: torch.Tensor | npt.NDArray[np.int32] | None = None,
    row_map: Sequence[int] | npt.NDArray[np.int64] | None = None,
) -> Sampled:
    """One token for each row of logits, or a flag that says why there is none.

    Nothing that stands in one row changes another: not its parameters, its mask, or a NaN. On the CPU a row is
    computed alone, so its token is the same in every batch to the last bit. So it is on CUDA with Triton. Torch's sums
    there are in float64, so that a batch can change a token only if its draw is within rounding of the border of two.

    On CUDA nothing waits for the device, except that a bitmask in pageable host memory is copied to it first.

    Args:
        logits: floating point [n, V], any device and strides; not changed. Computed in float32.
        rows: n rows of parameters and draws.
        bitmask: int32 [rows, words], bit i of word w for token 32w + i; on the host or on the device of the logits.
            Bits from V on are ignored, tokens past the last word are not allowed.
        row_map: for each logits row its bitmask row, or -1 for a row that is not constrained. None: no row is.

    Raises:
        ValueError: shapes, dtypes, devices or the map do not fit together, a fault of the caller.
    """
    logits = logits.detach()
    _check_logits(logits, rows)
    mapped = np.full(len(logits), -1) if row_map is None else np.asarray(row_map, dtype=np.int64)
    words = _words(bitmask, logits.device)
    _check_map(mapped, len(logits), len(words))
    if isinstance(words, np.ndarray) and logits.is_cpu:
        return cpu_sampler.sample_rows(logits, rows, words, mapped)
    changed = torch_sampler.changed(logits, rows.changes)
    return _batch_sampler(logits.device.type)(changed, attrs.evolve(rows, changes=None), words, mapped)


@functools.cache
def _batch_sampler(device_type: str) -> Callable[..., Sampled]:
    """What samples all rows at once: Triton's kernels on CUDA if they can be had, else torch."""
    if device_type == "cuda":
        with contextlib.suppress(ImportError):
            from engine_adapter.sampling import triton_sampler

            return triton_sampler.sample_batch
    return torch_sampler.sample_batch


def _check_logits(logits: torch.Tensor, rows: SamplingRows) -> None:
    if logits.dim() != 2 or not logits.is_floating_point() or logits.shape[1] == 0:
        raise ValueError(f"logits have to be floating point [n, V], not {logits.dtype} {list(logits.shape)}")
    if len(logits) != len(rows):
        raise ValueError(f"{len(logits)} rows of logits, {len(rows)} of parameters")


def _check_map(row_map: npt.NDArray[np.int64], rows: int, mask_rows: int) -> None:
    if len(row_map) != rows:
        raise ValueError(f"{rows} rows of logits, {len(row_map)} in the row map")
    if ((row_map < -1) | (row_map >= mask_rows)).any():
        raise ValueError(f"the row map leaves the bitmask's {mask_rows} rows")


def _words(bitmask: torch.Tensor | npt.NDArray[np.int32] | None, device: torch.device) -> torch_sampler.Bitmask:
    """The bitmask as an array if it is on the host, else as it is."""
    if bitmask is None:
        return np.empty((0, 0), dtype=np.int32)
    if len(bitmask.shape) != 2 or bitmask.dtype not in (torch.int32, np.dtype(np.int32)):
        raise ValueError(f"a bitmask has to be int32 [rows, words], not {bitmask.dtype} {list(bitmask.shape)}")
    if isinstance(bitmask, np.ndarray) or bitmask.is_cpu:
        return np.asarray(bitmask)
    if bitmask.device != device:
        raise ValueError(f"logits are on {device}, the bitmask on {bitmask.device}")
    return bitmask
