"""The sampler for CUDA where Triton is installed: one launch, a second where rows ask for top-k, top-p or min-p.

`DeviceSampler` is for engines: all its memory is allocated once, and what `DeviceSampler.launch` does can be captured
in a CUDA graph. `sample_batch` is what `engine_adapter.sampling.sampler.sample` calls.
"""

import functools
import math
from types import MappingProxyType
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import torch
import triton

from engine_adapter.sampling import triton_kernels as kernels
from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.sampled import SampledTensors
from engine_adapter.sampling.torch_sampler import Bitmask, list_alternatives, to_device, unpack_rows

SURVEY: Final = MappingProxyType({"num_warps": 4, "enable_fp_fusion": True})
"""How `triton_kernels.survey` is compiled."""

TRUNCATE: Final = MappingProxyType({"num_warps": 8, "enable_fp_fusion": True})
"""How `triton_kernels.truncate` is compiled."""

_BLOCK: Final = int(kernels.BLOCK.value)
_UNIT: Final = 32  # tokens of a mask word
_PROGRAMS: Final = 2048  # what fills a large GPU: 16 programs on each of its 132 multiprocessors
_STREAMS: Final = 16  # that keep their memory between calls of `sample_batch`
_EQUAL_BITS: Final = {torch.float32: 0, torch.float16: 13, torch.bfloat16: 16}


@attrs.frozen(eq=False)
class Outputs:
    """Where a launch writes: int64, uint8 (`RowFlag`) and float32 [rows].

    A log-probability is of the token among those that the mask allows, after temperature and before top-k, top-p and
    min-p; at temperature 0 it is at temperature 1. NaN on flagged rows and rows that did not ask.
    """

    tokens: torch.Tensor
    flags: torch.Tensor
    logprobs: torch.Tensor

    @classmethod
    def empty(cls, rows: int, device: torch.device) -> "Outputs":
        return cls(
            tokens=torch.empty(rows, dtype=torch.int64, device=device),
            flags=torch.empty(rows, dtype=torch.uint8, device=device),
            logprobs=torch.empty(rows, dtype=torch.float32, device=device),
        )


