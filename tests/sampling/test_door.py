"""Which sampler stands behind the door on which device, and what the one for CUDA refuses."""

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from engine_adapter.sampling import SamplingParams, SamplingRows, sampler, torch_sampler
from engine_adapter.sampling.sampled import RowFlag, SampledRows, SampledTensors

CPU_MODULES = ("engine_adapter.sampling.cpu_sampler", "engine_adapter.sampling.cpu_kernels")
TRITON_MODULES = ("engine_adapter.sampling.triton_sampler",)


@pytest.fixture(autouse=True)
def _unread() -> Iterator[None]:
    sampler.batch_sampler.cache_clear()
    yield
    sampler.batch_sampler.cache_clear()


@pytest.fixture
def batch() -> SamplingRows:
    return SamplingRows.of([SamplingParams(temperature=0, logit_bias={2: 5.0})], [0.0])


@pytest.mark.parametrize(
    ("device_type", "library", "modules"), [("cuda", "triton", TRITON_MODULES), ("cpu", "numba", CPU_MODULES)]
)
def test_without_its_library_a_device_takes_torch(
    device_type: str, library: str, modules: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, batch: SamplingRows
) -> None:
    for module in modules:
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.delattr(module, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    sampled = sampler.batch_sampler(device_type)(torch.zeros(1, 4), batch, np.zeros((0, 0), np.int32), [-1])
    assert isinstance(sampled, SampledTensors)
    assert [(token, flag) for token, _, flag in sampled.on_host()] == [(2, RowFlag.OK)]


def test_the_cpu_takes_the_kernel_where_numba_can_be_imported(batch: SamplingRows) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    sampled = sampler.sample(torch.zeros(1, 4), batch)
    assert isinstance(sampled, SampledRows)
    assert [(token, flag) for token, _, flag in sampled.on_host()] == [(2, RowFlag.OK)]


def test_cuda_takes_the_kernels_where_triton_can_be_imported(
    monkeypatch: pytest.MonkeyPatch, batch: SamplingRows
) -> None:
    triton_sampler = pytest.importorskip("engine_adapter.sampling.triton_sampler", reason="triton is not installed")
    result = object()
    monkeypatch.setattr(triton_sampler, "sample_batch", lambda *_: result)
    assert sampler.batch_sampler("cuda")(torch.zeros(1, 4), batch, np.zeros((0, 0), np.int32), [-1]) is result


@pytest.mark.parametrize("device_type", ["mps", "meta"])
def test_other_devices_take_torch(device_type: str, monkeypatch: pytest.MonkeyPatch, batch: SamplingRows) -> None:
    result = object()
    monkeypatch.setattr(torch_sampler, "sample_batch", lambda *_: result)
    assert sampler.batch_sampler(device_type)(torch.zeros(1, 4), batch, np.zeros((0, 0), np.int32), [-1]) is result


@pytest.mark.parametrize(
    ("logits", "bitmask", "message"),
    [
        (torch.zeros(3, 40), None, r"n at most 2, .* not torch.float32 \[3, 40\]"),
        (torch.zeros(2, 41), None, r"\[n, 40\]"),
        (torch.zeros(2, 40, dtype=torch.float64), None, "float32, bfloat16 or float16"),
        (torch.zeros(40, 2).T, None, r"with strides \[1, 2\]"),
        (torch.zeros(2, 40), torch.zeros(2, 2), "a bitmask has to be int32"),
        (torch.zeros(2, 40), torch.zeros(2, 2, dtype=torch.int32).T, "a bitmask has to be int32"),
    ],
)
def test_tensors_that_do_not_fit_the_device_sampler(
    logits: torch.Tensor, bitmask: torch.Tensor | None, message: str
) -> None:
    triton_sampler = pytest.importorskip("engine_adapter.sampling.triton_sampler")
    device = torch.device("cpu")
    with pytest.raises(ValueError, match=message):
        triton_sampler.DeviceSampler(2, 40, device).launch(logits, bitmask, triton_sampler.Outputs.empty(3, device))


def test_rows_that_do_not_fit_the_device_sampler() -> None:
    triton_sampler = pytest.importorskip("engine_adapter.sampling.triton_sampler")
    device = torch.device("cpu")
    small = triton_sampler.DeviceSampler(2, 40, device)
    with pytest.raises(ValueError, match="3 rows, but memory for 2"):
        small.stage(SamplingRows.of([SamplingParams()] * 3, [0.0] * 3), np.zeros(3, np.int64))
    biased = SamplingRows.of([SamplingParams(logit_bias={1: 1.0})] * 2, [0.0] * 2)
    with pytest.raises(ValueError, match="bias and penalties are done to the logits before"):
        small.stage(biased, np.zeros(2, np.int64))
    for row_map in ([0], [0, -2]):
        with pytest.raises(ValueError, match="each of 2 rows a row of the bitmask, or -1"):
            small.stage(SamplingRows.of([SamplingParams()] * 2, [0.0] * 2), np.array(row_map))
    with pytest.raises(ValueError, match="2 rows of logits, but outputs for 1"):
        small.launch(torch.zeros(2, 40), None, triton_sampler.Outputs.empty(1, device))


def test_where_numba_compiles_nothing_torch_samples() -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    script = """
import torch
from engine_adapter.sampling import SamplingParams, SamplingRows, sampler
sampled = sampler.sample(torch.arange(4.0)[None], SamplingRows.of([SamplingParams(temperature=0)], [0.0]))
assert sampled.tokens.tolist() == [3]
"""
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, check=True)
