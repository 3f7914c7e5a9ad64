"""The engine's step as a state machine, with exceptions thrown into it from inside.

Requests arrive, block on grammars that are settled by the test, fail, are aborted and preempted, while calls inside
the step raise: the construction of outputs, the detokenizer, the model, the scheduler's row moves. However that goes:
each request ends exactly once; one that finishes has the text that it has alone; nothing stays blocked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import attrs
import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine_adapter.embedded import engine as engine_module
from engine_adapter.embedded import forward as forward_module
from engine_adapter.embedded.cuts import Cuts
from engine_adapter.embedded.detokenize import Detokenizer
from engine_adapter.embedded.engine import Engine, StepReport, run
from engine_adapter.embedded.request import Request
from engine_adapter.embedded.scheduler import Scheduler
from engine_adapter.embedded.stops import StopScanner
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, Terminal
from engine_adapter.promotion import Promoter
from engine_adapter.sampling import SamplingBatch, SamplingParams
from engine_adapter.sampling.sampled import SampledRows
from structout import Choice, Err, ErrorKind, GrammarError, Ok, Result, Vocabulary
from structout.compile import Pending
from structout.constraint import Constraint
from structout.grammar import Grammar
from structout.spec import GrammarSpec
from tests.fakes import BYTES, MATCHER_TYPES, ForcingTrieMatcher, TrieMatcher, trie_grammar
from tests.scripted import LongestTokens, ScriptedRunner

OPTIONS = ("yes", "no", "maybe", "abcd", "éé")
STOPS = ((), ("s", "be", "é"), ("o", "éé", "\ufffd", "cd and more"))
REFUSED = GrammarError(kind=ErrorKind.UNSUPPORTED, message="refused")


class Injected(Exception):
    """Thrown into the step by the test."""


class Panic(BaseException):
    """Thrown likewise; as a panic in Rust, it is no `Exception`."""


class ManualService:
    """A compile service whose results the test settles."""

    vocabulary: Vocabulary = BYTES

    def __init__(self) -> None:
        self.pending: list[Pending[Grammar]] = []

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        self.pending.append(Pending())
        return self.pending[-1]


class ReadyService(ManualService):
    """Has every grammar at once."""

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        pending = super().submit(spec)
        pending.settle(Ok(grammar()))
        return pending


class ForcingService(ManualService):
    """Has every grammar at once, of a matcher that knows what is forced."""

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        pending = super().submit(spec)
        pending.settle(Ok(grammar(ForcingTrieMatcher)))
        return pending


def grammar(matcher: type[TrieMatcher] = TrieMatcher) -> Grammar:
    return trie_grammar(*OPTIONS, matcher=matcher)


@cache
def alone(request: Request, *, forces: bool = False) -> tuple[str, tuple[int, ...]]:
    """Text and tokens of a request that has the engine for itself."""
    canonical = LongestTokens() if forces else None
    lonely = Engine(ScriptedRunner(), ForcingService() if forces else ReadyService(), canonical=canonical)
    [finished] = [event.outcome for event in run(lonely, [request]) if isinstance(event.outcome, Finished)]
    lonely.close()
    return finished.text, finished.token_ids


TARGETS: tuple[tuple[object, str], ...] = (
    (engine_module, "Delta"),
    (engine_module, "Event"),
    (engine_module, "Finished"),
    (engine_module, "Usage"),
    (engine_module, "checked"),
    (SampledRows, "on_host"),
    (forward_module, "fill_rows"),
    (forward_module, "NewToken"),
    (Detokenizer, "push"),
    (Detokenizer, "finish"),
    (StopScanner, "push"),
    (Cuts, "before"),
    (Cuts, "allow"),
    (ScriptedRunner, "prefill"),
    (ScriptedRunner, "decode"),
    (ScriptedRunner, "swap"),
    (ScriptedRunner, "truncate"),
    (Scheduler, "plan"),
    (Scheduler, "add"),
    (Promoter, "decided"),
    (Promoter, "settle"),
    (Promoter, "withdraw"),
    (Promoter, "block"),
    (Scheduler, "drop"),
    (SamplingBatch, "join"),
    (SamplingBatch, "leave"),
    (Grammar, "start"),
    (Constraint, "accept"),
)


@contextmanager
def raising(owner: Any, name: str, call: int, exception: type[BaseException]) -> Iterator[None]:
    """Within the block, call number ``call`` (from 0) of ``owner.name`` raises; others go through."""
    original: Callable[..., Any] = getattr(owner, name)
    left = call

    def sometimes(*args: Any, **kwargs: Any) -> Any:
        nonlocal left
        left -= 1
        if left == -1:
            raise exception(name)
        return original(*args, **kwargs)

    setattr(owner, name, sometimes)
    try:
        yield
    finally:
        setattr(owner, name, original)


@attrs.define
class Seen:
    """What events have said of one request."""

    text: str = ""
    tokens: tuple[int, ...] = ()
    end: Terminal | None = None


class EngineMachine(RuleBasedStateMachine):
    forces: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.service = ManualService()
        self.runner = ScriptedRunner(max_rows=3, max_len=32)
        canonical = LongestTokens() if self.forces else None
        self.engine = Engine(self.runner, self.service, step_tokens=6, kv_tokens=40, canonical=canonical)
        self.requests: dict[str, Request] = {}
        self.seen: dict[str, Seen] = {}
        self.aborted: set[str] = set()
        self.disturbed = False

    @precondition(lambda self: len(self.requests) < 12)
    @rule(
        seed=st.integers(0, 5),
        length=st.integers(1, 12),
        structured=st.booleans(),
        max_tokens=st.integers(1, 12),
        stop=st.sampled_from(STOPS),
    )
    def arrives(self, seed: int, length: int, structured: bool, max_tokens: int, stop: tuple[str, ...]) -> None:
        request = Request(
            id=str(len(self.requests)),
            prompt=tuple(range(1, length + 1)),
            max_tokens=max_tokens,
            sampling=SamplingParams(seed=seed),
            spec=Choice(OPTIONS) if structured else None,
            stop=stop,
            include_stop=structured,
        )
        assert self.engine.add(request) == Ok(None)
        self.requests[request.id] = request
        self.seen[request.id] = Seen()

    @precondition(lambda self: self.service.pending)
    @rule(data=st.data(), matcher=st.sampled_from((None, *MATCHER_TYPES)))
    def compile_ends(self, data: st.DataObject, matcher: type[TrieMatcher] | None) -> None:
        pending = data.draw(st.sampled_from(self.service.pending))
        if self.forces and matcher is not None:
            matcher = ForcingTrieMatcher
        result: Result[Grammar, GrammarError] = Err(REFUSED) if matcher is None else Ok(grammar(matcher))
        pending.settle(result)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def client_aborts(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.requests)))
        self.aborted.add(request_id)
        self.engine.abort(request_id)

    @rule(steps=st.integers(1, 4))
    def steps(self, steps: int) -> None:
        for _ in range(steps):
            self._step()

    @rule(target_=st.sampled_from(TARGETS), call=st.integers(0, 3), exception=st.sampled_from((Injected, Panic)))
    def steps_with_an_exception(self, target_: tuple[object, str], call: int, exception: type[BaseException]) -> None:
        self.disturbed = True
        with raising(*target_, call, exception):
            report = self.engine.step()
        self._take(report)

    def _step(self) -> None:
        self._take(self.engine.step())

    def _take(self, report: StepReport) -> None:
        for event in report.events:
            seen = self.seen[event.request_id]
            assert seen.end is None, "an event after the end"
            if isinstance(event.outcome, Delta):
                seen.text += event.outcome.text
                seen.tokens += event.outcome.token_ids
            else:
                seen.end = event.outcome
                self._check_end(self.requests[event.request_id], seen, event.outcome)

    def _check_end(self, request: Request, seen: Seen, end: Terminal) -> None:
        match end:
            case Finished():
                assert (seen.text, seen.tokens) == (end.text, end.token_ids)
                if self._fits(request):
                    assert (end.text, end.token_ids) == alone(request, forces=self.forces)
            case Aborted():
                assert request.id in self.aborted
            case Failed(error):
                refused = request.spec is not None and error == REFUSED
                ended_at_once = request.spec is None and error.kind is ErrorKind.UNUSABLE_RESPONSE and not seen.text
                thrown = self.disturbed and error.kind in (ErrorKind.ENGINE_FAILURE, ErrorKind.BACKEND_FAILURE)
                assert refused or ended_at_once or thrown, error

    @staticmethod
    def _fits(request: Request) -> bool:
        return len(request.prompt) + request.max_tokens <= 32

    @invariant()
    def nobody_is_forgotten(self) -> None:
        assert self.engine.unfinished == sum(seen.end is None for seen in self.seen.values())

    def teardown(self) -> None:
        """Whatever has happened: once every grammar is there, everybody comes to an end."""
        for pending in self.service.pending:
            pending.settle(Ok(grammar(ForcingTrieMatcher if self.forces else TrieMatcher)))
        for _ in range(400):
            if not self.engine.unfinished:
                break
            assert self.engine.has_work, "requests are left and nothing will move them"
            self._step()
        assert self.engine.unfinished == 0
        self._step()  # takes aborts that came too late
        assert not self.engine.has_work
        assert [self.runner.length(row) for row in range(3)] == [0, 0, 0], "an ended request keeps a KV row"
        self.engine.close()


class ForcingEngineMachine(EngineMachine):
    """With tokens that are not sampled, because the grammar forces them."""

    forces = True


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = settings(max_examples=100, stateful_step_count=30)
TestForcingEngineMachine = ForcingEngineMachine.TestCase
TestForcingEngineMachine.settings = settings(max_examples=100, stateful_step_count=30)
