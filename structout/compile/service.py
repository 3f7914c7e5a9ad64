"""The compile service: many requests submit specs, each spec is compiled once, nobody waits beyond a deadline.

One spec's way: `CompileService.submit` → the cache, or a job that others with the same spec join → a thread of the
quick lane: `structout.compile.risk` → plain: is the schema valid, which backend, compile → every waiter's
`PendingGrammar`. What is risky goes on to the slow lane: `structout.compile.sandbox` tries it in a process that can be
killed, and only what comes through is compiled here.
"""

import enum
import logging
import math
import numbers
import threading
import time
from typing import Final, TypeAlias

import attrs

from structout.compile.backends import BoundBackends
from structout.compile.cache import ResultCache
from structout.compile.deadlines import Deadline, Deadlines
from structout.compile.lanes import FairQueue
from structout.compile.pending import Pending
from structout.compile.risk import BOUNDS, Risk, RiskClass, bounds_for, risk_of
from structout.compile.sandbox import Sandbox
from structout.compile.trying import try_candidates
from structout.discovery import RegisteredBackend, Registry
from structout.errors import ErrorKind, GrammarError, describe_exception
from structout.grammar import BoundBackend, Grammar
from structout.hookspecs import CompileEvent
from structout.processes import Stop
from structout.result import Err, Ok, Result
from structout.spec import SPEC_TYPES, Choice, Ebnf, GrammarSpec, JsonSchema, Lark, Regex, StructuralTag
from structout.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

PendingGrammar: TypeAlias = Pending[Grammar]
_Key: TypeAlias = tuple[str, str | None]


class Lane(enum.Enum):
    """QUICK: measured, and compiled here at once if it is plain. SLOW: tried in the sandbox first."""

    QUICK = "quick"
    SLOW = "slow"


@attrs.define(eq=False)
class _Job:
    """One compile and those who wait for it.

    Attributes:
        lane: where it waits, or runs.
        stop: ends it while it is in the sandbox.
        due: when the last of its waiters stops waiting, by `time.monotonic`.
    """

    key: _Key
    spec: GrammarSpec
    tenant: str
    submitted_at: float
    lane: Lane
    stop: Stop = attrs.field(factory=Stop)
    due: float = 0.0
    waiters: dict[PendingGrammar, None] = attrs.field(factory=dict)


class _IsRisky(Exception):
    """Raised inside this module where a spec turns out to be risky for the backend that is to compile it."""


