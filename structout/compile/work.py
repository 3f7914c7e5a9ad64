"""What is done for one spec: measured, then compiled here, or tried in the sandbox and compiled here afterwards."""

import logging
import time
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import attrs

from structout.compile.backends import BoundBackends
from structout.compile.failures import own_failure
from structout.compile.jobs import Job
from structout.compile.lanes import Lane
from structout.compile.risk import (
    BOUNDS,
    PLAIN,
    Measure,
    Risk,
    RiskClass,
    bounds_for,
    is_plain_by_its_look,
    judge,
    measures_of,
)
from structout.compile.sandbox import Sandbox, Tried
from structout.compile.sizes import spec_bytes
from structout.compile.store import GrammarStore, Stored
from structout.compile.trying import try_candidates
from structout.discovery import RegisteredBackend, Registry
from structout.errors import GrammarError
from structout.grammar import BoundBackend, Grammar
from structout.observability.tracing import NO_TRACER, Span, Tracer, set_outcome
from structout.processes import Stop
from structout.result import Err, Ok, Result
from structout.selection import rank
from structout.spec import Choice, GrammarSpec

logger = logging.getLogger(__name__)

T = TypeVar("T")

HEAVY_FACTOR: Final = 8
"""A spec is HEAVY if it is more than so many times over a bound of plain specs: where the cost grows with the square of
the measure, that is 3 s instead of 50 ms."""
LONG_BYTES: Final = 8192
"""Bytes of a spec from which on it is measured in another process: of shorter ones none takes more than about 25 ms."""
_MEASURED_BYTES: Final = max(
    BOUNDS[measure].hard for measure in (Measure.SCHEMA_BYTES, Measure.GRAMMAR_BYTES, Measure.REGEX_BYTES)
)
"""Bytes of a spec from which on it is refused without being read."""
SANDBOX_SHARE: Final = 0.95
"""Of the time that the last waiter has left, what the sandbox gets: its verdict is there before that waiter's own
deadline, which blames nobody."""

Isolate: TypeAlias = Callable[[GrammarSpec, Tried, Stop], Result[Grammar, GrammarError] | None]
"""Compiles a spec that came through the sandbox where its masks can hurt nobody, until the stop is set; None if it may
be compiled here. Safe to call from any thread."""


@attrs.frozen
class Done:
    """A job's end.

    Attributes:
        backend: id of the backend that was tried last, or that the request named; None if there is none.
        risk: the spec's class for that backend; None if it was not measured.
        is_isolated: whether the result came from elsewhere, and lives as long as who uses it: no cache keeps it.
        to_store: the grammar as data, if it is worth keeping for the next start.
    """

    backend: str | None
    result: Result[Grammar, GrammarError]
    risk: RiskClass | None = None
    is_isolated: bool = False
    to_store: Stored | None = None


