"""Lanes: what is cheap never waits for what is not, and no tenant takes a lane from the others."""

import itertools
import time
from collections.abc import Iterator

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given

from structout import Choice, Err, ErrorKind, Regex, Result
from structout.compile import CompileService, PendingGrammar
from structout.compile.lanes import SHARE, FairQueue, Lane, sandbox_lanes
from structout.compile.risk import Measure, Measures, Risk, RiskClass
from structout.compile.sandbox import Tried
from structout.compile.work import HEAVY_FACTOR, lane_of
from structout.discovery import discover
from structout.errors import GrammarError
from structout.processes import Stop
from structout.spec import GrammarSpec
from tests.compile.sandboxes import HeldSandbox
from tests.fakes import BYTES, TriePlugin, trie_info

WAIT_S = 30.0
PLAIN = Choice(())
"""The only choice that is plain for a backend that was never measured: it has no options and no bytes."""


def moderate(name: str) -> Choice:
    return Choice((name,))


def heavy(name: str) -> Choice:
    return Choice((name, *(f"{name} {number}" for number in range(HEAVY_FACTOR + 1))))


@pytest.fixture
def sandbox() -> Iterator[HeldSandbox]:
    sandbox = HeldSandbox()
    yield sandbox
    sandbox.opened.set()


def made(sandbox: HeldSandbox, backend: str = "trie") -> CompileService:
    registry = discover(plugins={"test": TriePlugin(trie_info(backend))}, entry_points=[], disable=[])
    return CompileService(registry, BYTES, sandbox=sandbox, max_queue=8, deadline_s=WAIT_S)  # type: ignore[arg-type]


@pytest.fixture
def service(sandbox: HeldSandbox) -> Iterator[CompileService]:
    service = made(sandbox)
    yield service
    sandbox.opened.set()
    service.close()


def ask(service: CompileService, spec: GrammarSpec, tenant: str = "") -> PendingGrammar:
    return service.submit(spec, backend="trie", tenant=tenant)


def kind(pending: PendingGrammar) -> ErrorKind | None:
    result = pending.wait(WAIT_S)
    assert result is not None
    return result.error.kind if isinstance(result, Err) else None


def test_heavy_specs_never_have_all_workers(service: CompileService, sandbox: HeldSandbox) -> None:
    several = [ask(service, heavy(name)) for name in ("h1", "h2", "h3")]
    sandbox.wait_for(1)
    cheap = ask(service, moderate("m1"))
    sandbox.wait_for(1)
    assert sorted(sandbox.begun) == ["h1", "m1"]
    assert kind(ask(service, PLAIN)) in (None, ErrorKind.INVALID_SPEC), "and what is plain waits for neither"
    sandbox.opened.set()
    assert [kind(pending) for pending in (*several, cheap)] == [None] * 4


def test_what_came_through_is_marked(service: CompileService, sandbox: HeldSandbox) -> None:
    sandbox.opened.set()
    assert service.compile(moderate("m"), backend="trie").unwrap().is_risky


def test_a_tenant_fills_no_lane(service: CompileService, sandbox: HeldSandbox) -> None:
    greedy = [ask(service, moderate(f"g{number}"), "greedy") for number in range(8)]
    refused = [pending for pending in greedy if isinstance(pending.wait(1.0), Err)]
    assert len(refused) >= 8 - 8 // SHARE
    assert {kind(pending) for pending in refused} == {ErrorKind.OVERLOADED}
    modest = ask(service, moderate("modest"), "modest")
    sandbox.opened.set()
    assert kind(modest) is None


def test_heavy_specs_that_fill_their_lane_leave_the_others_room(service: CompileService, sandbox: HeldSandbox) -> None:
    many = [ask(service, heavy(f"h{number}")) for number in range(20)]
    sandbox.wait_for(1)
    assert sum(isinstance(pending.wait(0.2), Err) for pending in many) >= 20 - 8
    cheap = ask(service, moderate("m"))
    sandbox.wait_for(1)
    sandbox.opened.set()
    assert kind(cheap) is None


def test_a_warm_up_takes_no_place_from_tenants(service: CompileService, sandbox: HeldSandbox) -> None:
    listed = [moderate(f"w{number}") for number in range(30)]
    warming = service.warm_up(iter([*listed, "no spec"]), backend="trie")  # type: ignore[arg-type]
    assert kind(warming.pop()) is ErrorKind.INVALID_SPEC
    asked = [ask(service, moderate(f"t{number}"), "tenant") for number in range(2)]
    joined = ask(service, moderate("w29"), "tenant")
    sandbox.opened.set()
    assert {kind(pending) for pending in (*warming, *asked, joined)} == {None}


