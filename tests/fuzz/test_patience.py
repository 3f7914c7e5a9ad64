"""A process that runs has seconds of CPU time, one that waits has seconds of the clock."""

import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from structout.fuzz import patience
from structout.fuzz.patience import Patience
from structout.processes.usage import cpu_seconds, is_running

BUSY, IDLE = "while True: pass", "import time; time.sleep(3600)"


@pytest.fixture
def pid(request: pytest.FixtureRequest) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", request.param]) as process:
        yield process.pid
        process.kill()


def _wait_until_over(limit: Patience) -> float:
    begun = time.monotonic()
    while not limit.is_over:
        time.sleep(0.01)
    return time.monotonic() - begun


@pytest.mark.parametrize("pid", [IDLE], indirect=True)
def test_what_waits_is_given_up_by_the_clock(pid: int) -> None:
    while is_running(pid):  # it starts
        time.sleep(0.01)
    assert _wait_until_over(Patience(pid, 0.2)) >= 0.19


@pytest.mark.parametrize("pid", [BUSY], indirect=True)
def test_what_runs_is_given_up_by_its_cpu_time(pid: int) -> None:
    before = cpu_seconds(pid) or 0.0
    limit = Patience(pid, 0.3)
    _wait_until_over(limit)
    is_late = limit.left_s <= 0.3 * (1 - patience.MOST)
    assert is_late or (cpu_seconds(pid) or 0.0) - before >= 0.28


@pytest.mark.parametrize("pid", [BUSY], indirect=True)
def test_what_is_kept_from_the_cpu_is_not_given_up(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "cpu_seconds", lambda _pid: 0.0)
    assert _wait_until_over(Patience(pid, 0.1)) >= 0.1 * patience.MOST - 0.01


def test_what_is_gone_is_given_up_by_the_clock() -> None:
    limit = Patience(2**22 + 1, 0.05)
    assert not limit.is_over
    time.sleep(0.06)
    assert limit.is_over
