"""What the compile service tells: how long each request waited, how each compile ended, and a span of each job."""

import threading
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from structout import Choice, Err, ErrorKind, Regex, hookimpl
from structout.compile import CompileService
from structout.compile.work import HEAVY_FACTOR
from structout.discovery import discover
from structout.errors import GrammarError
from structout.hookspecs import CompileEvent
from structout.spec import GrammarSpec
from tests.compile.sandboxes import Through
from tests.fakes import BYTES, TriePlugin, trie_info
from tests.observability.tracers import RecordingTracer

WAIT_S = 30.0
PLAIN = Choice(())
RISKY = Choice(("a",))
HEAVY = Choice(tuple(map(str, range(HEAVY_FACTOR + 1))))
OVER = Regex("a" * 300_000)


@attrs.define(eq=False)
class Heard:
    """Hears of waits and of compiles."""

    waits: list[tuple[float, ErrorKind | None]] = attrs.field(factory=list)
    risks: list[str | None] = attrs.field(factory=list)
    told: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))

    def waited(self, seconds: float, error: GrammarError | None) -> None:
        self.waits.append((seconds, error.kind if error else None))
        self.told.release()

    @hookimpl
    def structout_compile_finished(self, event: CompileEvent) -> None:
        self.risks.append(event.risk)
        self.told.release()

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.told.acquire(timeout=WAIT_S)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def tracer() -> RecordingTracer:
    return RecordingTracer()


@pytest.fixture
def options(heard: Heard, tracer: RecordingTracer) -> dict[str, Any]:
    registry = discover(plugins={"trie": TriePlugin(trie_info("trie")), "heard": heard}, entry_points=[], disable=[])
    return {"registry": registry, "vocabulary": BYTES, "observer": heard, "tracer": tracer}


@pytest.fixture
def service(options: dict[str, Any]) -> Iterator[CompileService]:
    service = CompileService(**options)
    yield service
    service.close()


@pytest.fixture
def guarded(options: dict[str, Any]) -> Iterator[CompileService]:
    service = CompileService(**options, sandbox=Through())  # type: ignore[arg-type]
    yield service
    service.close()


def test_every_request_is_told_of_once(service: CompileService, heard: Heard) -> None:
    service.compile(RISKY)
    heard.wait_for(2)
    service.compile(RISKY)
    service.compile(Choice(("refuse",)))
    heard.wait_for(3)
    service.submit("no spec")  # type: ignore[arg-type]
    service.warm_up([RISKY, "no spec"])  # type: ignore[list-item]
    first, again, *others = heard.waits
    assert (first[0] > 0, first[1]) == (True, None)
    assert again == (0.0, None), "from the cache"
    kinds = [kind for _, kind in others]
    assert kinds == [ErrorKind.UNSUPPORTED, ErrorKind.INVALID_SPEC, None, ErrorKind.INVALID_SPEC]


def test_who_waits_until_the_deadline_or_cancels_is_told_of(options: dict[str, Any], heard: Heard) -> None:
    service = CompileService(**options, threads=0)
    service.submit(RISKY, deadline_s=0.02)
    service.submit(RISKY).cancel()
    heard.wait_for(2)
    assert {kind for _, kind in heard.waits} == {ErrorKind.TIMED_OUT, ErrorKind.CANCELLED}
    assert next(seconds for seconds, kind in heard.waits if kind is ErrorKind.TIMED_OUT) >= 0.02
    service.close()


class Raises:
    def waited(self, seconds: float, error: GrammarError | None) -> None:
        raise SystemExit(1)

    def start_as_current_span(self, name: str, **_: object) -> Any:
        raise SystemExit(1)


def test_an_observer_that_raises_harms_nobody(options: dict[str, Any]) -> None:
    service = CompileService(**options | {"observer": Raises()})
    for _ in range(2):
        service.compile(RISKY).unwrap()
    assert isinstance(service.submit("no spec").wait(WAIT_S), Err)  # type: ignore[arg-type]
    service.close()


def test_a_tracer_that_raises_costs_an_error_and_no_thread(options: dict[str, Any]) -> None:
    service = CompileService(**options | {"tracer": Raises()}, threads=1)
    for _ in range(2):
        result = service.compile(RISKY)
        assert isinstance(result, Err)
        assert result.error.kind is ErrorKind.ENGINE_FAILURE
    service.close()


@pytest.mark.parametrize(
    ("spec", "risk"), [(PLAIN, "plain"), (RISKY, "risky"), (HEAVY, "risky"), (OVER, "over")], ids=lambda each: ""
)
def test_an_event_says_the_risk(guarded: CompileService, heard: Heard, spec: GrammarSpec, risk: str) -> None:
    guarded.compile(spec, backend="trie")
    heard.wait_for(2)
    assert heard.risks == [risk]


def test_what_is_not_measured_has_no_risk(service: CompileService, heard: Heard) -> None:
    service.compile(RISKY)
    heard.wait_for(2)
    assert heard.risks == [None]


def test_each_lane_that_a_job_was_in_has_a_span(guarded: CompileService, heard: Heard, tracer: RecordingTracer) -> None:
    guarded.compile(HEAVY, backend="trie").unwrap()
    heard.wait_for(2)
    assert all(span.is_ended and span.name == "structout.compile" for span in tracer.spans)
    said = [{name.removeprefix("structout."): each for name, each in span.attributes.items()} for span in tracer.spans]
    assert said == [
        {"kind": "choice", "lane": "quick", "moved_to": "heavy"},
        {"kind": "choice", "lane": "heavy", "backend": "trie", "risk": "risky", "outcome": "ok"},
    ]


def test_a_span_of_a_failure_says_its_kind_and_no_text(service: CompileService, tracer: RecordingTracer) -> None:
    service.compile(Choice(("refuse",)))
    [span] = tracer.spans
    assert span.attributes == {
        "structout.kind": "choice",
        "structout.lane": "quick",
        "structout.backend": "trie",
        "structout.outcome": "unsupported",
    }
