"""Risky grammars in processes that can be killed: the same rows, and what ends a process costs one sequence."""

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from engine_adapter.embedded.engine import Engine, run
from engine_adapter.embedded.request import Request
from engine_adapter.filling.host import Overdue
from engine_adapter.filling.risky import RiskyGrammars
from engine_adapter.filling.spares import Spares
from engine_adapter.outcome import Delta, Failed, Finished, Outcome
from engine_adapter.sampling import SamplingParams
from structout import Choice, ErrorKind, Fault, GrammarError, JsonSchema, Ok, Result, Status, Vocabulary
from structout.compile import Pending
from structout.compile.failures import CANCELLED, SHUT_DOWN
from structout.compile.sandbox import Limits
from structout.constraint import Constraint
from structout.discovery import discover
from structout.drafts import accepted_prefix, fill_drafts
from structout.grammar import Grammar
from structout.processes import Stop
from structout.spec import GrammarSpec
from tests.adapter import remote_plugin
from tests.fakes import BYTES, EOS, allowed, trie_grammar
from tests.scripted import ScriptedRunner

WIDTH = BYTES.bitmask_width
REGISTRY = discover(plugins={remote_plugin.NAME: remote_plugin.Plugin()})
MakeGrammars = Callable[..., RiskyGrammars]