def test_the_last_to_leave_stops_a_job_in_the_sandbox(service: CompileService, sandbox: HeldSandbox) -> None:
    waiting = [ask(service, heavy("h")) for _ in range(3)]
    sandbox.wait_for(1)
    for pending in waiting[1:]:
        pending.cancel()
    assert not sandbox.stopped
    waiting[0].cancel()
    again = ask(service, moderate("next"))
    sandbox.wait_for(1)
    sandbox.opened.set()
    assert kind(again) is None


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_one_worker_of_several_is_reserved_and_no_lane_starves(workers: int) -> None:
    turns = [list(itertools.islice(each, 4)) for each in sandbox_lanes(workers)]
    assert len(turns) == workers
    reserved = [each for each in turns if all(lanes == (Lane.MODERATE,) for lanes in each)]
    assert len(reserved) == (1 if workers > 1 else 0)
    for each in turns:
        if each not in reserved:
            assert {lanes[0] for lanes in each} == {Lane.MODERATE, Lane.HEAVY}


@given(st.integers(0, 1000), st.integers(1, 100_000))
def test_what_is_farther_over_its_bound_is_in_no_cheaper_lane(bound: int, value: int) -> None:
    lane = lane_of(Risk(RiskClass.RISKY, Measure.ENUM, value, bound))
    assert (lane is Lane.HEAVY) == (value > HEAVY_FACTOR * max(1, bound))


MOVES = st.lists(st.tuples(st.sampled_from(["put", "pop", "done", "remove"]), st.sampled_from(["", "a", "b", "c"])))


@given(MOVES, st.integers(1, 9))
def test_a_queue_keeps_its_bounds_and_serves_each_tenant_in_order(moves: list[tuple[str, str]], places: int) -> None:
    queue, numbers = FairQueue[int](places), itertools.count()
    waiting: dict[str, list[int]] = {"": [], "a": [], "b": [], "c": []}
    working: list[str] = []
    owner: dict[int, str] = {}
    for move, tenant in moves:
        if move == "put" and queue.has_room(tenant):
            owner[number := next(numbers)] = tenant
            waiting[tenant].append(number)
            queue.put(tenant, number)
        elif move == "pop" and (key := queue.pop()) is not None:
            assert waiting[owner[key]].pop(0) == key
            working.append(owner[key])
        elif move == "done" and working:
            queue.done(working.pop())
        elif move == "remove" and waiting[tenant]:
            assert queue.remove(tenant, waiting[tenant].pop())
        taken = {name: len(keys) + working.count(name) for name, keys in waiting.items()}
        assert len(queue) == sum(map(len, waiting.values()))
        assert sum(taken.values()) <= places
        assert all(count <= max(1, places // SHARE) for name, count in taken.items() if name)


def test_what_is_short_and_over_a_bound_is_refused_without_a_worker(
    service: CompileService, sandbox: HeldSandbox
) -> None:
    assert kind(service.submit(Regex("(" * 1000 + ")" * 1000))) is ErrorKind.TOO_COMPLEX
    assert not sandbox.begun
    assert not sandbox.measured


def test_a_long_spec_is_measured_in_the_sandbox_unless_its_bytes_are_too_many_already(
    service: CompileService, sandbox: HeldSandbox
) -> None:
    long, longest = Regex("(" * 100_000 + ")" * 100_000), Regex("(" * 2_000_000)
    assert kind(service.submit(long)) is ErrorKind.TOO_COMPLEX
    assert kind(service.submit(longest)) is ErrorKind.TOO_COMPLEX
    assert sandbox.measured == [long]
    assert not sandbox.begun


@attrs.define(eq=False)
class ShortOfTime(HeldSandbox):
    """A sandbox whose first job, once let go, takes all the time that it may, and whose second one comes through."""

    due: list[float] = attrs.field(factory=list)

    def run(self, spec: GrammarSpec, *, backend: str | None, stop: Stop, due: float) -> Result[Tried, GrammarError]:
        self.due.append(due)
        is_first = len(self.due) == 1
        result = super().run(spec, backend=backend, stop=stop, due=due)
        if not is_first:
            return result
        time.sleep(max(0.0, due - time.monotonic()))
        return Err(GrammarError(kind=ErrorKind.TIMED_OUT, message="out of time"))

    def measure(self, spec: GrammarSpec, *, stop: Stop, due: float) -> Result[Measures, GrammarError]:
        tried = self.run(Choice(("measured",)), backend=None, stop=stop, due=due)
        return tried.and_then(lambda _: super(ShortOfTime, self).measure(spec, stop=stop, due=due))


@pytest.mark.parametrize(
    ("spec", "end"),
    [(moderate("m"), None), (Regex("(" * 100_000 + ")" * 100_000), ErrorKind.TOO_COMPLEX)],
    ids=["tried", "measured"],
)
def test_who_joins_late_and_waits_longer_has_its_own_time(spec: GrammarSpec, end: ErrorKind | None) -> None:
    sandbox = ShortOfTime()
    service = made(sandbox)
    first = service.submit(spec, backend="trie", deadline_s=2.0)
    sandbox.wait_for(1)
    second = service.submit(spec, backend="trie", deadline_s=WAIT_S)
    sandbox.opened.set()
    assert kind(second) is end
    assert kind(first) in (end, ErrorKind.TIMED_OUT)
    assert sandbox.due[1] > sandbox.due[0]
    service.close()
