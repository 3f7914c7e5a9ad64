"""The sandbox's workers: started, found fit, replaced, and gone without a trace."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final, Never

import attrs
import pytest

from structout import Choice, Err, ErrorKind, Fault, GrammarError, JsonSchema, Ok, Result
from structout.compile.sandbox import Sandbox, crew
from structout.compile.sandbox.crew import Crew
from structout.discovery import discover
from structout.fuzz.vocabulary import small_vocabulary
from structout.processes import LineProcess, Stop
from structout.processes.started import NICENESS
from structout.processes.usage import open_descriptors
from tests.compile.hazards import HazardsPlugin, mark
from tests.compile.sandboxes import HAZARDS, LIMITS, LONG_S, Make, is_gone, made_fifo, run

CRASHES: Final = 8


def test_crashes_leave_no_descriptor_and_no_zombie(make: Make, tmp_path: Path) -> None:
    sandbox, path = make(), tmp_path / "mark"
    assert sandbox.wait_until_full()
    before = open_descriptors()
    for _ in range(CRASHES):
        assert run(sandbox, "abort", mark(path)).error.kind is ErrorKind.BACKEND_FAILURE  # type: ignore[union-attr]
    # The replacement is there only when the last crash is cleared away.
    assert isinstance(run(sandbox, "no"), Ok)
    assert sandbox.lost == CRASHES
    assert open_descriptors() == before
    pids = [int(line) for line in path.read_text().splitlines()]
    assert len(pids) == CRASHES
    assert all(map(is_gone, pids))


def test_closing_leaves_no_descriptor_no_thread_and_no_process(make: Make) -> None:
    files, threads = open_descriptors(), threading.active_count()
    sandbox = make(workers=3)
    assert sandbox.wait_until_full()
    pids = sandbox.pids()
    sandbox.close()
    sandbox.close()
    assert (open_descriptors(), threading.active_count()) == (files, threads)
    assert all(map(is_gone, pids))


def test_workers_are_nice_to_this_process_in_whose_session_they_stay(make: Make) -> None:
    sandbox = make()
    assert sandbox.wait_until_full()
    [pid] = sandbox.pids()
    assert os.getpriority(os.PRIO_PROCESS, pid) == min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    if sys.platform == "linux":
        assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    assert os.getsid(pid) == os.getsid(0)
    assert os.getpgid(pid) == pid


def test_where_no_priority_may_be_changed_workers_run_all_the_same(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Never:
        raise PermissionError("not here")

    for name in ("setpriority", "sched_setscheduler"):
        monkeypatch.setattr(os, name, refuse, raising=False)
    assert isinstance(run(make(), "no"), Ok)


ENGINE: Final = """
import sys
from structout import Choice
from structout.compile.sandbox import Sandbox
from structout.discovery import discover
from structout.fuzz.vocabulary import byte_vocabulary
from structout.processes import Stop
from tests.compile.hazards import PLUGIN, HazardsPlugin

