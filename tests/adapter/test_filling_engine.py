"""The embedded engine with fills that do not return: who is held fails or goes on, and nobody else's output changes."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from engine_adapter.embedded.engine import Engine, Event, run
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Failed, Finished, Outcome
from engine_adapter.sampling import SamplingParams
from structout import BackendInfo, Choice, ErrorKind, Vocabulary
from structout.backend import Backend, Matcher
from structout.compile import CompileService
from structout.discovery import discover
from tests.adapter.held import BatchBackend, Gate, HeldMatcher
from tests.fakes import BYTES, TrieMatcher, TriePlugin, trie_info
from tests.scripted import ScriptedRunner


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.release()


MakeEngine = Callable[..., Engine]
HELD = "held"


@pytest.fixture
def make_engine(gate: Gate) -> Iterator[MakeEngine]:
    """Engines whose backend ``held`` fills behind the gate. ``batch`` fills in batches, only `HELD` behind the gate."""

    def held(*args: object) -> Matcher:
        return attrs.evolve(HeldMatcher(*args), gate=gate)  # type: ignore[arg-type]

    def held_or_not(options: frozenset[bytes], *args: object) -> Matcher:
        return (held if HELD.encode() in options else TrieMatcher)(options, *args)  # type: ignore[arg-type]

    def create(vocabulary: Vocabulary) -> Backend:
        return BatchBackend(vocabulary, held_or_not)

    batch = BackendInfo(id="batch", create=create, spec_kinds=frozenset({"choice"}))
    plugin = TriePlugin(trie_info("held", held), trie_info(), batch)
    service = CompileService(discover(plugins={"test": plugin}, entry_points=[], disable=[]), BYTES)
    made: list[Engine] = []

    def make(**options: Any) -> Engine:
        made.append(Engine(ScriptedRunner(), service, **options))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
    service.close()


@pytest.fixture
def engine(make_engine: MakeEngine) -> Engine:
    return make_engine()


def request(id: str, *, backend: str = "trie") -> Request:
    spec = None if id == "free" else Choice(("yes", "maybe", "abcd", *([HELD] if id == HELD else [])))
    sampling = SamplingParams(seed=1)
    return Request(id=id, prompt=(1, 2, 3), max_tokens=8, spec=spec, backend=backend, sampling=sampling)


def ends(events: list[Event]) -> dict[str, Outcome]:
    return {event.request_id: event.outcome for event in events if not isinstance(event.outcome, Delta)}


def test_a_fill_that_never_returns_fails_its_request_alone(engine: Engine, gate: Gate) -> None:
    expected = ends(list(run(engine, [request("trie"), request("free")])))
    gate.hold()
    events = list(run(engine, [request("hung", backend="held"), request("trie"), request("free")]))
    outcomes = ends(events)
    hung = outcomes.pop("hung")
    assert isinstance(hung, Failed)
    assert (hung.error.kind, hung.error.consequence.http_status) == (ErrorKind.TIMED_OUT, 400)
    assert outcomes == expected
    assert isinstance(expected["trie"], Finished)


def test_a_fill_that_returns_later_changes_no_output(engine: Engine, gate: Gate) -> None:
    expected = ends(list(run(engine, [request("a")])))["a"]
    engine.add(request("a", backend="held")).unwrap()
    gate.hold()
    events: list[Event] = []
    while not gate.met.is_set():
        engine.wait_for_work()
        events += engine.step().events
    assert not events
    gate.release()
    assert ends(list(run(engine, [])))["a"] == expected


def test_who_shares_a_batch_with_one_that_never_returns_misses_nothing(make_engine: MakeEngine, gate: Gate) -> None:
    engine = make_engine(max_misses=0)
    innocent = [request(str(number), backend="batch") for number in range(3)]
    expected = ends(list(run(engine, innocent)))
    gate.hold()
    outcomes = ends(list(run(engine, [innocent[0], request(HELD, backend="batch"), *innocent[1:]])))
    held = outcomes.pop(HELD)
    assert isinstance(held, Failed)
    assert held.error.kind is ErrorKind.TIMED_OUT
    assert outcomes == expected
    assert all(isinstance(outcome, Finished) for outcome in expected.values())


def test_a_fill_that_is_within_the_budget_is_waited_for(make_engine: MakeEngine, gate: Gate) -> None:
    expected = ends(list(run(make_engine(), [request("a")])))
    gate.hold()
    releasing = threading.Timer(0.2, gate.release)
    releasing.start()
    assert ends(list(run(make_engine(mask_budget_s=3600.0, max_misses=0), [request("a", backend="held")]))) == expected
    releasing.join()
