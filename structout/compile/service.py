"""The compile service: many requests submit specs, each spec is compiled once, nobody waits beyond a deadline.

One spec's way: `CompileService.submit` → the cache, or a job that others with the same spec join → a worker thread:
is the schema valid, `structout.selection`, the candidates one by one → every waiter's `PendingGrammar`.
"""

import logging
import math
import numbers
import threading
import time
from collections import OrderedDict
from typing import Final, TypeAlias

import attrs

from structout.compile.backends import BoundBackends
from structout.compile.cache import ResultCache
from structout.compile.deadlines import Deadline, Deadlines
from structout.compile.pending import Pending
from structout.discovery import RegisteredBackend, Registry
from structout.errors import ErrorKind, GrammarError, describe_exception
from structout.grammar import BoundBackend, Grammar
from structout.hookspecs import CompileEvent
from structout.result import Err, Ok, Result
from structout.schema import check_schema
from structout.selection import nobody_takes, select
from structout.spec import SPEC_TYPES, GrammarSpec, JsonSchema
from structout.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

PendingGrammar: TypeAlias = Pending[Grammar]
_Key: TypeAlias = tuple[str, str | None]


@attrs.define(eq=False)
class _Job:
    """One compile and those who wait for it."""

    key: _Key
    spec: GrammarSpec
    submitted_at: float
    waiters: dict[PendingGrammar, None] = attrs.field(factory=dict)