@pytest.fixture(scope="module")
def make_grammars() -> Iterator[MakeGrammars]:
    made: list[RiskyGrammars] = []

    def make(backend: str = "doing", **options: Any) -> RiskyGrammars:
        # A row has half a minute, except where a test waits for the end of that time.
        options = {"fill_s": 30.0, "limits": Limits(wall_s=60.0), **options}
        made.append(RiskyGrammars(REGISTRY, BYTES, backend, plugins=[remote_plugin.NAME], **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture(scope="module")
def grammars(make_grammars: MakeGrammars) -> RiskyGrammars:
    return make_grammars()


@pytest.fixture(scope="module")
def impatient(make_grammars: MakeGrammars) -> RiskyGrammars:
    """Whose rows may take four seconds, and compiling as long."""
    return make_grammars(fill_s=4.0, limits=Limits(wall_s=4.0))


@pytest.fixture(scope="module")
def grammar(grammars: RiskyGrammars) -> Grammar:
    return grammars.compile(Choice(remote_plugin.OPTIONS)).unwrap()


def row_of(constraint: Constraint) -> tuple[Status, set[int]]:
    row = np.full(WIDTH, 77, np.int32)
    return constraint.fill(row), allowed(row, BYTES.padded_size)


def after(grammar: Grammar, text: str) -> Constraint:
    constraint = grammar.start(max_rollback=4).unwrap()
    for token in text.encode():
        assert constraint.accept(token) is Status.OK
    return constraint


def local(text: str) -> Constraint:
    return after(trie_grammar(*remote_plugin.OPTIONS), text)


moves = st.one_of(
    st.tuples(st.just("accept"), st.sampled_from([*b"xfinelow.", EOS, 287, 5000])),
    st.tuples(st.just("rollback"), st.integers(0, 4)),
    st.tuples(st.sampled_from(["fill", "fork", "is_accepting"]), st.none()),
    st.tuples(st.sampled_from(["drafts", "prefix"]), st.lists(st.sampled_from(list(b"xfinelow.")), max_size=3)),
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(moves, max_size=20))
def test_it_is_what_a_matcher_in_this_process_is(grammar: Grammar, moves: list[tuple[str, Any]]) -> None:
    pair = after(grammar, ""), local("")
    for move, what in moves:
        if move == "fork":
            pair = pair[0].fork().unwrap(), pair[1].fork().unwrap()
        else:
            assert _made(pair[0], move, what) == _made(pair[1], move, what)


def _made(constraint: Constraint, move: str, what: Any) -> object:
    match move:
        case "accept":
            return constraint.accept(what), constraint.is_terminated
        case "rollback":
            return constraint.rollback(what), constraint.tokens
        case "fill":
            return row_of(constraint)
        case "is_accepting":
            return constraint.is_accepting
        case "prefix":
            return accepted_prefix(constraint, what)
    rows = np.zeros((len(what) + 1, WIDTH), np.int32)
    return fill_drafts(constraint, what, rows), rows.tolist()


def test_a_real_backend_is_found_by_its_entry_point(make_grammars: MakeGrammars) -> None:
    schema = JsonSchema('{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}')
    remote = make_grammars("llguidance").compile(schema).unwrap()
    here = REGISTRY.find("llguidance").unwrap().info.create(BYTES).compile(schema).unwrap()
    assert remote.is_risky
    assert remote.backend.id == "llguidance"
    assert (remote.unenforced, remote.narrowed) == (tuple(here.unenforced), tuple(here.narrowed))
    matcher = here.start(stop_token_ids=[EOS], max_rollback=0)
    constraint = remote.start().unwrap()
    for token in (*b'{"a": 12}', EOS):
        row = np.zeros(WIDTH, np.int32)
        matcher.fill(row)
        assert row_of(constraint) == (Status.OK, allowed(row, BYTES.padded_size))
        assert constraint.accept(token) is matcher.accept(token) is Status.OK
    assert constraint.is_accepting


def test_what_crashes_the_process_is_one_failure(grammar: Grammar) -> None:
    fellow, guilty, unborn = after(grammar, "xfe"), after(grammar, "xsegfaul"), after(grammar, "")
    assert row_of(fellow)[0] is Status.OK
    assert guilty.accept(ord("t")) is Status.OK
    assert row_of(guilty) == (Status.FAILED, set(range(BYTES.padded_size)))
    assert guilty.error is not None
    assert guilty.error.kind is ErrorKind.BACKEND_FAILURE
    assert "SIGSEGV" in str(guilty.error.detail)
    assert fellow.accept(ord("l")) is Status.OK
    assert row_of(fellow) == row_of(local("xfel"))
    assert row_of(unborn) == row_of(local(""))
    assert after(grammar, "xfellow.").is_accepting


def test_what_hangs_is_timed_out_and_nobody_else(impatient: RiskyGrammars) -> None:
    grammar = impatient.compile(Choice(remote_plugin.OPTIONS)).unwrap()
    fellow, guilty = after(grammar, "xfe"), after(grammar, "xhan")
    assert guilty.accept(ord("g")) is Status.OK
    served: list[tuple[Status, set[int]]] = []
    waiting = threading.Thread(target=lambda: served.append(row_of(fellow)))
    waiting.start()
    assert row_of(guilty)[0] is Status.FAILED
    waiting.join()
    assert served == [row_of(local("xfe"))]
    assert guilty.error is not None
    assert (guilty.error.kind, guilty.error.fault) == (ErrorKind.TIMED_OUT, Fault.SERVICE), "it slept"
    assert after(grammar, "xfellow.").is_accepting


@pytest.mark.parametrize(("was_computing", "http_status"), [(True, 400), (False, 504)])
def test_a_row_that_takes_too_long_is_the_specs_fault_if_its_process_was_computing(
    grammar: Grammar, was_computing: bool, http_status: int
) -> None:
    error = grammar.backend.failure("a matcher", Overdue(0.3, was_computing=was_computing))
    assert (error.kind, error.consequence.http_status) == (ErrorKind.TIMED_OUT, http_status)


def test_a_process_that_somebody_kills_costs_nothing(grammars: RiskyGrammars, grammar: Grammar) -> None:
    constraints = [after(grammar, "xfi"), after(grammar, "xfel")]
    for text in ("xfin", "xfine"):
        for pid in grammars.pids():
            os.kill(pid, signal.SIGKILL)
        assert constraints[0].accept(ord(text[-1])) is Status.OK
        assert row_of(constraints[0]) == row_of(local(text))
        assert row_of(constraints[1]) == row_of(local("xfel"))


@pytest.mark.parametrize(("deed", "kind"), [("give up", ErrorKind.TOO_COMPLEX), ("raise", ErrorKind.BACKEND_FAILURE)])
def test_what_a_matcher_says_of_its_failure_is_told(grammars: RiskyGrammars, deed: str, kind: ErrorKind) -> None:
    constraint = after(grammars.compile(Choice((f"x{deed}.",))).unwrap(), f"x{deed[:-1]}")
    assert constraint.accept(ord(deed[-1])) is Status.OK
    assert row_of(constraint)[0] is Status.FAILED
    assert constraint.error is not None
    assert (constraint.error.kind, constraint.error.backend) == (kind, "doing")
    assert "secret" not in str(constraint.error.to_json())


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ("refuse", ErrorKind.UNSUPPORTED),
        ("raise", ErrorKind.BACKEND_FAILURE),
        ("segfault", ErrorKind.BACKEND_FAILURE),
        ("hang", ErrorKind.TIMED_OUT),
    ],
)
def test_a_grammar_that_does_not_come_to_be_leaves_no_process(
    impatient: RiskyGrammars, option: str, kind: ErrorKind
) -> None:
    gc.collect()
    before = impatient.pids()
    error = impatient.compile(Choice((option,))).error  # type: ignore[union-attr]
    assert (error.kind, error.backend) == (kind, "doing")
    assert "secret" not in str(error.to_json())
    assert impatient.pids() == before