class CompileService:
    """Compiles specs for one vocabulary on a few threads. Safe to use from any thread.

    Equal specs are compiled once however many ask (single flight) and kept in a bounded cache. Every waiter has a
    deadline and may cancel; when the last one is gone, a compile that has not begun never does, and one in the sandbox
    is stopped. One that runs native code in this process cannot be stopped: it keeps its thread until it ends, and what
    comes of it is kept. With a sandbox that happens to plain specs only, and to those that came through it.

    Args:
        registry: what is installed.
        vocabulary: what to compile for.
        sandbox: tries risky specs; belongs to the caller. Without one, every spec is compiled here at once.
        threads: how many specs compile at the same time, those in the sandbox aside.
        max_queue: how many jobs may be unfinished; more are refused with OVERLOADED. Of those that wait, a tenant may
            have a quarter.
        cache_entries: how many grammars are kept, the most recently used ones, and how many refusals beside them.
        deadline_s: seconds from submission to result, where the request does not say; finite and above 0, else
            ValueError.
    """

    def __init__(
        self,
        registry: Registry,
        vocabulary: Vocabulary,
        *,
        sandbox: Sandbox | None = None,
        threads: int = 2,
        max_queue: int = 1024,
        cache_entries: int = 256,
        deadline_s: float = 10.0,
    ) -> None:
        if not _is_duration(deadline_s):
            raise ValueError(f"deadline_s is not a finite number of seconds above 0: {deadline_s!r}")
        self.registry = registry
        self._vocabulary = vocabulary
        self._sandbox = sandbox
        self._max_queue = max_queue
        self._deadline_s = deadline_s
        # Guards the jobs, the queues and the cache; who waits for it waits for a job or for the end.
        self._changed = threading.Condition()
        self._jobs: dict[_Key, _Job] = {}
        self._queues = {lane: FairQueue[_Key](max_queue) for lane in Lane}
        self._cache = ResultCache[_Key, Grammar](cache_entries)
        self._closed = False
        self._backends = BoundBackends(vocabulary)
        self._deadlines = Deadlines()
        self._start_threads(Lane.QUICK, threads)
        self._start_threads(Lane.SLOW, sandbox.workers if sandbox else 0)

    def _start_threads(self, lane: Lane, count: int) -> None:
        for number in range(count):
            # Daemons: native code that never returns must not keep the process from exiting.
            name = f"structout-compile-{lane.value}-{number}"
            threading.Thread(target=self._work, args=(lane,), name=name, daemon=True).start()

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def submit(
        self,
        spec: GrammarSpec,
        *,
        backend: str | None = None,
        deadline_s: float | None = None,
        tenant: str = "",
    ) -> PendingGrammar:
        """Asks for a grammar and returns at once. Never raises; every failure is the pending result.

        Args:
            spec: what to compile.
            backend: the backend that has to do it; None for the first that takes it.
            deadline_s: seconds until the result is ``Err(TIMED_OUT)`` for this waiter; finite and above 0.
            tenant: for whom: tenants are served by turns, and none can fill a queue. "" has no such limit.
        """
        pending = PendingGrammar()
        seconds = self._deadline_s if deadline_s is None else deadline_s
        if wrong := _wrong_argument(spec, backend, seconds, tenant):
            pending.settle(Err(wrong))
            return pending
        key, due = (spec.key, backend), time.monotonic() + float(seconds)
        if (known := self._join(key, spec, tenant, due, pending)) is not None:
            pending.settle(known)
            return pending
        deadline = self._deadlines.call_at(due, lambda: pending.settle(Err(_timed_out(seconds))))
        pending.add_done_callback(lambda: self._leave(key, pending, deadline))
        return pending

    def compile(self, spec: GrammarSpec, *, backend: str | None = None) -> Result[Grammar, GrammarError]:
        """`submit`, and blocks until there is a result."""
        result = self.submit(spec, backend=backend).wait()
        assert result is not None, "wait without a time-out returns a result"
        return result

    def backend(self, backend: str) -> Result[BoundBackend, GrammarError]:
        """The backend of that id, started now if it is not yet: for warming up and for direct use."""
        return self.registry.find(backend).and_then(self._backends.bind)

    def close(self) -> None:
        """Fails whoever still waits, stops what is in the sandbox, and ends the threads once the native code in them
        has returned."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            waiters = [waiter for job in self._jobs.values() for waiter in job.waiters]
        for waiter in waiters:
            waiter.settle(Err(_SHUT_DOWN))
        self._deadlines.close()

    def _join(
        self, key: _Key, spec: GrammarSpec, tenant: str, due: float, pending: PendingGrammar
    ) -> Result[Grammar, GrammarError] | None:
        """What is known of ``key`` already, or None: ``pending`` waits for its job now, a new one if there is none."""
        with self._changed:
            if (known := self._cache.get(key)) is not None:
                return known
            if self._closed:
                return Err(_SHUT_DOWN)
            job = self._jobs.get(key)
            if job is None:
                if len(self._jobs) >= self._max_queue:
                    return Err(_overloaded(self._max_queue))
                lane = Lane.SLOW if self._sandbox is not None and _is_long(spec) else Lane.QUICK
                job = _Job(key, spec, tenant, time.monotonic(), lane)
                if not self._enqueue(job):
                    return Err(_overloaded(self._max_queue))
                self._jobs[key] = job
            job.waiters[pending] = None
            job.due = max(job.due, due)
            return None

    def _enqueue(self, job: _Job) -> bool:
        """Puts a job into its lane's queue; False, and nothing is done, if there is no room. Needs the lock."""
        queue = self._queues[job.lane]
        if not queue.has_room(job.tenant):
            return False
        queue.put(job.tenant, job.key)
        self._changed.notify_all()
        return True

    def _leave(self, key: _Key, pending: PendingGrammar, deadline: Deadline) -> None:
        """Takes a waiter that has its result off its job. When it was the last, the job leaves the queue or is
        stopped, and whoever asks next begins a new one."""
        self._deadlines.cancel(deadline)
        with self._changed:
            job = self._jobs.get(key)
            if job is None or pending not in job.waiters:
                return
            del job.waiters[pending]
            if job.waiters or not (self._queues[job.lane].remove(job.tenant, key) or job.lane is Lane.SLOW):
                return
            del self._jobs[key]
        job.stop.set()

    def _work(self, lane: Lane) -> None:
        while (job := self._next_job(lane)) is not None:
            try:
                self._run(job)
            except BaseException:
                # This thread is one of few; nothing that a plugin does may end it.
                logger.exception("ending a compile failed")
            del job  # or an idle thread would keep the last spec alive

    def _next_job(self, lane: Lane) -> _Job | None:
        """Waits for a job that has not begun; None once the service is closed and there is none."""
        with self._changed:
            while (key := self._queues[lane].pop()) is None:
                if self._closed:
                    return None
                self._changed.wait()
            return self._jobs[key]

    def _run(self, job: _Job) -> None:
        tried, result = self._contained(job)
        if result is None:
            if self._postpone(job):
                return
            result = Err(_overloaded(self._max_queue))
        with self._changed:
            if self._jobs.get(job.key) is job:
                del self._jobs[job.key]
            waiters, job.waiters = job.waiters, {}
        for waiter in waiters:
            waiter.settle(result)
        error = result.error if isinstance(result, Err) else None
        seconds = time.monotonic() - job.submitted_at
        self.registry.compile_finished(CompileEvent(spec=job.spec, backend=tried, seconds=seconds, error=error))

    def _postpone(self, job: _Job) -> bool:
        """Moves a job to the slow lane, or forgets it if nobody waits any more; False if there is no room."""
        with self._changed:
            job.lane = Lane.SLOW
            if not job.waiters:
                del self._jobs[job.key]
                return True
            return self._enqueue(job)

    def _contained(self, job: _Job) -> tuple[str | None, Result[Grammar, GrammarError] | None]:
        """The backend that was tried last, and what came of it, which is kept; None if the job has to go to the
        sandbox. Never raises."""
        backend = job.key[1]
        try:
            tried, result = self._compile_here(job) if job.lane is Lane.QUICK else self._compile_tried(job)
            with self._changed:
                self._cache.put(job.key, result)
            return tried, result
        except _IsRisky:
            return backend, None
        except BaseException as exc:
            logger.exception("compiling failed in the service itself")
            return backend, Err(_own_failure(exc))

    def _compile_here(self, job: _Job) -> tuple[str | None, Result[Grammar, GrammarError]]:
        """Compiles a plain spec. Raises `_IsRisky` for one that is not, before anything else looks at it."""
        spec, backend = job.spec, job.key[1]
        if error := self._admit(spec, backend):
            return backend, Err(error)
        return try_candidates(spec, self.registry, backend, lambda candidate: self._attempt(candidate, spec))

    def _attempt(self, candidate: RegisteredBackend, spec: GrammarSpec) -> Result[Grammar, GrammarError]:
        if error := self._admit(spec, candidate.info.id):
            return Err(error)
        return self._backends.bind(candidate).and_then(lambda bound: bound.compile(spec))

    def _admit(self, spec: GrammarSpec, backend: str | None) -> GrammarError | None:
        """Why a spec is refused by its measures; None if it may be compiled here. Raises `_IsRisky` for the rest."""
        if self._sandbox is None:
            return None
        risk = self._risk(spec, backend)
        if risk.risk_class is RiskClass.RISKY:
            raise _IsRisky
        return risk.error() if risk.risk_class is RiskClass.OVER else None

    def _risk(self, spec: GrammarSpec, backend: str | None) -> Risk:
        return risk_of(spec, bounds_for(backend) if backend in self.registry.backends else BOUNDS)

    def _compile_tried(self, job: _Job) -> tuple[str | None, Result[Grammar, GrammarError]]:
        """Compiles a risky spec once it came through the sandbox."""
        assert self._sandbox is not None, "nothing else has slow threads"
        backend = job.key[1]
        risk = self._risk(job.spec, backend)
        if risk.risk_class is RiskClass.OVER:
            return backend, Err(risk.error())
        wall_s = max(0.001, job.due - time.monotonic())
        match self._sandbox.run(job.spec, backend=backend, stop=job.stop, wall_s=wall_s):
            case Err(error):
                return error.backend, Err(error)
            case Ok(tried):
                return tried.backend, self.backend(tried.backend).and_then(lambda bound: bound.compile(job.spec))


