"""Which compiles are under way and who waits for them: single flight, and the cache of what came of it."""

import threading
import time
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from structout.compile.cache import ResultCache
from structout.compile.failures import SHUT_DOWN, overloaded
from structout.compile.lanes import FairQueue, Lane
from structout.compile.pending import Pending
from structout.compile.risk import Measures
from structout.compile.sizes import size_of
from structout.errors import GrammarError
from structout.grammar import Grammar
from structout.observability.sources import ServiceStats
from structout.processes import Stop
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec

PendingGrammar: TypeAlias = Pending[Grammar]


@attrs.frozen
class Key:
    """All that decides what a compile comes to.

    Attributes:
        spec: the spec's key.
        vocabulary: fingerprint of the vocabulary.
        backend: the backend that the request names; None if it names none.
        installed: that backend's distributions and versions; those of all backends if none is named.
    """

    spec: str
    vocabulary: str
    backend: str | None
    installed: str


@attrs.frozen(kw_only=True)
class Request:
    """What somebody asks for.

    Attributes:
        tenant: for whom; None for the operator, who is not counted.
        lane: where it begins.
        due: when whoever asks stops waiting, by `time.monotonic`.
    """

    key: Key
    spec: GrammarSpec
    tenant: str | None
    lane: Lane
    due: float


@attrs.define(eq=False)
class Job:
    """One compile and those who wait for it.

    Attributes:
        lane: where it waits, or runs.
        due: when the last of its waiters stops waiting, by `time.monotonic`.
        submitted_at: by `time.monotonic`.
        stop: ends it while it is in the sandbox.
        measures: of the spec, once it was measured.
    """

    key: Key
    spec: GrammarSpec
    tenant: str | None
    lane: Lane
    due: float
    submitted_at: float = attrs.field(factory=time.monotonic)
    stop: Stop = attrs.field(factory=Stop)
    measures: Measures | None = None
    waiters: dict[PendingGrammar, None] = attrs.field(factory=dict)


class Jobs:
    """Safe to use from any thread.

    Args:
        places: how many jobs of a lane may be unfinished.
        cache: keeps what they come to.
    """

    def __init__(self, places: int, cache: ResultCache[Key, Grammar]) -> None:
        # Guards everything here. Who waits for a condition waits for a job, in this process or in the sandbox, or for
        # the end: two of them, so that a plain spec wakes one thread and no more.
        self._lock = threading.Lock()
        self._plain, self._risky = threading.Condition(self._lock), threading.Condition(self._lock)
        self._jobs: dict[Key, Job] = {}
        self._queues = {lane: FairQueue[Key](places) for lane in Lane}
        self._cache = cache
        self._closed = False
        self._hits = self._misses = 0

    def stats(self) -> ServiceStats:
        """How many jobs wait, and what the cache holds and was good for."""
        with self._lock:
            return ServiceStats(
                waiting={lane.value: len(queue) for lane, queue in self._queues.items()},
                cache_hits=self._hits,
                cache_misses=self._misses,
                cache_bytes=self._cache.size_bytes,
            )

    def join(self, request: Request, pending: PendingGrammar) -> Result[Grammar, GrammarError] | None:
        """What is known already, or None: ``pending`` waits for the spec's job now, a new one if there is none."""
        with self._lock:
            if (known := self._cache.get(request.key)) is not None:
                self._hits += 1
                return known
            self._misses += 1
            if self._closed:
                return Err(SHUT_DOWN)
            job = self._jobs.get(request.key)
            if job is None:
                job = Job(request.key, request.spec, request.tenant, request.lane, request.due)
                if not self._enqueue(job):
                    return Err(overloaded())
                self._jobs[job.key] = job
            job.waiters[pending] = None
            job.due = max(job.due, request.due)
            return None

    def leave(self, key: Key, pending: PendingGrammar) -> None:
        """Takes a waiter that has its result off its job. When it was the last, the job leaves the queue or is
        stopped, and whoever asks next begins a new one; but one that runs in this process goes on."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or pending not in job.waiters:
                return
            del job.waiters[pending]
            if job.waiters:
                return
            if not self._queues[job.lane].remove(job.tenant, key) and job.lane is Lane.QUICK:
                return
            del self._jobs[key]
        job.stop.set()

    def take(self, lanes: Sequence[Lane]) -> Job | None:
        """A job that has not begun, from the first of these lanes that has one: QUICK alone, or some of the others.

        Waits for one; None once `close` was called and there is none.
        """
        with self._lock:
            while True:
                for lane in lanes:
                    if (key := self._queues[lane].pop()) is not None:
                        return self._jobs[key]
                if self._closed:
                    return None
                (self._plain if lanes == (Lane.QUICK,) else self._risky).wait()

    def move(self, job: Job, lane: Lane) -> bool:
        """Lets a job that was taken wait in another lane, or forgets it if nobody waits for it any more; False, and it
        is still at work, if there is no room."""
        with self._lock:
            if self._jobs.get(job.key) is job and job.waiters and not self._queues[lane].has_room(job.tenant):
                return False
            self._queues[job.lane].done(job.tenant)
            if self._jobs.get(job.key) is not job:
                return True
            job.lane = lane
            if job.waiters:
                self._enqueue(job)
            else:
                del self._jobs[job.key]
            return True

    def finish(
        self, job: Job, result: Result[Grammar, GrammarError], *, keeps_grammar: bool = True
    ) -> list[PendingGrammar]:
        """Ends a job that was taken, and keeps its result if it is a verdict, or a grammar that may be kept. Returns
        who has to be told."""
        # Plugins say how big their grammars are, and that is not to be waited for with the lock.
        size = size_of(result.value) if keeps_grammar and isinstance(result, Ok) else 0
        with self._lock:
            if size or isinstance(result, Err):
                self._cache.put(job.key, result, size)
            self._queues[job.lane].done(job.tenant)
            if self._jobs.get(job.key) is job:
                del self._jobs[job.key]
            waiters, job.waiters = list(job.waiters), {}
            return waiters

    def close(self) -> list[PendingGrammar]:
        """Begins nothing more. Returns who still waits."""
        with self._lock:
            self._closed = True
            self._plain.notify_all()
            self._risky.notify_all()
            return [waiter for job in self._jobs.values() for waiter in job.waiters]

    def _enqueue(self, job: Job) -> bool:
        """Puts a job into its lane's queue; False, and nothing is done, if there is no room. Needs the lock."""
        queue = self._queues[job.lane]
        if not queue.has_room(job.tenant):
            return False
        queue.put(job.tenant, job.key)
        if job.lane is Lane.QUICK:
            self._plain.notify()
        else:
            # One of these threads may not take what is heavy.
            self._risky.notify_all()
        return True
