"""An exception in every call that a step makes, one after the other: it ends whom it concerns, with its cause, and all
others' outputs are what they are without it.

The calls are not listed here but found: every function of the engine's parts, of the core and of the scripted model
and grammar that is called inside of a step, in the engine's thread or in the one that fills bitmasks.
"""

import inspect
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import attrs
import pytest

from engine_adapter.embedded import engine as engine_module
from engine_adapter.embedded import forward as forward_module
from engine_adapter.embedded.engine import Engine, StepReport, run
from engine_adapter.embedded.request import Request, Sequence
from engine_adapter.filling import Filling
from engine_adapter.masks import fill_rows
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, FinishReason, Terminal
from engine_adapter.sampling import SamplingParams
from structout import Choice, Err, ErrorKind, Ok
from tests.embedded.test_engine_machine import OPTIONS, REFUSED, ManualService, grammar
from tests.fakes import ForcingTrieMatcher
from tests.scripted import LongestTokens, ScriptedRunner

pytestmark = pytest.mark.long

ROOT = Path(engine_module.__file__).resolve().parents[2]
PARTS = tuple(str(ROOT / part) for part in ("engine_adapter/", "structout/", "tests/scripted.py", "tests/fakes.py"))
SLICES = 8
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """A thousand tracebacks would be kept for a report that nobody reads."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


class Injected(BaseException):
    """Thrown into a call. No `Exception`, like a panic in Rust, so that nothing takes it for something it knows."""


def is_call(code: CodeType) -> bool:
    """Whether it is a function that a step calls: not the engine's own lines, nor a generator that goes on."""
    if code.co_filename == engine_module.__file__ or code.co_flags & inspect.CO_GENERATOR or code.co_name[0] == "<":
        return False
    return code.co_filename.startswith(PARTS) or code.co_filename.startswith("<attrs generated methods engine_adapter")


@attrs.define
class Thrower:
    """Counts calls and raises in one of them.

    Attributes:
        at: in which, from 0; None to count only.
        calls: how many there were.
        name: of the function that it was.
        concerned: id of the request that the call was made for; None if it was made for all.
        called: the functions that were called.
        is_waited_for: set when a step waits for its bitmasks. They are not filled before, or it would be a matter of
            luck which calls a step makes.
    """

    at: int | None
    calls: int = 0
    name: str = ""
    concerned: str | None = None
    called: set[str] = attrs.field(factory=set)
    is_waited_for: threading.Event = attrs.field(factory=threading.Event)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not is_call(frame.f_code):
            return
        self.calls += 1
        self.called.add(frame.f_code.co_qualname)
        if frame.f_code is Filling.can_go_on_within.__code__:
            self.is_waited_for.set()
        if self.at == self.calls - 1:
            self.is_waited_for.set()  # if it is waited for at all now
            self.name, self.concerned = frame.f_code.co_qualname, concerned(frame)
            if "self" in frame.f_locals and isinstance(frame.f_locals["self"], StepReport):
                self.name = "StepReport"
            raise Injected(self.name)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        before = sys.getprofile()
        sys.setprofile(before if self.name else self)
        try:
            yield
        finally:
            sys.setprofile(before)


def concerned(frame: FrameType | None) -> str | None:
    """Whose request the engine was at, if it was at one."""
    while frame is not None:
        if frame.f_code.co_filename in (engine_module.__file__, forward_module.__file__) and is_of_one(frame.f_code):
            for name in ("sequence", "new", "late", "chunk"):
                value = frame.f_locals.get(name)
                value = getattr(value, "sequence", value)
                if isinstance(value, Sequence):
                    return value.id
        frame = frame.f_back
    return None


def is_of_one(code: CodeType) -> bool:
    """No comprehension: what it makes of many at once is none's alone."""
    return code.co_name[0] != "<"


def request(id: str, length: int, **fields: Any) -> Request:
    common: dict[str, Any] = {"max_tokens": 3, "sampling": SamplingParams(seed=length, logprobs=1)}
    return Request(id=id, prompt=tuple(range(1, length + 1)), **(common | fields))


REQUESTS = (
    request("free", 15, stop=("not said",), max_tokens=2),
    request("choice", 2, spec=Choice(OPTIONS), stop=("s", "o", "be", "cd", "é"), include_stop=True),
    request("later", 3, spec=Choice(OPTIONS), stop=("a",)),
    request("refused", 1, spec=Choice(OPTIONS)),
    request("aborted", 5, max_tokens=12),
    request("vector", 8, embed=True),
)
NEXT = request("free", 2, max_tokens=1)


@attrs.define
class Trial:
    """The scenario, gone through once, and then one more request.

    Attributes:
        ends: how each request ended.
        texts: what deltas have said of each.
        escaped: whether a step raised.
        preemptions: how many there were.
        next_end: how the request ended that came when all was over.
    """

    thrower: Thrower
    ends: dict[str, Terminal] = attrs.field(factory=dict)
    texts: dict[str, tuple[str, tuple[int, ...]]] = attrs.field(factory=dict)
    escaped: bool = False
    preemptions: int = 0
    next_end: Terminal | None = None

    def take(self, report: StepReport) -> None:
        for event in report.events:
            assert event.request_id not in self.ends, "an event after the end"
            text, tokens = self.texts.get(event.request_id, ("", ()))
            match event.outcome:
                case Delta() as delta:
                    self.texts[event.request_id] = (text + delta.text, tokens + delta.token_ids)
                case Finished() as end:
                    assert (text, tokens) == (end.text, end.token_ids)
                    self.ends[event.request_id] = end
                case end:
                    self.ends[event.request_id] = end


def tried(at: int | None, *, in_fill: bool) -> Trial:
    """Goes through the scenario with an exception in call number ``at``, if that is not None."""
    trial = Trial(Thrower(at))
    service, runner = ManualService(), ScriptedRunner(max_rows=3, max_len=20)
    engine = Engine(
        runner,
        service,
        step_tokens=6,
        kv_tokens=20,
        mask_budget_s=PATIENCE_S,
        canonical=LongestTokens(),
        mask_entries=2,
        clock=lambda: 0.0,
    )

    def fill(*args: Any) -> object:
        if in_fill:
            with trial.thrower.at_work():
                return fill_rows(*args)
        assert trial.thrower.is_waited_for.wait(PATIENCE_S)
        return fill_rows(*args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(forward_module, "fill_rows", fill)
        for each in REQUESTS:
            engine.add(each).unwrap()
        for step in range(60):
            happens(step, engine, service)
            if not trial.thrower.name:
                trial.thrower.is_waited_for.clear()
            try:
                with nullcontext() if in_fill else trial.thrower.at_work():
                    report = engine.step()
            except Injected:
                trial.escaped = True
                continue
            trial.take(report)
            if not engine.has_work and step > 4:
                break
    assert engine.unfinished == 0, "a request is left"
    assert [runner.length(row) for row in range(3)] == [0, 0, 0], "an ended request keeps a KV row"
    trial.preemptions = engine.scheduler.preemptions
    trial.next_end = [event.outcome for event in run(engine, [NEXT])][-1]  # type: ignore[assignment]
    engine.close()
    return trial


def happens(step: int, engine: Engine, service: ManualService) -> None:
    """What comes from outside before a step."""
    match step:
        case 1:
            service.pending[0].settle(Ok(grammar()))
            service.pending[2].settle(Err(REFUSED))
        case 2:
            service.pending[1].settle(Ok(grammar(ForcingTrieMatcher)))
        case 4:
            engine.abort("aborted")


@cache
def undisturbed(in_fill: bool) -> Trial:
    return tried(None, in_fill=in_fill)


def check(at: int, *, in_fill: bool) -> None:
    expected, trial = undisturbed(in_fill), tried(at, in_fill=in_fill)
    name = trial.thrower.name
    failed = {id: end.error for id, end in trial.ends.items() if end != expected.ends[id] and isinstance(end, Failed)}
    assert name, "the call was made"
    assert trial.ends == expected.ends | {id: trial.ends[id] for id in failed}, name
    assert set(trial.ends) == set(expected.ends), name
    assert trial.thrower.concerned is None or failed.keys() <= {trial.thrower.concerned}, name
    for error in failed.values():
        assert error.kind in (ErrorKind.ENGINE_FAILURE, ErrorKind.BACKEND_FAILURE)
        assert (error.detail or "").endswith(f"Injected: {name}")
    # A report that cannot even be made comes out of the step, and the next step makes it.
    assert trial.escaped == (name == "StepReport"), name
    assert trial.next_end == expected.next_end, name


def test_the_scenario_has_everything_in_it() -> None:
    trial = undisturbed(False)
    kinds = {id: type(end) for id, end in trial.ends.items() if type(end) is not Finished}
    assert kinds == {"refused": Failed, "aborted": Aborted}
    assert trial.ends.keys() == {each.id for each in REQUESTS}
    ends = [end for end in trial.ends.values() if isinstance(end, Finished)]
    assert {end.reason for end in ends} == {FinishReason.STOP, FinishReason.LENGTH}
    assert any(end.stop_string for end in ends)
    assert any(end.vector for end in ends)
    assert trial.preemptions > 0
    assert trial.thrower.calls > 800
    assert trial.thrower.called >= {
        "Filler.begin",
        "Filling.wait_for_rest",
        "Forward._sample",
        "SamplingBatch.rows",
        "SampledRows.on_host",
    }
    assert undisturbed(True).thrower.calls > 40
    assert undisturbed(True).thrower.called >= {
        "fill_rows",
        "Constraint.fill",
        "Constraint.settle_fill",
        "TrieMatcher.fill",
    }


@pytest.mark.parametrize("part", range(SLICES))
def test_an_exception_in_any_call_of_a_step_ends_whom_it_concerns(part: int) -> None:
    for at in range(part, undisturbed(False).thrower.calls, SLICES):
        check(at, in_fill=False)


def test_an_exception_in_any_call_that_fills_bitmasks_ends_whom_it_concerns() -> None:
    for at in range(undisturbed(True).thrower.calls):
        check(at, in_fill=True)