_SHUT_DOWN: Final = GrammarError(kind=ErrorKind.CANCELLED, message="the service was shut down")


_LONG: Final = 16384
"""Characters of a text from which on measuring it takes too long for the quick lane."""


def _is_long(spec: GrammarSpec) -> bool:
    match spec:
        case Regex(pattern=text) | JsonSchema(text=text) | StructuralTag(text=text) | Ebnf(text=text) | Lark(text=text):
            return len(text) > _LONG
        case Choice(options=options):
            return len(options) > _LONG or sum(map(len, options)) > _LONG
    return False


def _wrong_argument(spec: object, backend: object, deadline_s: object, tenant: object) -> GrammarError | None:
    """What is wrong with the arguments of a caller that was not type-checked."""
    if not isinstance(spec, SPEC_TYPES):
        return _invalid("spec", f"the spec is not a grammar spec but a {type(spec).__name__}")
    if backend is not None and not isinstance(backend, str):
        return _invalid("backend", f"the backend is not named by a text but by a {type(backend).__name__}")
    if not isinstance(tenant, str):
        return _invalid("tenant", f"the tenant is not named by a text but by a {type(tenant).__name__}")
    if not _is_duration(deadline_s):
        return _invalid("deadline_s", "the deadline is not a finite number of seconds above 0")
    return None


def _invalid(argument: str, message: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword=argument)


def _is_duration(seconds: object) -> bool:
    try:
        return isinstance(seconds, numbers.Real) and 0 < float(seconds) < math.inf
    except OverflowError:
        return False


def _timed_out(seconds: float) -> GrammarError:
    message = f"the grammar was not compiled within {seconds:g} s"
    return GrammarError(kind=ErrorKind.TIMED_OUT, message=message, hint="send it again, or make it simpler")


def _overloaded(max_queue: int) -> GrammarError:
    message = f"{max_queue} grammars are waiting to be compiled already"
    return GrammarError(kind=ErrorKind.OVERLOADED, message=message, hint="send it again later")


def _own_failure(exc: BaseException) -> GrammarError:
    message = "the compile service failed; the operator's log says how"
    return GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=message, detail=describe_exception(exc))