@attrs.frozen(eq=False)
class _Scratch:
    """What the programs of a launch tell each other; `triton_kernels.survey` says what each is."""

    block_max: torch.Tensor
    block_sum: torch.Tensor
    block_first: torch.Tensor
    block_count: torch.Tensor
    candidates: torch.Tensor
    slots: torch.Tensor
    arrivals: torch.Tensor
    pending: torch.Tensor

    @classmethod
    def zeros(cls, rows: int, blocks: int, device: torch.device) -> "_Scratch":
        def of(width: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(rows * width, dtype=dtype, device=device)

        return cls(
            block_max=of(blocks, torch.float32),
            block_sum=of(blocks, torch.float32),
            block_first=of(blocks, torch.int32),
            block_count=of(blocks, torch.int32),
            candidates=of(kernels.CANDIDATES.value, torch.int64),
            slots=of(1, torch.int32),
            arrivals=of(1, torch.int32),
            pending=of(1, torch.int32),
        )


def packed(rows: SamplingRows, row_map: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The parameters as the kernels read them: float64 [n, 8], in the columns that `triton_kernels` names."""
    is_drawn = rows.temperature > 0
    kind = np.where(
        is_drawn, np.where(rows.truncated, kernels.TRUNCATED.value, kernels.DRAW.value), kernels.GREEDY.value
    )
    columns = {
        kernels.SCALE: math.log2(math.e) / np.where(is_drawn, rows.temperature, 1.0),
        kernels.KIND: kind,
        kernels.TOP_K: rows.top_k,
        kernels.TOP_P: rows.top_p,
        kernels.MIN_P: rows.min_p,
        kernels.UNIFORM: rows.uniforms,
        kernels.MASK_ROW: row_map,
        kernels.LOGPROB: rows.logprobs,
    }
    params = np.empty((len(rows), kernels.SETTINGS.value))
    for column, values in columns.items():
        params[:, column.value] = values
    return params


class DeviceSampler:
    """Samples up to ``rows`` rows of ``size`` logits a step on one device, in memory of its own, allocated here.

    ::

        sampler, outputs = DeviceSampler(rows, size, device), Outputs.empty(rows, device)
        sampler.stage(batch.rows(slots, positions), row_map)
        sampler.launch(logits, bitmask, outputs)

    One step at a time: calls have to be ordered by the stream. For a CUDA graph, call `launch` once, which compiles it,
    then capture it alone, with the logits, the bitmask and ``outputs`` where they will be, and ``truncated`` if a row
    may ever ask for it; then, before each replay, change the bitmask in place and call `stage`.

    Args:
        rows: most rows of a step.
        size: V of the logits.
        device: of the logits.
    """

    def __init__(self, rows: int, size: int, device: torch.device) -> None:
        self.rows = rows
        self.size = size
        self._blocks = triton.cdiv(size, _BLOCK)
        self._params = torch.zeros(rows, kernels.SETTINGS.value, dtype=torch.float64, device=device)
        self._scratch = _Scratch.zeros(rows, self._blocks, device)
        self._no_mask = torch.zeros(
            1, 1, dtype=torch.int32, device=device
        )  # has an address, which an empty one has not

    @property
    def is_at_rest(self) -> bool:
        """Whether the last launch has left its counters at zero, as every complete one does. Waits for the device."""
        return not (self._scratch.slots.any() or self._scratch.arrivals.any())

    def stage(self, rows: SamplingRows, row_map: npt.NDArray[np.int64]) -> None:
        """Sends the parameters of the next launch's rows to the device, without waiting for it.

        Args:
            rows: at most as many as this was made for; bias and penalties are for `torch_sampler.changed` to do before.
            row_map: int64, for each its row of the bitmask, which has to have it, or -1 for a row that has none.

        Raises:
            ValueError: too many rows, or with bias or penalties; the map is not for so many, or has something below -1.
        """
        if rows.changes is not None:
            raise ValueError("bias and penalties are done to the logits before: torch_sampler.changed")
        if len(rows) > self.rows:
            raise ValueError(f"{len(rows)} rows, but memory for {self.rows}: make a larger DeviceSampler")
        if row_map.shape != (len(rows),) or (row_map < -1).any():
            raise ValueError(f"the row map has to give each of {len(rows)} rows a row of the bitmask, or -1")
        params = torch.from_numpy(packed(rows, row_map))
        if self._params.is_cuda:
            params = params.pin_memory()
        self._params[: len(rows)].copy_(params, non_blocking=True)

    def launch(
        self,
        logits: torch.Tensor,
        bitmask: torch.Tensor | None,
        outputs: Outputs,
        *,
        truncated: bool = True,
        splits: int | None = None,
    ) -> None:
        """Samples each row of ``logits`` with the parameters staged, into ``outputs``.

        Args:
            logits: float32, bfloat16 or float16 [n, size], n at most ``rows``, its columns beside each other.
            bitmask: int32 [mask rows, words] on the same device, its columns beside each other; None if no row has one.
            outputs: for n rows or more.
            truncated: whether a row that is not greedy may ask for top-k, top-p or min-p.
            splits: programs to a row; None for as many as fill a large GPU. No result depends on it.

        Raises:
            ValueError: the tensors are not as said.
        """
        self._check(logits, bitmask, outputs)
        if not len(logits):
            return
        mask = self._no_mask if bitmask is None or not bitmask.numel() else bitmask
        width = 0 if bitmask is None else bitmask.shape[1]
        scratch = self._scratch
        shape = (logits.stride(0), mask.stride(0), self.size, width, self._blocks)
        fixed: dict[str, Any] = {
            "PADDED": triton.next_power_of_2(self._blocks),
            "UNIT": math.gcd(self.size, _UNIT),
            "ALIGNED": logits.data_ptr() % 16 == 0 and logits.stride(0) * logits.element_size() % 16 == 0,
        }
        kernels.survey[(len(logits), self._evened(splits or max(1, _PROGRAMS // len(logits))))](
            logits, mask, self._params, scratch.block_max, scratch.block_sum, scratch.block_first,
            scratch.block_count, scratch.candidates, scratch.slots, scratch.arrivals, outputs.tokens, outputs.flags,
            outputs.logprobs, scratch.pending, *shape, **fixed, TRUNCATES=truncated,
            **SURVEY,
        )  # fmt: skip
        if truncated:
            kernels.truncate[(len(logits),)](
                logits, mask, self._params, scratch.block_max, scratch.block_sum, scratch.block_count,
                outputs.tokens, outputs.logprobs, scratch.pending, *shape, **fixed, SHIFT=_EQUAL_BITS[logits.dtype],
                **TRUNCATE,
            )  # fmt: skip

    def _check(self, logits: torch.Tensor, bitmask: torch.Tensor | None, outputs: Outputs) -> None:
        is_fit = logits.dim() == 2 and len(logits) <= self.rows and logits.shape[1] == self.size
        if not is_fit or logits.dtype not in _EQUAL_BITS or logits.stride(1) != 1:
            raise ValueError(
                f"logits have to be float32, bfloat16 or float16 [n, {self.size}], n at most {self.rows}, with columns "
                f"beside each other, not {logits.dtype} {list(logits.shape)} with strides {list(logits.stride())}"
            )
        if bitmask is not None and not _is_bitmask(bitmask):
            raise ValueError("a bitmask has to be int32 [rows, words], with columns beside each other")
        if len(outputs.tokens) < len(logits):
            raise ValueError(f"{len(logits)} rows of logits, but outputs for {len(outputs.tokens)}")

    def _evened(self, splits: int) -> int:
        """At most so many, but no more than it takes for the one with the most blocks to have no more."""
        return int(triton.cdiv(self._blocks, triton.cdiv(self._blocks, min(splits, self._blocks))))


def _is_bitmask(bitmask: torch.Tensor) -> bool:
    has_strides = bitmask.numel() > 0 and bitmask.dim() == 2 and bitmask.shape[1] > 1
    return bitmask.dtype == torch.int32 and bitmask.dim() == 2 and not (has_strides and bitmask.stride(1) != 1)


def sample_batch(
    logits: torch.Tensor,
    rows: SamplingRows,
    bitmask: Bitmask,
    row_map: npt.NDArray[np.int64],
    *,
    splits: int | None = None,
) -> SampledTensors:
    """`engine_adapter.sampling.sampler.sample` for logits [n, V] on a device, bias and penalties done already.

    ``splits`` is that of `DeviceSampler.launch`.
    """
    if logits.dtype not in _EQUAL_BITS:
        logits = logits.float()
    if logits.stride(1) != 1:
        logits = logits.clone(memory_format=torch.contiguous_format)
    words, mapped = _on_device(bitmask, row_map, logits.device)
    sampler = _sampler(logits.device, _stream(logits.device)).of(*logits.shape)
    sampler.stage(rows, mapped)
    outputs = Outputs.empty(len(rows), logits.device)
    truncated = bool((rows.truncated & (rows.temperature > 0)).any())
    sampler.launch(logits, words, outputs, truncated=truncated, splits=splits)
    shape = (len(rows), rows.settings.alternatives)
    out = SampledTensors(
        **attrs.asdict(outputs, recurse=False),
        top_tokens=torch.full(shape, -1, device=logits.device),
        top_logprobs=torch.full(shape, -torch.inf, device=logits.device),
    )
    asking = np.flatnonzero(rows.logprobs > 0)
    if asking.size:
        at = to_device(asking, logits.device)
        list_alternatives(_masked(logits, words, mapped[asking], at), rows.take(asking), at, out)
    return out


def _on_device(
    bitmask: Bitmask, row_map: npt.NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, npt.NDArray[np.int64]]:
    """The bitmask on the device, and the map to its rows. Of an array on the host only rows that are used are sent."""
    if isinstance(bitmask, torch.Tensor):
        return (bitmask if bitmask.stride(1) == 1 else bitmask.contiguous()), row_map
    used, place = np.unique(row_map[row_map >= 0], return_inverse=True)
    mapped = row_map.copy()
    mapped[row_map >= 0] = place
    return to_device(np.ascontiguousarray(bitmask[used]), device), mapped


class _Growing:
    """The `DeviceSampler` of one stream, replaced by a larger one where rows or logits ask for it."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._sampler = DeviceSampler(0, 0, device)

    def of(self, rows: int, size: int) -> DeviceSampler:
        if rows > self._sampler.rows or size != self._sampler.size:
            self._sampler = DeviceSampler(triton.next_power_of_2(max(8, rows)), size, self._device)
        return self._sampler


def _stream(device: torch.device) -> int:
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0


@functools.lru_cache(maxsize=_STREAMS)
def _sampler(device: torch.device, stream: int) -> _Growing:
    """Steps on two streams may overlap, so each has memory of its own."""
    return _Growing(device)


def _masked(
    logits: torch.Tensor, words: torch.Tensor, row_map: npt.NDArray[np.int64], at: torch.Tensor
) -> torch.Tensor:
    """The logits of the rows ``at`` in float32, -inf where their masks forbid; ``row_map`` is of these alone."""
    masked = logits[at].float()
    bound = np.flatnonzero(row_map >= 0)
    if bound.size:
        here = to_device(bound, logits.device)
        allowed = unpack_rows(words[to_device(row_map[bound], logits.device)], logits.shape[1])
        masked[here] = masked[here].masked_fill(~allowed, -torch.inf)
    return masked
