"""Whatever a spec does to the process that tries it costs its request one error, and the next job finds a worker."""

import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from signal import SIGKILL, SIGSTOP

import pytest

from structout import Choice, Err, ErrorKind, Fault, GrammarError, Ok, Result
from structout.compile.sandbox import Sandbox, Tried, Walks
from structout.compile.sandbox.verdicts import ATTEMPTS, verdict
from structout.fuzz.vocabulary import byte_vocabulary
from structout.processes import Cause, Ended, Stop
from tests.compile.hazards import DESERIALIZE, PLUGIN, SAID, SERIALIZE, mark
from tests.compile.sandboxes import HAZARDS, LIMITS, LONG_S, Make, is_gone, made_fifo, run


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(HAZARDS, byte_vocabulary(), workers=2, warm=["hazards"], plugins=[PLUGIN], limits=LIMITS)
    yield sandbox
    sandbox.close()


@pytest.fixture(scope="module")
def unhurt() -> Iterator[Sandbox]:
    """Has one worker, which the tests that share it all leave alive."""
    sandbox = Sandbox(HAZARDS, byte_vocabulary(), workers=1, warm=["hazards"], plugins=[PLUGIN], limits=LIMITS)
    yield sandbox
    sandbox.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def error_of(sandbox: Sandbox, *options: str, wall_s: float = LONG_S) -> GrammarError:
    match run(sandbox, *options, wall_s=wall_s):
        case Err(error):
            # Whatever happened, the next one is served.
            assert isinstance(run(sandbox, "no"), Ok)
            return error
        case Ok(tried):
            raise AssertionError(tried)


def test_a_grammar_that_comes_through_is_measured(sandbox: Sandbox) -> None:
    tried = run(sandbox, "yes", "no").unwrap()
    assert tried.backend == "hazards"
    assert 2 <= tried.fills <= Walks().max_steps
    assert tried.slowest_fill_s > 0


@pytest.mark.parametrize(
    ("deed", "how"),
    [("segfault", "SIGSEGV"), ("abort", "SIGABRT"), ("exit quietly", "exit status 0")],
)
def test_a_crash_is_a_failure_of_the_backend(sandbox: Sandbox, tmp_path: Path, deed: str, how: str) -> None:
    error = error_of(sandbox, deed, mark(tmp_path / "mark"))
    assert (error.kind, error.fault) == (ErrorKind.BACKEND_FAILURE, Fault.SERVICE)
    assert error.message == "the process that tried this choice crashed"
    assert error.backend == "hazards"
    assert how in str(error.detail)
    assert len((tmp_path / "mark").read_text().splitlines()) == 1, "a crash is not tried again"


def test_what_a_crash_said_is_for_the_operator_alone(sandbox: Sandbox) -> None:
    error = error_of(sandbox, "segfault")
    assert SAID in str(error.detail)
    assert SAID not in str(error.to_json())


def test_a_hang_ends_at_the_wall_clock_limit_and_is_the_services_fault(sandbox: Sandbox) -> None:
    error = error_of(sandbox, "hang", wall_s=0.5)
    assert (error.kind, error.fault) == (ErrorKind.TIMED_OUT, Fault.SERVICE)
    assert re.search(r"within 0\.[1-5]\d* s", error.message)


def test_a_spec_that_computes_without_end_is_over_its_budget(sandbox: Sandbox) -> None:
    error = error_of(sandbox, "spin")
    assert (error.kind, error.fault) == (ErrorKind.TIMED_OUT, Fault.CALLER)
    assert "more than 2 s of processor time" in error.message
    used = re.search("after (.*?) s of processor time", str(error.detail))
    assert used is not None, "what it took since it was asked, and not to start"
    assert float(used[1]) == pytest.approx(LIMITS.cpu_s, abs=1.5)


@pytest.mark.parametrize(
    ("cpu_s", "fault"), [(6.0, Fault.CALLER), (3.5, Fault.CALLER), (1.0, Fault.SERVICE), (None, Fault.SERVICE)]
)
def test_at_the_deadline_it_is_the_specs_fault_if_it_was_computing(cpu_s: float | None, fault: Fault) -> None:
    """Whether the deadline or the limit of processor time comes first says nothing about the spec."""
    error = verdict(Ended(Cause.DEADLINE, -9, "", cpu_s), Choice(("a",)), LIMITS, 7.0)
    assert (error.kind, error.fault) == (ErrorKind.TIMED_OUT, fault)
    assert not error.consequence.cacheable
    assert error.consequence.retry is (fault is Fault.SERVICE)