class CompileService:
    """Compiles specs for one vocabulary on a few threads. Safe to use from any thread.

    Equal specs are compiled once however many ask (single flight) and kept in a bounded cache. Every waiter has a
    deadline and may cancel; when the last one is gone, a compile that has not begun never does. One that runs native
    code in this process cannot be stopped: it keeps its thread until it ends, and what comes of it is kept.

    Args:
        registry: what is installed.
        vocabulary: what to compile for.
        threads: how many specs compile at the same time.
        max_queue: how many jobs may be unfinished; more are refused with OVERLOADED.
        cache_entries: how many grammars are kept, the most recently used ones, and how many refusals beside them.
        deadline_s: seconds from submission to result, where the request does not say; finite and above 0, else
            ValueError.
    """

    def __init__(
        self,
        registry: Registry,
        vocabulary: Vocabulary,
        *,
        threads: int = 2,
        max_queue: int = 1024,
        cache_entries: int = 256,
        deadline_s: float = 10.0,
    ) -> None:
        if not _is_duration(deadline_s):
            raise ValueError(f"deadline_s is not a finite number of seconds above 0: {deadline_s!r}")
        self.registry = registry
        self._vocabulary = vocabulary
        self._max_queue = max_queue
        self._deadline_s = deadline_s
        # Guards the jobs and the cache; who waits for it waits for a job or for the end.
        self._changed = threading.Condition()
        self._jobs: dict[_Key, _Job] = {}
        self._waiting: OrderedDict[_Key, _Job] = OrderedDict()
        self._cache = ResultCache[_Key, Grammar](cache_entries)
        self._closed = False
        self._backends = BoundBackends(vocabulary)
        self._deadlines = Deadlines()
        for number in range(threads):
            # Daemons: native code that never returns must not keep the process from exiting.
            threading.Thread(target=self._work, name=f"structout-compile-{number}", daemon=True).start()

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> PendingGrammar:
        """Asks for a grammar and returns at once. Never raises; every failure is the pending result.

        Args:
            spec: what to compile.
            backend: the backend that has to do it; None for the first that takes it.
            deadline_s: seconds until the result is ``Err(TIMED_OUT)`` for this waiter; finite and above 0.
        """
        pending = PendingGrammar()
        seconds = self._deadline_s if deadline_s is None else deadline_s
        if wrong := _wrong_argument(spec, backend, seconds):
            pending.settle(Err(wrong))
            return pending
        if (known := self._join((spec.key, backend), spec, pending)) is not None:
            pending.settle(known)
            return pending
        due = self._deadlines.call_at(
            time.monotonic() + float(seconds), lambda: pending.settle(Err(_timed_out(seconds)))
        )
        pending.add_done_callback(lambda: self._leave((spec.key, backend), pending, due))
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
        """Fails whoever still waits, and ends the threads once the native code in them has returned."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            waiters = [waiter for job in self._jobs.values() for waiter in job.waiters]
        for waiter in waiters:
            waiter.settle(Err(_SHUT_DOWN))
        self._deadlines.close()

    def _join(self, key: _Key, spec: GrammarSpec, pending: PendingGrammar) -> Result[Grammar, GrammarError] | None:
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
                job = self._jobs[key] = self._waiting[key] = _Job(key, spec, time.monotonic())
                self._changed.notify()
            job.waiters[pending] = None
            return None

    def _leave(self, key: _Key, pending: PendingGrammar, due: Deadline) -> None:
        """Takes a waiter that has its result off its job, and the job off the queue if it was the last."""
        self._deadlines.cancel(due)
        with self._changed:
            job = self._jobs.get(key)
            if job is None or pending not in job.waiters:
                return
            del job.waiters[pending]
            if not job.waiters and key in self._waiting:
                del self._jobs[key], self._waiting[key]

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            try:
                self._run(job)
            except BaseException:
                # This thread is one of few; nothing that a plugin does may end it.
                logger.exception("ending a compile failed")
            del job  # or an idle thread would keep the last spec alive

    def _next_job(self) -> _Job | None:
        """Waits for a job that has not begun; None once the service is closed and there is none."""
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            return self._waiting.popitem(last=False)[1]

    def _run(self, job: _Job) -> None:
        tried, result = self._contained(job)
        with self._changed:
            self._jobs.pop(job.key, None)
            waiters, job.waiters = job.waiters, {}
        for waiter in waiters:
            waiter.settle(result)
        error = result.error if isinstance(result, Err) else None
        seconds = time.monotonic() - job.submitted_at
        self.registry.compile_finished(CompileEvent(spec=job.spec, backend=tried, seconds=seconds, error=error))

    def _contained(self, job: _Job) -> tuple[str | None, Result[Grammar, GrammarError]]:
        """`_compile`, and keeps what comes of it. Never raises."""
        backend = job.key[1]
        try:
            tried, result = self._compile(job.spec, backend)
            with self._changed:
                self._cache.put(job.key, result)
            return tried, result
        except BaseException as exc:
            logger.exception("compiling failed in the service itself")
            return backend, Err(_own_failure(exc))

    def _compile(self, spec: GrammarSpec, backend: str | None) -> tuple[str | None, Result[Grammar, GrammarError]]:
        """The backend that was tried last, and what came of it."""
        if isinstance(spec, JsonSchema) and (invalid := check_schema(spec)):
            return None, Err(invalid)
        match select(spec, self.registry, backend=backend):
            case Err(error):
                return backend, Err(error)
            case Ok(selection):
                return self._try_each(spec, selection.candidates, list(selection.refusals))

    def _try_each(
        self, spec: GrammarSpec, candidates: tuple[RegisteredBackend, ...], refusals: list[GrammarError]
    ) -> tuple[str | None, Result[Grammar, GrammarError]]:
        tried = None
        for candidate in candidates:
            tried = candidate.info.id
            result = self._backends.bind(candidate).and_then(lambda bound: bound.compile(spec))
            if isinstance(result, Ok) or not result.error.consequence.try_next:
                return tried, result
            refusals.append(result.error)
        return tried, Err(nobody_takes(spec, refusals))


_SHUT_DOWN: Final = GrammarError(kind=ErrorKind.CANCELLED, message="the service was shut down")


def _wrong_argument(spec: object, backend: object, deadline_s: object) -> GrammarError | None:
    """What is wrong with the arguments of a caller that was not type-checked."""
    if not isinstance(spec, SPEC_TYPES):
        return _invalid("spec", f"the spec is not a grammar spec but a {type(spec).__name__}")
    if backend is not None and not isinstance(backend, str):
        return _invalid("backend", f"the backend is not named by a text but by a {type(backend).__name__}")
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
