"""The compile service: once for equal specs, within a deadline, and never an exception."""

import gc
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pytest

from structout import (
    BackendInfo,
    Choice,
    Err,
    ErrorKind,
    Fault,
    GrammarError,
    JsonSchema,
    Ok,
    Result,
    Vocabulary,
    hookimpl,
)
from structout.backend import Backend, CompiledGrammar
from structout.compile import CompileService, PendingGrammar
from structout.discovery import discover
from structout.hookspecs import CompileEvent
from structout.spec import GrammarSpec
from tests.fakes import BYTES, TrieBackend, TriePlugin, trie_info

WAIT_S = 30.0


@attrs.define(eq=False)
class Gate:
    """A backend that waits to be let through, and counts."""

    opened: threading.Event = attrs.field(factory=threading.Event)
    entered: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    compiled: list[GrammarSpec] = attrs.field(factory=list)
    events: list[CompileEvent] = attrs.field(factory=list)
    observed: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        self.compiled.append(spec)
        self.entered.release()
        assert self.opened.wait(WAIT_S)
        return TrieBackend(BYTES).compile(spec)

    def info(self) -> BackendInfo:
        def create(vocabulary: Vocabulary) -> Backend:
            return self

        return attrs.evolve(trie_info("gate"), create=create)

    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        return [self.info()]

    @hookimpl
    def structout_compile_finished(self, event: CompileEvent) -> None:
        self.events.append(event)
        self.observed.release()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def make(gate: Gate) -> Iterator[Callable[..., CompileService]]:
    services: list[CompileService] = []

    def make(**options: float) -> CompileService:
        registry = discover(plugins={"gate": gate}, entry_points=[], disable=[])
        services.append(CompileService(registry, BYTES, **options))  # type: ignore[arg-type]
        return services[-1]

    yield make
    for service in services:
        service.close()


def outcome(pending: PendingGrammar) -> GrammarError | None:
    """The error of a result that is there in time; None for a grammar."""
    match pending.wait(WAIT_S):
        case Ok():
            return None
        case Err(error):
            return error
        case None:
            pytest.fail("it never got a result")


def kind(pending: PendingGrammar) -> ErrorKind | None:
    error = outcome(pending)
    return error.kind if error else None