def test_whoever_waits_for_a_grammar_may_stop_it(grammars: RiskyGrammars) -> None:
    stop = Stop()
    results: list[Result[Grammar, GrammarError]] = []
    waiting = threading.Thread(target=lambda: results.append(grammars.compile(Choice(("hang",)), stop=stop)))
    waiting.start()
    stop.set()
    waiting.join()
    assert results[0].error.kind is ErrorKind.CANCELLED  # type: ignore[union-attr]


def test_who_stops_while_no_process_is_ready_waits_for_none_and_leaves_it_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_start, start = threading.Event(), Spares._start
    started: list[int] = []

    def held(spares: Spares) -> Any:
        assert may_start.wait(60.0)
        started.append(1)
        return start(spares)

    monkeypatch.setattr(Spares, "_start", held)
    grammars = RiskyGrammars(REGISTRY, BYTES, "doing", plugins=[remote_plugin.NAME])
    stop = Stop()
    stop.set()
    for _ in range(5):
        assert grammars.compile(Choice(("a",)), stop=stop).error.message == CANCELLED.message  # type: ignore[union-attr]
    may_start.set()
    grammar = grammars.compile(Choice(("a",))).unwrap()
    assert len(grammars.pids()) == 1
    del grammar
    grammars.close()
    assert len(started) <= 3
    assert grammars.compile(Choice(("a",))).error.message == SHUT_DOWN.message  # type: ignore[union-attr]


def test_there_are_at_most_so_many_and_one_that_goes_makes_room(make_grammars: MakeGrammars) -> None:
    grammars = make_grammars(most=1)
    grammar = grammars.compile(Choice(("a",))).unwrap()
    [pid] = grammars.pids()
    refused = grammars.compile(Choice(("b",))).error  # type: ignore[union-attr]
    assert refused.kind is ErrorKind.OVERLOADED
    del grammar
    gc.collect()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert isinstance(grammars.compile(Choice(("b",))), Ok)


def test_a_process_that_does_not_find_the_backend_is_not_used() -> None:
    grammars = RiskyGrammars(REGISTRY, BYTES, "doing")
    error = grammars.compile(Choice(("a",))).error  # type: ignore[union-attr]
    assert error.kind is ErrorKind.UNAVAILABLE
    grammars.close()


class ReadyService:
    """Has every grammar at once: a risky one where a request names the backend, else one of this process."""

    vocabulary: Vocabulary = BYTES

    def __init__(self, risky: Grammar) -> None:
        self.risky = risky

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        pending = Pending[Grammar]()
        pending.settle(Ok(self.risky if backend else trie_grammar(*remote_plugin.OPTIONS)))
        return pending


def outcomes(risky: Grammar, *, backend: str | None) -> dict[str, Outcome]:
    """Of some requests in an engine with the patience to wait for fresh processes on a busy machine."""
    requests = [
        Request(
            id=str(seed),
            prompt=(1, 2),
            max_tokens=12,
            spec=Choice(remote_plugin.OPTIONS),
            backend=backend,
            sampling=SamplingParams(seed=seed),
        )
        for seed in range(5)
    ]
    engine = Engine(ScriptedRunner(), ReadyService(risky), max_misses=10_000)
    events = list(run(engine, requests))
    engine.close()
    return {event.request_id: event.outcome for event in events if not isinstance(event.outcome, Delta)}


KINDS = {"xhang.": ErrorKind.TIMED_OUT, "xsegfault.": ErrorKind.BACKEND_FAILURE}


def test_in_the_engine_only_those_fail_that_were_being_served(impatient: RiskyGrammars) -> None:
    grammar = impatient.compile(Choice(remote_plugin.OPTIONS)).unwrap()
    expected = outcomes(grammar, backend=None)
    texts = {id: outcome.text for id, outcome in expected.items() if isinstance(outcome, Finished)}
    assert set(texts.values()) == set(remote_plugin.OPTIONS), "the seeds meet every option"
    for id, outcome in outcomes(grammar, backend="doing").items():
        match outcome:
            case Failed(error):
                assert error.kind is KINDS[texts[id]]
            case _:
                assert outcome == expected[id]
                assert texts[id] not in KINDS