class _BelongsTo(Exception):
    """Raised inside this module where a spec turns out to belong to a lane of the sandbox."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane


class Workshop:
    """Does jobs, on the thread that calls. Safe to use from any thread.

    Args:
        registry: what is installed.
        backends: the same, for the vocabulary.
        sandbox: where risky specs are tried; without one everything counts as plain.
        isolate: asked for each spec that came through the sandbox.
        store: asked for each spec first.
        tracer: makes a span of each job.
    """

    def __init__(
        self,
        registry: Registry,
        backends: BoundBackends,
        sandbox: Sandbox | None,
        isolate: Isolate | None = None,
        store: GrammarStore | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._registry = registry
        self._backends = backends
        self._sandbox = sandbox
        self._isolate = isolate
        self._store = store
        self._tracer = tracer

    def first_lane(self, spec: GrammarSpec) -> Lane:
        """Where a spec begins, before it is measured."""
        is_long = not isinstance(spec, Choice) and LONG_BYTES < spec_bytes(spec) <= _MEASURED_BYTES
        return Lane.LONG if self._sandbox and is_long else Lane.QUICK

    def do(self, job: Job) -> Done | Lane:
        """What came of a job, or the lane that it belongs to. Never raises."""
        backend = job.key.backend
        attributes = {"structout.kind": job.spec.kind, "structout.lane": job.lane.value}
        try:
            with self._tracer.start_as_current_span("structout.compile", attributes=attributes) as span:
                done = self._do(job, backend)
                _describe(span, done)
                return done
        except BaseException as exc:
            logger.exception("compiling failed in the service itself")
            return Done(backend, Err(own_failure(exc)))

    def _do(self, job: Job, backend: str | None) -> Done | Lane:
        if job.lane in (Lane.MODERATE, Lane.HEAVY):
            return self._tried(job, backend)
        if self._store and (grammar := self._stored(job, self._store)):
            return Done(grammar.backend.id, Ok(grammar), RiskClass.RISKY)
        if job.lane is Lane.LONG and (error := self._measured_elsewhere(job)):
            return Done(backend, Err(error))
        try:
            return self._here(job, backend)
        except _BelongsTo as elsewhere:
            return elsewhere.lane

    def _stored(self, job: Job, store: GrammarStore) -> Grammar | None:
        """The grammar that an earlier start has stored, if its backend may still take the spec and can read it."""
        if (stored := store.get(job.key)) is None:
            return None
        ranking = rank(job.spec, self._registry, backend=job.key.backend)
        if isinstance(ranking, Err) or stored.backend not in (each.info.id for each in ranking.value.candidates):
            return None
        match self.backend(stored.backend).and_then(lambda bound: bound.load(job.spec, stored.data)):
            case Ok(grammar):
                return attrs.evolve(grammar, is_risky=stored.is_risky)
            case Err(error):
                logger.warning("a stored grammar is compiled again: %s: %s", error, error.detail)
                store.remove(job.key)
                return None

    def _measured_elsewhere(self, job: Job) -> GrammarError | None:
        """Has a job's spec measured in the sandbox; why that failed if it did."""
        assert self._sandbox is not None, "without one nothing is measured"
        sandbox = self._sandbox
        match _asked(job, lambda due: sandbox.measure(job.spec, stop=job.stop, due=due)):
            case Err(error):
                return error
            case Ok(measures):
                job.measures = measures
                return None

    def _here(self, job: Job, backend: str | None) -> Done:
        """Compiles a plain spec. Raises `_BelongsTo` for one that is not, before anything else looks at it."""
        if error := self._objection(job, backend):
            return Done(backend, Err(error), RiskClass.OVER)
        tried, result = try_candidates(
            job.spec, self._registry, backend, lambda candidate: self._attempt(candidate, job, backend)
        )
        return Done(tried, result, RiskClass.PLAIN if self._sandbox else None)

    def _attempt(self, candidate: RegisteredBackend, job: Job, backend: str | None) -> Result[Grammar, GrammarError]:
        if candidate.info.id != backend and (error := self._objection(job, candidate.info.id)):
            return Err(error)
        return self._backends.bind(candidate).and_then(lambda bound: bound.compile_admitted(job.spec))

    def _objection(self, job: Job, backend: str | None) -> GrammarError | None:
        """Why a spec is refused by its measures; None if it may be compiled here. Raises `_BelongsTo` for the rest."""
        if self._sandbox is None:
            return None
        risk = self._risk(job, backend)
        if risk.risk_class is RiskClass.RISKY:
            raise _BelongsTo(lane_of(risk))
        return risk.error() if risk.risk_class is RiskClass.OVER else None

    def _risk(self, job: Job, backend: str | None) -> Risk:
        """A spec's class for a backend; it is measured once at most."""
        bounds = bounds_for(backend) if backend in self._registry.backends else BOUNDS
        if job.measures is None:
            if is_plain_by_its_look(job.spec, bounds):
                return PLAIN
            job.measures = measures_of(job.spec, bounds)
        return judge(job.measures, bounds)

    def _tried(self, job: Job, backend: str | None) -> Done:
        """Compiles a risky spec once it came through the sandbox."""
        assert self._sandbox is not None, "without one everything is plain"
        sandbox = self._sandbox
        match _asked(job, lambda due: sandbox.run(job.spec, backend=backend, stop=job.stop, due=due)):
            case Ok(tried):
                return self._through(job, tried)
            case Err(error):
                return Done(error.backend or backend, Err(error), RiskClass.RISKY)

    def _through(self, job: Job, tried: Tried) -> Done:
        """Compiles a spec that came through the sandbox: elsewhere if that is wanted, else here."""
        isolated = self._isolate(job.spec, tried, job.stop) if self._isolate else None
        if isolated is not None:
            return Done(tried.backend, isolated, RiskClass.RISKY, is_isolated=True)
        # Its masks may take long.
        is_risky = self._risk(job, tried.backend).risk_class is not RiskClass.PLAIN
        compiled = self.backend(tried.backend).and_then(lambda bound: _read_or_compiled(bound, job.spec, tried.data))
        result = compiled.map(lambda grammar: attrs.evolve(grammar, is_risky=is_risky))
        to_store = None
        if tried.data is not None and isinstance(result, Ok):
            to_store = Stored(tried.backend, is_risky, tried.data)
        return Done(tried.backend, result, RiskClass.RISKY, to_store=to_store)

    def backend(self, backend: str) -> Result[BoundBackend, GrammarError]:
        """The backend of that id, started now if it is not yet."""
        return self._registry.find(backend).and_then(self._backends.bind)


def _read_or_compiled(bound: BoundBackend, spec: GrammarSpec, data: bytes | None) -> Result[Grammar, GrammarError]:
    if data is not None:
        match bound.load(spec, data):
            case Ok() as loaded:
                return loaded
            case Err(error):
                logger.warning("a grammar that was tried is compiled again: %s: %s", error, error.detail)
    return bound.compile(spec)


def _asked(job: Job, ask: Callable[[float], Result[T, GrammarError]]) -> Result[T, GrammarError]:
    """What the sandbox answers by the time that it is told, which is before the last waiter of a job leaves. It is
    asked again if it ran out of that time, and who came meanwhile waits for longer."""
    while True:
        last, now = job.due, time.monotonic()
        due = now + SANDBOX_SHARE * (last - now)
        answer = ask(due)
        if isinstance(answer, Ok) or job.due <= last or time.monotonic() < due:
            return answer


def _describe(span: Span, done: Done | Lane) -> None:
    if isinstance(done, Lane):
        return span.set_attribute("structout.moved_to", done.value)
    if done.backend is not None:
        span.set_attribute("structout.backend", done.backend)
    if done.risk is not None:
        span.set_attribute("structout.risk", done.risk.value)
    return set_outcome(span, done.result.error if isinstance(done.result, Err) else None)


def lane_of(risk: Risk) -> Lane:
    """Where a spec that is not plain is tried."""
    return Lane.HEAVY if risk.value > HEAVY_FACTOR * max(1, risk.bound) else Lane.MODERATE
