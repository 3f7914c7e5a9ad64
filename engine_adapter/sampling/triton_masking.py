"""Bitmasks on logits that others sample from, on CUDA: what a row forbids is overwritten, and nothing is read of it.

Who samples with `engine_adapter.sampling.sampler` needs none of this: there a mask decides what is read at all.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
import triton

from engine_adapter.sampling import triton_kernels as kernels

OPTIONS: Final = MappingProxyType({"num_warps": 4, "enable_fp_fusion": True})
"""How `triton_kernels.forbid` is compiled."""


def apply(bitmask: npt.NDArray[np.int32], logits: torch.Tensor, rows: Sequence[tuple[int, int]]) -> None:
    """Sets to -inf what a bitmask on the host forbids, in place. Nothing waits for the device.

    Only the rows that are used are sent there.

    Args:
        bitmask: int32 [rows, words]; tokens behind the last word are forbidden.
        logits: floating point [rows, vocabulary], its columns beside each other.
        rows: pairs of a row of the bitmask and the row of the logits that it is for, each of these once at most.
    """
    if not rows:
        return
    sources, targets = np.array(rows, dtype=np.int64).T
    words = _sent(np.ascontiguousarray(bitmask[sources]), logits.device)
    size = logits.shape[1]
    kernels.forbid[(len(rows), triton.cdiv(size, kernels.MASKED.value))](
        logits, words, _sent(np.ascontiguousarray(targets), logits.device), logits.stride(0), words.shape[1], size,
        **OPTIONS,
    )  # fmt: skip


def _sent(array: npt.NDArray[np.int32] | npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """A copy on the device. From pageable memory, the host would wait for it."""
    tensor = torch.from_numpy(array)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor
