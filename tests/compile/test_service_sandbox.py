"""The compile service with a sandbox: what is risky is tried elsewhere, and costs nobody else anything."""

import threading
from collections.abc import Iterator

import pytest

from structout import Choice, Err, ErrorKind, JsonSchema, Ok, Regex
from structout.compile import CompileService
from structout.compile.lanes import FairQueue
from structout.compile.risk import BOUNDS, measures_of
from structout.compile.sandbox import Limits, Sandbox
from structout.compile.work import LONG_BYTES
from structout.discovery import discover
from structout.fuzz.vocabulary import small_vocabulary
from structout.processes import Stop
from tests.compile.sandboxes import HeldSandbox, Through

pytest.importorskip("llguidance")

WAIT_S = 120.0
REGISTRY = discover(disable=["xgrammar", "outlines"])
TRIPLE = Regex("(([a-z]{1,129}){1,129}){1,129}")
REFERENCES = JsonSchema(
    '{"$ref": "#/$defs/d0", "$defs": {'
    + ", ".join(f'"d{number}": {{"$ref": "#/$defs/d{number + 1}"}}' for number in range(3000))
    + ', "d3000": {"type": "null"}}}'
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(
        REGISTRY,
        small_vocabulary(),
        workers=2,
        warm=["llguidance"],
        disable=["xgrammar", "outlines"],
        limits=Limits(60),
    )
    yield made
    made.close()


@pytest.fixture
def service(sandbox: Sandbox) -> Iterator[CompileService]:
    made = CompileService(REGISTRY, small_vocabulary(), sandbox=sandbox, deadline_s=WAIT_S)
    yield made
    made.close()


def test_a_plain_spec_does_not_wait_for_the_sandbox(service: CompileService, sandbox: Sandbox) -> None:
    risky = service.submit(TRIPLE)
    assert isinstance(service.compile(Choice(("a", "b"))), Ok)
    assert sandbox.lost == 0
    assert risky.wait(WAIT_S) is not None


@pytest.mark.parametrize("spec", [TRIPLE, REFERENCES], ids=["nested repetitions", "a chain of references"])
def test_a_risky_spec_ends_in_a_grammar_or_a_named_error(service: CompileService, spec: Regex | JsonSchema) -> None:
    match service.submit(spec).wait(WAIT_S):
        case Ok(grammar):
            assert grammar.spec is spec
        case Err(error):
            assert error.kind in {ErrorKind.TOO_COMPLEX, ErrorKind.TIMED_OUT, ErrorKind.BACKEND_FAILURE}
        case None:
            pytest.fail("it never ended")


@pytest.mark.parametrize("spec", [TRIPLE, REFERENCES], ids=["nested repetitions", "a chain of references"])
def test_a_worker_measures_what_this_process_would(sandbox: Sandbox, spec: Regex | JsonSchema) -> None:
    assert sandbox.measure(spec, stop=Stop()) == Ok(measures_of(spec, BOUNDS))
    assert sandbox.lost == 0


def test_a_long_spec_that_is_plain_is_measured_elsewhere_and_tried_nowhere() -> None:
    plain = JsonSchema(f'{{"type": "null", "description": "{"x" * LONG_BYTES}"}}')
    through = Through()
    service = CompileService(REGISTRY, small_vocabulary(), sandbox=through, deadline_s=WAIT_S)  # type: ignore[arg-type]
    grammar = service.compile(plain).unwrap()
    assert not grammar.is_risky
    assert through.measured == [plain]
    assert not through.due
    service.close()


def test_a_long_plain_spec_waits_for_nothing_that_is_tried() -> None:
    held = HeldSandbox()
    service = CompileService(REGISTRY, small_vocabulary(), sandbox=held, deadline_s=WAIT_S)  # type: ignore[arg-type]
    tried = [service.submit(Choice([f"{number} {option}" for option in range(5000)])) for number in range(3)]
    held.wait_for(2)
    assert isinstance(service.compile(JsonSchema(f'{{"type": "null", "title": "{"x" * LONG_BYTES}"}}')), Ok)
    assert all(pending.result() is None for pending in tried)
    held.opened.set()
    assert all(pending.wait(WAIT_S) is not None for pending in tried)
    service.close()


def test_the_last_to_cancel_ends_the_work(service: CompileService) -> None:
    waiting = [service.submit(TRIPLE) for _ in range(20)]
    ended = threading.Event()
    for pending in waiting[1:]:
        pending.cancel()
    waiting[0].add_done_callback(ended.set)
    waiting[0].cancel()
    assert ended.wait(WAIT_S)
    assert isinstance(service.compile(Choice(("a",))), Ok)


def test_tenants_are_served_by_turns_and_none_can_fill_a_queue() -> None:
    queue = FairQueue[int](8)
    for key in range(2):
        assert queue.has_room("greedy")
        queue.put("greedy", key)
    assert not queue.has_room("greedy")
    assert queue.has_room("modest")
    queue.put("modest", 10)
    queue.put("modest", 11)
    assert [queue.pop() for _ in range(5)] == [0, 10, 1, 11, None]


def test_what_has_left_a_queue_takes_no_place() -> None:
    queue = FairQueue[int](2)
    queue.put("", 1)
    queue.put("", 2)
    assert not queue.has_room("other")
    assert queue.remove("", 1)
    assert not queue.remove("", 1)
    assert len(queue) == 1
    assert queue.has_room("other")
    assert queue.pop() == 2
    assert queue.pop() is None
