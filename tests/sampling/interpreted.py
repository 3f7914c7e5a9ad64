"""The kernels without a GPU: a process in which Triton interprets them, as is decided when Triton is imported."""

import atexit
import functools
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

from engine_adapter.sampling.sampled import SampledTensors
from tests.sampling.strategies import Batch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch


def by_triton(batch: Batch, splits: int | None = None) -> SampledTensors:
    """What runs on CUDA, interpreted; rows in so many splits."""
    return _process().submit(_sample, batch, splits).result()


def one_after_the_other(several: list[Batch]) -> list[SampledTensors]:
    """The same for batches of one width and dtype, in the same memory; raises if a counter is not zero in the end."""
    return _process().submit(_reuse, several).result()


def by_gumbel(logits: "torch.Tensor", bitmask: "torch.Tensor", *, noisy: bool) -> "torch.Tensor":
    """`benchmarks.gumbel_kernels.sample`, interpreted."""
    return _process().submit(_gumbel, logits, bitmask, noisy).result()


def masked(bitmask: "npt.NDArray[np.int32]", logits: "torch.Tensor", rows: Sequence[tuple[int, int]]) -> "torch.Tensor":
    """The logits after `triton_masking.apply`, interpreted."""
    return _process().submit(_mask, bitmask, logits, rows).result()


@functools.cache
def _process() -> ProcessPoolExecutor:
    process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_interpret)
    atexit.register(process.shutdown)
    return process


def _interpret() -> None:
    if "triton" in sys.modules:
        raise RuntimeError("triton has been imported before it could be told to interpret")
    os.environ["TRITON_INTERPRET"] = "1"
    _sort_in_less_than_seconds()


def _sort_in_less_than_seconds() -> None:
    """Has numpy take the XOR of a sort's pairs, which the interpreter does number by number: seconds for 1,024."""
    import numpy as np
    from triton.language import standard
    from triton.runtime.interpreter import ReduceOps

    apply = ReduceOps.apply_impl

    def apply_impl(self: Any, arrays: Any) -> Any:
        if self.combine_fn is not standard._xor_combine:
            return apply(self, arrays)
        [array] = arrays
        values = np.bitwise_xor.reduce(array.handle.data, axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(values, array.dtype)

    ReduceOps.apply_impl = apply_impl


def _sample(batch: Batch, splits: int | None) -> SampledTensors:
    from engine_adapter.sampling import triton_sampler

    return triton_sampler.sample_batch(*batch.arguments, splits=splits)


def _reuse(several: list[Batch]) -> list[SampledTensors]:
    import numpy as np
    import torch

    from engine_adapter.sampling.triton_sampler import DeviceSampler, Outputs

    rows = max(len(batch.params) for batch in several)
    size, device = several[0].logits.shape[1], torch.device("cpu")
    sampler, outputs = DeviceSampler(rows, size, device), Outputs.empty(rows, device)
    logits = torch.full((rows, size), torch.nan, dtype=several[0].logits.dtype)
    results = []
    for batch in several:
        count = len(batch.params)
        logits[:count] = batch.logits
        sampler.stage(batch.rows, np.array(batch.row_map))
        sampler.launch(logits[:count], torch.from_numpy(batch.bitmask), outputs)
        tokens, flags, logprobs = (value[:count].clone() for value in (outputs.tokens, outputs.flags, outputs.logprobs))
        none = torch.zeros(count, 0)
        results.append(SampledTensors(tokens, flags, logprobs, none, none))
    if not sampler.is_at_rest:
        raise AssertionError("a counter is not zero after the launch")
    return results


def _mask(bitmask: "npt.NDArray[np.int32]", logits: "torch.Tensor", rows: Sequence[tuple[int, int]]) -> "torch.Tensor":
    from engine_adapter.sampling import triton_masking

    triton_masking.apply(bitmask, logits, rows)
    return logits


def _gumbel(logits: "torch.Tensor", bitmask: "torch.Tensor", noisy: bool) -> "torch.Tensor":
    from benchmarks import gumbel_kernels

    return gumbel_kernels.sample(logits, bitmask, noisy=noisy)