@pytest.mark.parametrize("deed", ["allocate", "allocate in C++", "allocate in Rust"])
def test_a_spec_that_takes_too_much_memory_is_told_the_limit(sandbox: Sandbox, deed: str) -> None:
    error = error_of(sandbox, deed)
    assert (error.kind, error.fault) == (ErrorKind.TOO_COMPLEX, Fault.CALLER)
    assert "more than 256 MiB of memory" in error.message


@pytest.mark.parametrize("when", [SERIALIZE, DESERIALIZE])
@pytest.mark.parametrize("deed", ["segfault", "exit quietly", "hang", "raise SystemExit", "babble"])
def test_a_grammar_that_came_through_but_cannot_be_handed_over_is_compiled_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, when: str, deed: str
) -> None:
    monkeypatch.setattr("structout.compile.sandbox.pool.HANDING_S", 0.5)
    sandbox = make()
    assert run(sandbox, when + "nothing").unwrap().data == (when + "nothing").encode()
    tried = run(sandbox, when + deed).unwrap()
    assert (tried.backend, tried.data) == ("hazards", None)
    assert isinstance(run(sandbox, "no"), Ok), "the next one is served"


@pytest.mark.parametrize("deed", ["babble", "babble without end", "claim"])
def test_a_worker_that_answers_garbage_is_replaced(make: Make, deed: str) -> None:
    sandbox = make()
    error = error_of(sandbox, deed)
    assert error.kind is ErrorKind.BACKEND_FAILURE
    assert error.message == "the process that tried this choice gave no valid answer"
    assert sandbox.lost == 1


@pytest.mark.parametrize("deed", ["raise SystemExit", "raise KeyboardInterrupt"])
def test_what_ends_python_ends_no_worker(unhurt: Sandbox, deed: str) -> None:
    assert error_of(unhurt, deed).kind is ErrorKind.BACKEND_FAILURE
    assert unhurt.lost == 0


@pytest.mark.parametrize("deed", ["print", "read", "flood standard error"])
def test_standard_input_and_output_are_out_of_the_way(unhurt: Sandbox, deed: str) -> None:
    assert isinstance(run(unhurt, deed), Ok)
    assert unhurt.lost == 0


def test_slow_fills_are_measured_and_end_the_walk(sandbox: Sandbox) -> None:
    tried = run(sandbox, "slow fills").unwrap()
    assert tried.fills == 1
    assert tried.slowest_fill_s > Walks().fill_budget_s


def test_a_matcher_that_fails_is_found_before_it_serves(sandbox: Sandbox) -> None:
    error = error_of(sandbox, "failing fills")
    assert error.kind is ErrorKind.BACKEND_FAILURE
    assert "the matcher gives up" in str(error.detail)


