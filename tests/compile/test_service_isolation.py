"""What came through the sandbox is compiled here, or elsewhere where somebody wants that, and then not kept."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from structout import Choice, Err, ErrorKind, Fault, Ok, Result
from structout.compile import CompileService
from structout.compile.sandbox import Tried
from structout.compile.work import SANDBOX_SHARE, Isolate
from structout.discovery import discover
from structout.errors import GrammarError
from structout.grammar import BoundBackend, Grammar
from structout.processes import Stop
from structout.spec import GrammarSpec
from tests.compile.sandboxes import TRIED, Through
from tests.fakes import BYTES, TriePlugin, trie_info

WAIT_S = 30.0
SPEC = Choice(("risky for what was never measured",))
INFO = trie_info("trie")


MakeService = Callable[[Isolate | None], CompileService]


@pytest.fixture
def sandbox() -> Through:
    return Through()


@pytest.fixture
def make(sandbox: Through) -> Iterator[MakeService]:
    made: list[CompileService] = []

    def make(isolate: Isolate | None) -> CompileService:
        registry = discover(plugins={"test": TriePlugin(INFO)}, entry_points=[], disable=[])
        made.append(CompileService(registry, BYTES, sandbox=sandbox, isolate=isolate, deadline_s=WAIT_S))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for service in made:
        service.close()


def compiled_elsewhere() -> Grammar:
    return BoundBackend.create(INFO, None, BYTES).unwrap().compile(SPEC).unwrap()


def test_who_isolates_is_asked_with_what_was_tried_and_may_decline(make: MakeService, sandbox: Through) -> None:
    asked: list[tuple[GrammarSpec, Tried]] = []
    service = make(lambda spec, tried, stop: asked.append((spec, tried)))
    for _ in range(2):
        assert service.compile(SPEC, backend="trie").unwrap().spec is SPEC
    assert asked == [(SPEC, TRIED)]
    assert service.stats().cache_hits == 1, "what was compiled here is kept"


def test_a_grammar_from_elsewhere_lives_as_long_as_who_uses_it(make: MakeService, sandbox: Through) -> None:
    seen: list[weakref.ref[Grammar]] = []

    def isolate(spec: GrammarSpec, tried: Tried, stop: Stop) -> Result[Grammar, GrammarError]:
        seen.append(weakref.ref(grammar := compiled_elsewhere()))
        return Ok(grammar)

    service = make(isolate)
    first = service.compile(SPEC, backend="trie").unwrap()
    assert first is seen[0]()
    assert service.compile(SPEC, backend="trie").unwrap() is not first
    assert len(sandbox.due) == len(seen) == 2
    del first
    # The thread that compiled may still be telling observers.
    service.compile(Choice(("another",)), backend="trie").unwrap()
    gc.collect()
    assert seen[0]() is None
    assert service.stats().cache_bytes == 0


@pytest.mark.parametrize(
    ("error", "times"),
    [
        (GrammarError(kind=ErrorKind.TOO_COMPLEX, message="no"), 1),
        (GrammarError(kind=ErrorKind.OVERLOADED, message="later"), 2),
    ],
)
def test_an_error_from_elsewhere_is_kept_if_it_is_a_verdict(make: MakeService, error: GrammarError, times: int) -> None:
    asked: list[GrammarSpec] = []

    def isolate(spec: GrammarSpec, tried: Tried, stop: Stop) -> Result[Grammar, GrammarError]:
        asked.append(spec)
        return Err(error)

    service = make(isolate)
    for _ in range(2):
        assert service.compile(SPEC, backend="trie") == Err(error)
    assert len(asked) == times


def test_the_last_to_leave_stops_what_is_compiled_elsewhere(make: MakeService) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def isolate(spec: GrammarSpec, tried: Tried, stop: Stop) -> Result[Grammar, GrammarError]:
        begun.set()
        with stop.calling(stopped.set):
            assert stopped.wait(WAIT_S)
        return Err(GrammarError(kind=ErrorKind.CANCELLED, message="stopped"))

    service = make(isolate)
    waiting = service.submit(SPEC, backend="trie")
    assert begun.wait(WAIT_S)
    waiting.cancel()
    assert stopped.wait(WAIT_S)


def test_a_bug_in_what_isolates_costs_one_request_one_error(make: MakeService) -> None:
    def isolate(spec: GrammarSpec, tried: Tried, stop: Stop) -> Result[Grammar, GrammarError]:
        raise MemoryError

    result = make(isolate).compile(SPEC, backend="trie")
    assert isinstance(result, Err)
    assert (result.error.kind, result.error.fault) == (ErrorKind.ENGINE_FAILURE, Fault.SERVICE)


def test_the_sandbox_has_to_answer_before_the_waiter_leaves(make: MakeService, sandbox: Through) -> None:
    began = time.monotonic()
    make(None).compile(SPEC, backend="trie").unwrap()
    assert began < sandbox.due[0] < time.monotonic() + SANDBOX_SHARE * WAIT_S
