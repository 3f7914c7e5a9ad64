"""What is done for one spec: measured, then compiled here, or tried in the sandbox and compiled here afterwards."""

import logging
import time
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

import attrs

from structout.compile.backends import BoundBackends
from structout.compile.failures import own_failure
from structout.compile.jobs import Job, Key
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
from structout.compile.sandbox.installed import versions
from structout.compile.sizes import spec_bytes
from structout.compile.store import GrammarStore, Stored
from structout.compile.trying import try_candidates
from structout.discovery import RegisteredBackend, Registry
from structout.errors import GrammarError
from structout.grammar import BoundBackend, Grammar
from structout.observability.tracing import NO_TRACER, Span, Tracer, set_outcome
from structout.processes import Stop
from structout.result import Err, Ok, Result
from structout.selection import rank, refusal
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
        to_store: the grammar as data, and its key, if it is worth keeping for the next start.
    """

    backend: str | None
    result: Result[Grammar, GrammarError]
    risk: RiskClass | None = None
    is_isolated: bool = False
    to_store: tuple[Key, Stored] | None = None


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
        self._installed = versions(registry)
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
        if self._store and (done := self._stored(job, self._store)):
            return done
        if job.lane is Lane.LONG and (error := self._measured_elsewhere(job)):
            return Done(backend, Err(error))
        try:
            return self._here(job, backend)
        except _BelongsTo as elsewhere:
            return elsewhere.lane

    def _stored(self, job: Job, store: GrammarStore) -> Done | None:
        """What an earlier start has stored, if it is of the backend that is to be asked first, and can still be had."""
        match rank(job.spec, self._registry, backend=job.key.backend):
            case Err():
                return None
            case Ok(ranking):
                first = next((each for each in ranking.candidates if not refusal(each, job.spec)), None)
        if first is None or (stored := store.get(key := self._stored_key(job, first))) is None:
            return None
        # Removed first: should loading it never end, it is not tried again at the next start.
        store.remove(key)
        loaded = self._loaded(job, stored.tried)
        return self._through(job, stored.tried, loaded, is_risky=stored.is_risky) if isinstance(loaded, Ok) else None

    def _stored_key(self, job: Job, backend: RegisteredBackend) -> Key:
        """Of a grammar by one backend, whether or not the request has named it."""
        installed = self._installed.get(backend.info.id, "")
        return attrs.evolve(job.key, backend=backend.info.id, installed=installed)

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
                is_risky = self._risk(job, tried.backend).risk_class is not RiskClass.PLAIN
                return self._through(job, tried, self._loaded(job, tried), is_risky=is_risky)
            case Err(error):
                return Done(error.backend or backend, Err(error), RiskClass.RISKY)

    def _through(self, job: Job, tried: Tried, loaded: Result[Grammar, GrammarError] | None, *, is_risky: bool) -> Done:
        """What becomes of a grammar that came through the sandbox: it is compiled elsewhere if that is wanted; else it
        is what was loaded, or compiled here. It is marked if its masks may take long."""
        if isinstance(loaded, Err):
            tried = attrs.evolve(tried, data=None)
        isolated = self._isolate(job.spec, tried, job.stop) if self._isolate else None
        if isolated is not None:
            return Done(tried.backend, isolated, RiskClass.RISKY, is_isolated=True)
        result: Result[Grammar, GrammarError] = (
            loaded
            if isinstance(loaded, Ok)
            else self.backend(tried.backend).and_then(lambda bound: bound.compile_admitted(job.spec))
        )
        return Done(
            tried.backend,
            result.map(lambda grammar: attrs.evolve(grammar, is_risky=is_risky)),
            RiskClass.RISKY,
            to_store=self._worth_storing(job, tried, is_risky=is_risky),
        )

    def _loaded(self, job: Job, tried: Tried) -> Result[Grammar, GrammarError] | None:
        """The grammar that a worker has handed over, or an earlier start has stored; None if there is none."""
        if (data := tried.data) is None:
            return None
        loaded = self.backend(tried.backend).and_then(lambda bound: bound.load(job.spec, data))
        if isinstance(loaded, Err):
            logger.warning("a grammar that was tried cannot be read: %s: %s", loaded.error, loaded.error.detail)
        return loaded

    def _worth_storing(self, job: Job, tried: Tried, *, is_risky: bool) -> tuple[Key, Stored] | None:
        """A grammar that can be read again, unless nobody can say of which version its backend is."""
        registered = self._registry.backends.get(tried.backend)
        if tried.data is None or registered is None or registered.distribution is None:
            return None
        return self._stored_key(job, registered), Stored(tried, is_risky)

    def backend(self, backend: str) -> Result[BoundBackend, GrammarError]:
        """The backend of that id, started now if it is not yet."""
        return self._registry.find(backend).and_then(self._backends.bind)


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