def test_what_a_crashing_worker_has_started_dies_with_it(sandbox: Sandbox, tmp_path: Path) -> None:
    fifo = made_fifo(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(fifo.read_text)
        assert error_of(sandbox, "abort beside a child", mark(fifo)).kind is ErrorKind.BACKEND_FAILURE
        # The FIFO ends when nobody holds it open any more.
        assert reading.result(LONG_S).strip().isdigit()


def test_stopping_kills_the_worker_at_work(make: Make, pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    sandbox, stop, fifo = make(), Stop(), made_fifo(tmp_path)
    running = pool.submit(run, sandbox, "hang", mark(fifo), stop=stop)
    with fifo.open() as marks:
        pid = int(marks.readline())
        stop.set()
        assert marks.read() == ""  # its end of the FIFO is closed: it is dead
    error = running.result(LONG_S).error  # type: ignore[union-attr]
    assert error.kind is ErrorKind.CANCELLED
    assert is_gone(pid)
    assert isinstance(run(sandbox, "no"), Ok)


def test_what_was_stopped_before_it_began_costs_no_worker(unhurt: Sandbox) -> None:
    stop = Stop()
    stop.set()
    stop.set()
    assert unhurt.wait_until_full()
    assert run(unhurt, "segfault", stop=stop).error.kind is ErrorKind.CANCELLED  # type: ignore[union-attr]
    assert isinstance(run(unhurt, "no"), Ok)
    assert unhurt.lost == 0


def test_a_stop_that_comes_late_harms_nobody(sandbox: Sandbox) -> None:
    stop = Stop()
    assert isinstance(run(sandbox, "no", stop=stop), Ok)
    pids = sandbox.pids()
    stop.set()
    assert sandbox.pids() == pids
    assert isinstance(run(sandbox, "no"), Ok)


def until_waiting(sandbox: Sandbox, count: int) -> None:
    deadline = time.monotonic() + LONG_S
    while sandbox.waiting != count:
        assert time.monotonic() < deadline
        time.sleep(0.001)  # another thread has to get there; nothing signals it


def test_jobs_take_their_turns_in_order_of_arrival(make: Make, pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    sandbox, stop, fifo = make(), Stop(), made_fifo(tmp_path)
    running = pool.submit(run, sandbox, "hang", mark(fifo), stop=stop)
    ended: list[str] = []
    waiting: list[Future[Result[Tried, GrammarError]]] = []
    with fifo.open():
        for number in range(4):
            waiting.append(pool.submit(run, sandbox, f"number {number}"))
            waiting[-1].add_done_callback(lambda _, name=f"number {number}": ended.append(name))  # type: ignore[misc]
            until_waiting(sandbox, number + 1)
        stop.set()
    assert [each.result(LONG_S).unwrap().backend for each in waiting] == ["hazards"] * 4
    assert running.done()
    assert ended == [f"number {number}" for number in range(4)]


def test_one_that_waits_can_be_stopped_and_the_one_at_work_goes_on(
    make: Make, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    sandbox, fifo = make(), made_fifo(tmp_path)
    running_stop, waiting_stop = Stop(), Stop()
    running = pool.submit(run, sandbox, "hang", mark(fifo), stop=running_stop)
    with fifo.open():
        waiting = pool.submit(run, sandbox, "no", stop=waiting_stop)
        until_waiting(sandbox, 1)
        waiting_stop.set()
        assert waiting.result(LONG_S).error.kind is ErrorKind.CANCELLED  # type: ignore[union-attr]
        assert not running.done()
        assert sandbox.lost == 0
        running_stop.set()


def test_closing_ends_what_runs_and_what_waits(make: Make, pool: ThreadPoolExecutor, tmp_path: Path) -> None:
    sandbox, fifo = make(), made_fifo(tmp_path)
    running = pool.submit(run, sandbox, "hang", mark(fifo))
    with fifo.open() as marks:
        pid = int(marks.readline())
        waiting = pool.submit(run, sandbox, "no")
        until_waiting(sandbox, 1)
        sandbox.close()
    for ended in (running, waiting):
        error = ended.result(LONG_S).error  # type: ignore[union-attr]
        assert (error.kind, error.message) == (ErrorKind.CANCELLED, "the service was shut down")
    assert is_gone(pid)
    assert run(sandbox, "no").error.kind is ErrorKind.CANCELLED  # type: ignore[union-attr]


def test_a_killed_idle_worker_costs_the_next_job_nothing(make: Make) -> None:
    sandbox = make(workers=2)
    for count in (1, 2):
        assert sandbox.wait_until_full()
        for pid in sandbox.pids()[:count]:
            os.kill(pid, SIGKILL)
        assert isinstance(run(sandbox, "no"), Ok)


def test_a_job_whose_worker_was_killed_is_done_by_another(make: Make, tmp_path: Path) -> None:
    assert isinstance(run(make(), "be killed the first time", mark(tmp_path / "mark")), Ok)
    assert len(set((tmp_path / "mark").read_text().splitlines())) == 2


def test_a_job_whose_workers_are_always_killed_is_given_up(sandbox: Sandbox, tmp_path: Path) -> None:
    error = error_of(sandbox, "be killed", mark(tmp_path / "mark"))
    assert error.kind is ErrorKind.BACKEND_FAILURE
    assert "killed again and again" in error.message
    assert len((tmp_path / "mark").read_text().splitlines()) == ATTEMPTS


def test_a_frozen_worker_ends_at_the_wall_clock_limit_however_long_the_spec_is(make: Make) -> None:
    sandbox = make()
    assert sandbox.wait_until_full()
    os.kill(sandbox.pids()[0], SIGSTOP)
    error = error_of(sandbox, "no", "x" * (4 << 20), wall_s=0.5)
    assert error.kind is ErrorKind.TIMED_OUT
