"""The small form of ``benchmarks/validity.py``: what a real model writes under a constraint is valid."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.validity import BACKENDS, measure
from engine_adapter.embedded.local import Local, open_local
from tests.corpora import maskbench_file


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    local = open_local("smollm2", max_rows=20, max_len=768)
    yield local
    local.close()


@pytest.mark.validity
@pytest.mark.model
@pytest.mark.parametrize("backend", BACKENDS)
def test_finished_outputs_are_valid(local: Local, backend: str) -> None:
    corpus: Path = maskbench_file()
    [tally] = measure(local, corpus, backend, generations=20, seed=11, max_tokens=80, direct=False)
    assert tally.accepted == 20
    assert tally.failed == 0
    assert tally.finished > 0
    assert tally.invalid == 0, tally.examples
