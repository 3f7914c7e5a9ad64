"""The kernels without a GPU: a process in which Triton interprets them, as is decided when Triton is imported."""

import atexit
import functools
import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

from engine_adapter.sampling.sampled import Sampled
from tests.sampling.strategies import Batch


def by_triton(batch: Batch, splits: int | None = None) -> Sampled:
    """What runs on CUDA, interpreted; rows in so many splits."""
    return _process().submit(_sample, batch, splits).result()


@functools.cache
def _process() -> ProcessPoolExecutor:
    process = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_interpret)
    atexit.register(process.shutdown)
    return process


def _interpret() -> None:
    if "triton" in sys.modules:
        raise RuntimeError("triton has been imported before it could be told to interpret")
    os.environ["TRITON_INTERPRET"] = "1"


def _sample(batch: Batch, splits: int | None) -> Sampled:
    import numpy as np

    from engine_adapter.sampling import triton_sampler

    return triton_sampler.sample_batch(batch.logits, batch.rows, batch.bitmask, np.array(batch.row_map), splits=splits)
