"""`sample`: the one door to the sampler, whatever computes behind it."""

import contextlib
import functools
from collections.abc import Callable, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling import torch_sampler
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
    logits = logits.detach().resolve_neg()  # what reads its memory sees no sign that is only noted down
    _check_logits(logits, rows)
    words = _words(bitmask, logits)
    mapped = _mapped(row_map, len(rows), len(words))
    return batch_sampler("cpu" if logits.is_cpu else logits.device.type)(logits, rows, words, mapped)


@functools.cache
def batch_sampler(device_type: str) -> Callable[..., Sampled]:
    """What samples on a kind of device: Numba's kernel on the CPU and Triton's on CUDA, where these are installed, else
    torch. So it is where ``NUMBA_DISABLE_JIT`` is set. The first call for the CPU compiles, for seconds, so an engine
    calls this before its first step.

    Returns:
        `sample` without its checks. There has to be a row map, and a bitmask, which on the host is a contiguous array.
    """
    with contextlib.suppress(ImportError):
        if device_type == "cpu":
            from engine_adapter.sampling import cpu_sampler

            return cpu_sampler.sample_batch
        if device_type == "cuda":
            from engine_adapter.sampling import triton_sampler

            return _of_arrays(triton_sampler.sample_batch)
    return _of_arrays(torch_sampler.sample_batch)


def _of_arrays(sample_batch: Callable[..., Sampled]) -> Callable[..., Sampled]:
    """For a sampler that takes the row map as an array, and leaves bias and penalties to torch."""

    def sampled(
        logits: torch.Tensor, rows: SamplingRows, bitmask: torch_sampler.Bitmask, row_map: Sequence[int]
    ) -> Sampled:
        changed, mapped = torch_sampler.changed(logits, rows.changes), np.asarray(row_map, dtype=np.int64)
        return sample_batch(changed, attrs.evolve(rows, changes=None), bitmask, mapped)

    return sampled


def _check_logits(logits: torch.Tensor, rows: SamplingRows) -> None:
    shape = logits.shape
    if len(shape) != 2 or not logits.dtype.is_floating_point or shape[1] == 0:
        raise ValueError(f"logits have to be floating point [n, V], not {logits.dtype} {list(shape)}")
    if shape[0] != len(rows):
        raise ValueError(f"{shape[0]} rows of logits, {len(rows)} of parameters")


def _mapped(row_map: Sequence[int] | npt.NDArray[np.int64] | None, rows: int, mask_rows: int) -> Sequence[int]:
    if row_map is None:
        return [-1] * rows
    if len(row_map) != rows:
        raise ValueError(f"{rows} rows of logits, {len(row_map)} in the row map")
    mapped: list[int] = np.asarray(row_map, dtype=np.int64).tolist()
    if mapped and (min(mapped) < -1 or max(mapped) >= mask_rows):
        raise ValueError(f"the row map leaves the bitmask's {mask_rows} rows")
    return mapped


def _words(bitmask: torch.Tensor | npt.NDArray[np.int32] | None, logits: torch.Tensor) -> torch_sampler.Bitmask:
    """The bitmask as an array if it is on the host, else as it is."""
    if bitmask is None:
        return np.empty((0, 0), dtype=np.int32)
    int32 = np.int32 if isinstance(bitmask, np.ndarray) else torch.int32
    if len(bitmask.shape) != 2 or bitmask.dtype != int32:
        raise ValueError(f"a bitmask has to be int32 [rows, words], not {bitmask.dtype} {list(bitmask.shape)}")
    if isinstance(bitmask, np.ndarray) or bitmask.is_cpu:
        return np.ascontiguousarray(bitmask)
    if bitmask.device != logits.device:
        raise ValueError(f"logits are on {logits.device}, the bitmask on {bitmask.device}")
    return bitmask