sandbox = Sandbox(discover(plugins={"hazards": HazardsPlugin()}), byte_vocabulary(), workers=1, plugins=[PLUGIN])
sandbox.run(Choice(("hang", sys.argv[1])), backend="hazards", stop=Stop())
"""


def test_workers_die_with_the_engine(tmp_path: Path) -> None:
    fifo = made_fifo(tmp_path)
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", ENGINE, mark(fifo)]
    with subprocess.Popen(command, env=os.environ | paths) as engine, fifo.open() as marks:
        assert marks.readline()
        engine.kill()
        assert marks.read() == ""  # ends when the worker has died


def test_a_worker_that_crashes_at_its_start_is_said_to_and_not_waited_for(make: Make) -> None:
    error = run(make(warm=["crashes_at_start"], workers=2), "no").error  # type: ignore[union-attr]
    assert error.kind is ErrorKind.BACKEND_FAILURE
    assert "cannot be started" in error.message
    assert "SIGABRT" in str(error.detail)


def test_a_backend_that_cannot_be_loaded_costs_the_others_nothing(make: Make) -> None:
    sandbox = make(warm=["raises_at_start", "nobody"])
    assert isinstance(run(sandbox, "no"), Ok)
    error = sandbox.run(Choice(("no",)), backend="raises_at_start", stop=Stop()).error  # type: ignore[union-attr]
    assert error.kind is ErrorKind.BACKEND_FAILURE
    assert "libgrammar.so is missing" in str(error.detail)


def test_workers_that_cannot_find_a_plugin_say_why(make: Make) -> None:
    error = run(make(plugins=["tests.compile.nowhere:Plugin"]), "no").error  # type: ignore[union-attr]
    assert (error.kind, error.fault) == (ErrorKind.UNAVAILABLE, Fault.SERVICE)
    assert "tests.compile.nowhere" in str(error.detail)


def test_after_a_failed_start_the_crew_pauses_before_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "FIRST_PAUSE_S", LONG_S)
    starts: list[Stop] = []

    def start(stop: Stop) -> Result[LineProcess, GrammarError]:
        starts.append(stop)
        return Err(GrammarError(kind=ErrorKind.UNAVAILABLE, fault=Fault.SERVICE, message="not today"))

    workers = Crew(start, 2)
    for _ in range(10):
        assert workers.take(Stop()).error.message == "not today"  # type: ignore[union-attr]
    workers.close()
    assert len(starts) == 2


def test_a_crew_recovers_from_failed_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "FIRST_PAUSE_S", 0.001)
    may_start = threading.Event()

    def start(stop: Stop) -> Result[LineProcess, GrammarError]:
        if may_start.is_set():
            return Ok(LineProcess("structout.compile.sandbox.worker"))
        return Err(GrammarError(kind=ErrorKind.UNAVAILABLE, fault=Fault.SERVICE, message="not today"))

    workers = Crew(start, 1)
    assert isinstance(workers.take(Stop()), Err)
    may_start.set()
    assert workers.wait_until_full(LONG_S)
    assert isinstance(workers.take(Stop()), Ok)
    workers.close()


def test_a_backend_of_another_version_is_not_tried(make: Make) -> None:
    other = {
        backend: attrs.evolve(each, distribution="hazards 9.9" if backend == "hazards" else each.distribution)
        for backend, each in HAZARDS.backends.items()
    }
    sandbox = make(attrs.evolve(HAZARDS, backends=other))
    error = run(sandbox, "no").error  # type: ignore[union-attr]
    assert error.kind is ErrorKind.UNAVAILABLE
    assert "finds no distribution, the engine has hazards 9.9" in str(error.detail)
    assert isinstance(sandbox.run(Choice(("no",)), backend="reference", stop=Stop()), Ok)


def test_a_backend_that_the_workers_do_not_find_is_unavailable(make: Make) -> None:
    error = run(make(plugins=[]), "no").error  # type: ignore[union-attr]
    assert error.kind is ErrorKind.UNAVAILABLE
    assert "does not find it" in str(error.detail)


def test_a_backend_that_only_the_workers_find_is_not_tried(make: Make) -> None:
    error = run(make(discover()), "no").error  # type: ignore[union-attr]
    assert error.kind is ErrorKind.UNAVAILABLE


def test_what_is_switched_off_in_the_engine_is_off_in_the_workers(make: Make) -> None:
    off = ["hazards"]
    sandbox = make(discover(plugins={"p": HazardsPlugin()}, disable=off), disable=off)
    assert run(sandbox, "no").error.kind is ErrorKind.UNAVAILABLE  # type: ignore[union-attr]
    assert isinstance(sandbox.run(Choice(("no",)), stop=Stop()), Ok)


def test_real_backends_are_tried_and_refuse_what_they_refuse_in_process() -> None:
    backends = ["llguidance", "outlines", "xgrammar"]
    schema = JsonSchema('{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}')
    sandbox = Sandbox(discover(), small_vocabulary(), workers=1, warm=backends, limits=attrs.evolve(LIMITS, cpu_s=60.0))
    for backend in backends:
        tried = sandbox.run(schema, backend=backend, stop=Stop()).unwrap()
        assert tried.backend == backend
        assert tried.fills > 5
    invalid = sandbox.run(JsonSchema('{"type": "int"}'), stop=Stop()).error  # type: ignore[union-attr]
    assert (invalid.kind, invalid.pointer) == (ErrorKind.INVALID_SPEC, "/type")
    refused = sandbox.run(JsonSchema('{"not": {}}'), backend="llguidance", stop=Stop()).error  # type: ignore[union-attr]
    assert refused.backend == "llguidance"
    assert sandbox.lost == 0
    sandbox.close()
