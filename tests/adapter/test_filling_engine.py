"""The embedded engine with fills that do not return: who is held fails or goes on, and nobody else's output changes."""

from collections.abc import Iterator

import attrs
import pytest

from engine_adapter.embedded.engine import Engine, Event, run
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Failed, Finished, Outcome
from engine_adapter.sampling import SamplingParams
from structout import Choice, ErrorKind
from structout.backend import Matcher
from structout.compile import CompileService
from structout.discovery import discover
from tests.adapter.held import Gate, HeldMatcher
from tests.fakes import BYTES, ScriptedRunner, TriePlugin, trie_info


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.release()


@pytest.fixture
def engine(gate: Gate) -> Iterator[Engine]:
    def held(*args: object) -> Matcher:
        return attrs.evolve(HeldMatcher(*args), gate=gate)  # type: ignore[arg-type]

    plugin = TriePlugin(trie_info("held", held), trie_info())
    service = CompileService(discover(plugins={"test": plugin}, entry_points=[], disable=[]), BYTES)
    engine = Engine(ScriptedRunner(), service)
    yield engine
    engine.close()
    service.close()


def request(id: str, *, backend: str = "trie") -> Request:
    spec = None if id == "free" else Choice(("yes", "maybe", "abcd"))
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
