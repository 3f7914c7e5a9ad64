"""Which sampler stands behind the door on which device."""

import sys
from collections.abc import Iterator

import pytest

from engine_adapter.sampling import sampler, torch_sampler


@pytest.fixture(autouse=True)
def _unread() -> Iterator[None]:
    sampler._batch_sampler.cache_clear()
    yield
    sampler._batch_sampler.cache_clear()


def test_cuda_takes_the_kernels_where_triton_can_be_imported() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    from engine_adapter.sampling import triton_sampler

    assert sampler._batch_sampler("cuda") is triton_sampler.sample_batch


def test_cuda_takes_torch_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "engine_adapter.sampling.triton_sampler", raising=False)
    monkeypatch.delattr("engine_adapter.sampling.triton_sampler", raising=False)
    monkeypatch.setitem(sys.modules, "triton", None)
    assert sampler._batch_sampler("cuda") is torch_sampler.sample_batch


@pytest.mark.parametrize("device_type", ["cpu", "mps", "meta"])
def test_other_devices_take_torch(device_type: str) -> None:
    assert sampler._batch_sampler(device_type) is torch_sampler.sample_batch