def test_equal_specs_are_compiled_once_however_many_ask(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make()
    with ThreadPoolExecutor(8) as threads:
        waiting = list(threads.map(lambda _: service.submit(Choice(("a", "b"))), range(200)))
    gate.opened.set()
    assert [outcome(pending) for pending in waiting] == [None] * 200
    assert outcome(service.submit(Choice(("b", "a")))) is None
    assert len(gate.compiled) == 1


def test_a_result_is_cached_unless_it_is_not_the_clients_fault(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make()
    gate.opened.set()
    for options, times in ((("a",), 1), (("refuse",), 1), (("raise",), 2)):
        gate.compiled.clear()
        for _ in range(2):
            outcome(service.submit(Choice(options)))
        assert len(gate.compiled) == times, options


def test_the_cache_is_bounded(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(cache_entries=2)
    gate.opened.set()
    for option in "abca":
        outcome(service.submit(Choice((option,))))
    assert len(gate.compiled) == 4


def test_a_deadline_ends_the_wait_and_is_no_verdict(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make()
    late = service.submit(Choice(("a",)), deadline_s=0.05)
    error = outcome(late)
    assert error is not None
    assert (error.kind, error.fault, error.consequence.http_status) == (ErrorKind.TIMED_OUT, Fault.SERVICE, 504)
    patient = service.submit(Choice(("a",)))
    gate.opened.set()
    assert outcome(patient) is None
    assert kind(late) is ErrorKind.TIMED_OUT, "what has a result keeps it"
    assert len(gate.compiled) == 1, "the second joined the compile that the first gave up"


def test_a_compile_that_everybody_gave_up_never_begins(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(threads=1)
    running = service.submit(Choice(("running",)))
    assert gate.entered.acquire(timeout=WAIT_S)
    given_up = [service.submit(Choice(("given up",))) for _ in range(3)]
    wanted = [service.submit(Choice(("wanted",))) for _ in range(3)]
    for pending in (*given_up, *wanted[1:]):
        pending.cancel()
    gate.opened.set()
    assert [kind(pending) for pending in given_up] == [ErrorKind.CANCELLED] * 3
    assert kind(running) is None
    assert [kind(pending) for pending in wanted] == [None, ErrorKind.CANCELLED, ErrorKind.CANCELLED]
    assert [spec.options[0] for spec in gate.compiled if isinstance(spec, Choice)] == ["running", "wanted"]


def test_a_spec_that_was_given_up_can_be_asked_for_again(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(threads=1)
    service.submit(Choice(("running",)))
    assert gate.entered.acquire(timeout=WAIT_S)
    service.submit(Choice(("a",))).cancel()
    again = service.submit(Choice(("a",)))
    gate.opened.set()
    assert outcome(again) is None


def test_a_full_queue_refuses(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(threads=1, max_queue=2)
    first, second = service.submit(Choice(("a",))), service.submit(Choice(("b",)))
    error = outcome(service.submit(Choice(("c",))))
    assert error is not None
    assert (error.kind, error.consequence.http_status) == (ErrorKind.OVERLOADED, 503)
    joins = service.submit(Choice(("b",)))
    gate.opened.set()
    assert [outcome(pending) for pending in (first, second, joins)] == [None, None, None]
    assert outcome(service.submit(Choice(("c",)))) is None


def test_closing_fails_whoever_waits(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make()
    waiting = service.submit(Choice(("a",)))
    service.close()
    assert kind(waiting) is ErrorKind.CANCELLED
    assert kind(service.submit(Choice(("b",)))) is ErrorKind.CANCELLED


def test_observers_hear_of_every_compile(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make()
    gate.opened.set()
    for options in (("a",), ("refuse",)):
        outcome(service.submit(Choice(options)))
        assert gate.observed.acquire(timeout=WAIT_S)
    heard = [(event.backend, event.error.kind if event.error else None) for event in gate.events]
    assert heard == [("gate", None), ("gate", ErrorKind.UNSUPPORTED)]
    assert all(event.seconds >= 0 for event in gate.events)


def test_a_schema_that_is_none_is_refused_before_any_backend_sees_it(make: Callable[..., CompileService]) -> None:
    error = outcome(make().submit(JsonSchema('{"type": "strin"}')))
    assert error is not None
    assert (error.kind, error.pointer) == (ErrorKind.INVALID_SPEC, "/type")


def failing(times: int) -> Callable[[Vocabulary], Backend]:
    left = times

    def create(vocabulary: Vocabulary) -> Backend:
        nonlocal left
        left -= 1
        if left >= 0:
            raise MemoryError
        return TrieBackend(vocabulary)

    return create


def test_the_next_candidate_is_tried_when_one_refuses_or_fails() -> None:
    class Refuses(TrieBackend):
        def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="not me"))

    infos = [
        attrs.evolve(trie_info("a"), create=Refuses),
        attrs.evolve(trie_info("b"), create=failing(1)),
        trie_info("c"),
    ]
    service = CompileService(discover(plugins={"test": TriePlugin(*infos)}, entry_points=[], disable=[]), BYTES)
    assert service.compile(Choice(("x",))).unwrap().backend.id == "c"
    named = service.compile(Choice(("x",)), backend="a")
    assert isinstance(named, Err)
    assert named.error.message == "not me"
    assert service.backend("b").unwrap().id == "b", "a factory that failed is tried again"
    service.close()


def test_when_all_candidates_fail_each_is_named() -> None:
    infos = [attrs.evolve(trie_info(id), create=failing(9)) for id in ("a", "b")]
    service = CompileService(discover(plugins={"test": TriePlugin(*infos)}, entry_points=[], disable=[]), BYTES)
    result = service.compile(Choice(("x",)))
    assert isinstance(result, Err)
    assert result.error.kind is ErrorKind.BACKEND_FAILURE
    assert "a: " in result.error.message
    assert "b: " in result.error.message
    service.close()


def test_candidates_are_asked_one_after_the_other_and_once_each() -> None:
    asked: list[str] = []

    def info(id: str, error: GrammarError | None) -> BackendInfo:
        def refusal(_spec: GrammarSpec) -> GrammarError | None:
            asked.append(id)
            return error

        return attrs.evolve(trie_info(id), refusal=refusal)

    no = GrammarError(kind=ErrorKind.UNSUPPORTED, message="not me")
    service = service_of(info("a", no), info("b", None), info("c", None))
    assert service.compile(Choice(("x",))).unwrap().backend.id == "b"
    assert asked == ["a", "b"]
    named = service.compile(Choice(("x",)), backend="a")
    assert isinstance(named, Err)
    assert (named.error.candidates, named.error.hint) == (("b", "c"), "leave the backend out, or name b or c")
    assert asked == ["a", "b", "a", "b", "c"], "the others only for the hint"
    service.close()


def service_of(*infos: BackendInfo, **options: Any) -> CompileService:
    return CompileService(discover(plugins={"test": TriePlugin(*infos)}, entry_points=[], disable=[]), BYTES, **options)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        *(("deadline_s", value) for value in (math.inf, math.nan, 10**400, 0, -1, "5")),
        *(("spec", value) for value in ("x", None)),
        *(("backend", value) for value in (5, ["trie"])),
    ],
)
def test_a_wrong_argument_is_an_error_and_harms_nobody(
    argument: str, value: object, gate: Gate, make: Callable[..., CompileService]
) -> None:
    service = make()
    arguments: dict[str, Any] = {"spec": Choice(("a",)), argument: value}
    error = outcome(service.submit(arguments.pop("spec"), **arguments))
    assert error is not None
    assert (error.kind, error.keyword) == (ErrorKind.INVALID_SPEC, argument)
    assert kind(service.submit(Choice(("b",)), deadline_s=0.05)) is ErrorKind.TIMED_OUT, "deadlines still pass"


def test_a_very_long_deadline_keeps_no_other_from_passing(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make()
    patient = service.submit(Choice(("a",)), deadline_s=1e300)
    assert kind(service.submit(Choice(("b",)), deadline_s=0.05)) is ErrorKind.TIMED_OUT
    gate.opened.set()
    assert outcome(patient) is None


@pytest.mark.parametrize("deadline_s", [0.0, math.nan, math.inf])
def test_a_default_deadline_that_is_none_is_refused(deadline_s: float) -> None:
    with pytest.raises(ValueError, match="deadline_s"):
        service_of(deadline_s=deadline_s)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise self


EXCEPTIONS = [SystemExit(1), KeyboardInterrupt(), Unspeakable(), MemoryError()]


def raising(exc: BaseException) -> Callable[..., Any]:
    def function(*_args: object) -> Any:
        raise exc

    return function


@attrs.frozen(eq=False)
class Observer:
    """Raises."""

    exc: BaseException

    @hookimpl
    def structout_compile_finished(self, event: CompileEvent) -> None:
        raise self.exc


@pytest.mark.parametrize("exc", EXCEPTIONS, ids=type)
def test_whatever_is_raised_the_only_thread_goes_on(exc: BaseException) -> None:
    class Raises(TrieBackend):
        def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
            raise exc

    infos = [
        attrs.evolve(trie_info("compile"), create=Raises),
        attrs.evolve(trie_info("create"), create=raising(exc)),
        attrs.evolve(trie_info("refusal"), refusal=raising(exc)),
        trie_info("good"),
    ]
    registry = discover(plugins={"test": TriePlugin(*infos), "observer": Observer(exc)}, entry_points=[], disable=[])
    service = CompileService(registry, BYTES, threads=1, deadline_s=WAIT_S)
    for backend in ("compile", "create", "refusal"):
        error = outcome(service.submit(Choice(("a",)), backend=backend))
        assert error is not None
        assert error.kind in (ErrorKind.BACKEND_FAILURE, ErrorKind.ENGINE_FAILURE)
    first = service.submit(Choice(("a",)), backend="good")
    first.add_done_callback(raising(exc))
    assert [outcome(first), outcome(service.submit(Choice(("b",)), backend="good"))] == [None, None]
    service.close()


def test_without_a_cache_everything_is_compiled_anew(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(cache_entries=0, threads=1)
    gate.opened.set()
    for options in (("a",), ("a",), ("refuse",), ("refuse",)):
        assert kind(service.submit(Choice(options))) is (ErrorKind.UNSUPPORTED if "refuse" in options else None)
    assert len(gate.compiled) == 4


def test_refusals_evict_no_grammar_and_are_bounded(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(cache_entries=2)
    gate.opened.set()
    kept = service.compile(Choice(("good",))).unwrap()
    for number in range(3):
        assert kind(service.submit(Choice((f"{number}", "refuse")))) is ErrorKind.UNSUPPORTED
    assert service.compile(Choice(("good",))).unwrap() is kept
    gate.compiled.clear()
    assert kind(service.submit(Choice(("0", "refuse")))) is ErrorKind.UNSUPPORTED
    assert gate.compiled, "the oldest refusal was forgotten"


def test_a_transient_failure_beside_a_refusal_is_not_kept() -> None:
    class Refuses(TrieBackend):
        def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="not me"))

    service = service_of(attrs.evolve(trie_info("a"), create=failing(1)), attrs.evolve(trie_info("b"), create=Refuses))
    assert kind(service.submit(Choice(("x",)))) is ErrorKind.BACKEND_FAILURE
    assert outcome(service.submit(Choice(("x",)))) is None
    service.close()


def test_nothing_is_left_of_what_was_given_up(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(threads=1, max_queue=3)
    service.submit(Choice(("running",)))
    assert gate.entered.acquire(timeout=WAIT_S)
    references = []
    for number in range(100):
        spec = Choice((f"{number}",))
        references.append(weakref.ref(spec))
        service.submit(spec, deadline_s=3600).cancel()
    del spec
    gc.collect()
    assert not [reference for reference in references if reference() is not None]
    fits = [service.submit(Choice((option,))) for option in "ab"]
    gate.opened.set()
    assert [outcome(pending) for pending in fits] == [None, None]


def test_a_deadline_keeps_no_grammar_that_the_cache_let_go(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(cache_entries=1, threads=1)
    gate.opened.set()
    pending = service.submit(Choice(("a",)), deadline_s=3600)
    result = pending.wait(WAIT_S)
    assert isinstance(result, Ok)
    reference = weakref.ref(result.value)
    del pending, result
    gate.compiled.clear()
    for option in "bc":
        assert outcome(service.submit(Choice((option,)))) is None
    assert gate.observed.acquire(timeout=WAIT_S)
    gate.events.clear()
    gc.collect()
    assert reference() is None


def test_a_backend_that_takes_long_to_start_keeps_nobody_from_another() -> None:
    entered, opened = threading.Event(), threading.Event()

    def create(vocabulary: Vocabulary) -> Backend:
        entered.set()
        assert opened.wait(WAIT_S)
        return TrieBackend(vocabulary)

    service = service_of(attrs.evolve(trie_info("slow"), create=create), trie_info("fast"), threads=2)
    slow = service.submit(Choice(("a",)), backend="slow", deadline_s=WAIT_S)
    assert entered.wait(WAIT_S)
    assert outcome(service.submit(Choice(("a",)), backend="fast")) is None
    assert slow.result() is None
    opened.set()
    assert outcome(slow) is None
    service.close()


def test_many_waiters_of_one_job_leave_in_any_order(gate: Gate, make: Callable[..., CompileService]) -> None:
    service = make(threads=1)
    waiters = [service.submit(Choice(("same",)), deadline_s=WAIT_S) for _ in range(2000)]
    for pending in reversed(waiters[1:]):
        pending.cancel()
    gate.opened.set()
    assert outcome(waiters[0]) is None
    assert {kind(pending) for pending in waiters[1:]} == {ErrorKind.CANCELLED}
