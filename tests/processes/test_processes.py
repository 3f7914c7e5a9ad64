"""Child processes, spawned or forked: the same to whoever asks them, and what a fork server can and cannot do."""

import gc
import json
import os
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from structout.processes import Cause, Ended, ForkServer, LineProcess, Stop
from structout.processes.started import NICENESS, Forked, Spawned
from tests.compile.sandboxes import is_gone

DOING = "tests.processes.doing"
LONG_S = 120.0
Start = Callable[..., LineProcess]

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system has no handles of processes")


@pytest.fixture(scope="module")
def server() -> ForkServer:
    return ForkServer.shared([])


@pytest.fixture(params=["spawned", "forked"])
def start(request: pytest.FixtureRequest, server: ForkServer) -> Iterator[Start]:
    made: list[LineProcess] = []

    def start(**options: Any) -> LineProcess:
        made.append(LineProcess(DOING, server=server if request.param == "forked" else None, **options))
        assert isinstance(made[-1]._child, Forked if request.param == "forked" else Spawned)
        return made[-1]

    yield start
    for each in made:
        each.close()


def ask(process: LineProcess, stop: Stop | None = None, **question: object) -> Any:
    answer = process.ask(json.dumps(question).encode(), deadline=time.monotonic() + LONG_S, stop=stop or Stop())
    return json.loads(answer) if isinstance(answer, bytes) else answer


@pytest.mark.parametrize(
    ("question", "status"),
    [
        ({"exit": 0}, 0),
        ({"exit": 7}, 7),
        ({"signal": signal.SIGSEGV}, -signal.SIGSEGV),
        ({"signal": signal.SIGKILL}, -signal.SIGKILL),
    ],
)
def test_how_it_ended_is_told(start: Start, question: dict[str, Any], status: int) -> None:
    process = start()
    pid = process.pid
    ended = ask(process, **question)
    assert isinstance(ended, Ended)
    assert (ended.cause, ended.status) == (Cause.EXITED, status)
    assert ended.signal == (signal.Signals(-status).name if status < 0 else None)
    process.close()
    assert is_gone(pid)
    again = ask(process)
    assert (again.cause, again.status) == (Cause.EXITED, status)


def test_what_it_said_and_used_is_told(start: Start) -> None:
    process = start()
    assert ask(process, say="before") == {}
    ended = ask(process, signal=signal.SIGABRT)
    assert ended.cpu_s is not None
    assert "Fatal Python error: Aborted" in ended.stderr
    assert "before" not in ended.stderr


@pytest.mark.parametrize("depth", [1, 90])
@pytest.mark.parametrize("noise", [0, 5000])
def test_what_native_code_said_last_is_kept_before_the_place_of_a_crash(start: Start, depth: int, noise: int) -> None:
    ended = ask(start(), say="noise\n" * noise + "why it aborts\n", abort=depth)
    said, _, crash = ended.stderr.partition("Fatal Python error: Aborted")
    assert said.endswith("why it aborts\n")
    assert "in _abort" in crash
    assert len(ended.stderr) <= 2000


@pytest.mark.parametrize("question", [{"leave": "why it left"}, {"raise": "what went wrong"}])
def test_what_it_ends_with_is_told(start: Start, question: dict[str, Any]) -> None:
    [text] = question.values()
    ended = ask(start(), **question)
    assert (ended.cause, ended.status) == (Cause.EXITED, 1)
    assert text in ended.stderr


def test_it_gets_descriptors_under_their_numbers(start: Start) -> None:
    with tempfile.TemporaryFile() as one, tempfile.TemporaryFile() as other:
        for number, file in enumerate((one, other)):
            os.write(file.fileno(), f"file {number}".encode())
        process = start(pass_fds=[other.fileno(), one.fileno()])
        assert ask(process, read=one.fileno()) == {"read": "file 0"}
        assert ask(process, read=other.fileno()) == {"read": "file 1"}


def test_it_is_nice_and_in_a_group_of_its_own(start: Start) -> None:
    process = start()
    assert ask(process, group=True) == {
        "pid": process.pid,
        "group": process.pid,
        "nice": min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS),
    }
    assert os.getsid(process.pid) == os.getsid(0)


def test_what_it_has_started_is_killed_with_it(start: Start) -> None:
    process = start()
    pid = ask(process, start=[sys.executable, "-c", "import signal; signal.pause()"])["pid"]
    process.kill()
    assert isinstance(ask(process), Ended)
    assert is_gone(pid)


def test_stopping_kills_it(start: Start) -> None:
    process, stop = start(), Stop()
    threading.Timer(0.2, stop.set).start()
    ended = ask(process, stop, signal=signal.SIGCONT)
    assert (ended.cause, ended.signal) == (Cause.STOPPED, "SIGKILL")


def test_it_leaves_no_descriptors(start: Start) -> None:
    start().close()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        start().close()
    assert len(os.listdir("/proc/self/fd")) == before


def distribution(folder: Path, name: str, code: str) -> str:
    """An installed distribution of one module."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "top_level.txt").write_text(f"{name}\n")
    return name


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def forked(server: ForkServer) -> LineProcess:
    return LineProcess(DOING, server=server)


def parent_of(process: LineProcess) -> int:
    return int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_fork_has_its_libraries_loaded_and_a_library_that_fails_costs_nothing(installed: Path) -> None:
    names = [distribution(installed, "works", ""), distribution(installed, "fails", "raise SystemError")]
    process = forked(ForkServer([*names, "not-installed"]))
    assert isinstance(process._child, Forked)
    assert ask(process, loaded="works") == {"loaded": True}
    assert ask(process, loaded="fails") == {"loaded": False}
    process.close()


@pytest.mark.parametrize(
    "code",
    ["import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()", "import os; os._exit(1)"],
    ids=["starts a thread", "ends the process"],
)
def test_where_no_server_can_be_had_processes_are_spawned(installed: Path, code: str) -> None:
    server = ForkServer([distribution(installed, "spoils", code)])
    process = forked(server)
    assert isinstance(process._child, Spawned)
    assert ask(process, loaded="spoils") == {"loaded": False}
    process.close()


def test_a_stop_ends_the_waiting_for_a_server(installed: Path) -> None:
    server = ForkServer([distribution(installed, "sleeps", "import time; time.sleep(3600)")])
    stop = Stop()
    threading.Timer(0.2, stop.set).start()
    assert server.fork(DOING, {}, stop) is None


def test_a_killed_server_takes_its_forks_with_it_and_another_is_made(installed: Path) -> None:
    library = distribution(installed, "needed", "")
    server = ForkServer.shared([library])
    process = forked(server)
    assert ask(process, loaded=library) == {"loaded": True}
    os.kill(parent_of(process), signal.SIGKILL)
    ended = ask(process, signal=signal.SIGCONT)
    assert (ended.cause, ended.signal) == (Cause.EXITED, "SIGKILL")
    left_to = forked(server)
    another = ForkServer.shared([library])
    assert another is not server
    forked_again = forked(another)
    assert isinstance(left_to._child, Spawned)
    assert isinstance(forked_again._child, Forked)
    for each in (process, left_to, forked_again):
        each.close()


def test_a_server_ends_when_nobody_holds_it_or_its_forks(installed: Path) -> None:
    server = ForkServer.shared([distribution(installed, "unused", "")])
    process = forked(server)
    parent = parent_of(process)
    gone = weakref.ref(server)
    del server
    assert ask(process, group=True)["pid"] == process.pid
    process.close()
    del process
    gc.collect()
    assert gone() is None
    assert is_gone(parent)
