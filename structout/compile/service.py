"""The compile service: many requests submit specs, each spec is compiled once, nobody waits beyond a deadline.

One spec's way: `CompileService.submit` → `jobs`: the cache, or a job that others with the same spec join, in one of the
`lanes` → a thread of the quick lane → `work`: `structout.compile.risk` → plain: is the schema valid, which backend,
compile → every waiter's `PendingGrammar`. What is long is measured in a process of the sandbox. What is risky goes on
to a slower lane: `structout.compile.sandbox` tries it in a process that can be killed, and only what comes through is
compiled here, or where `Isolate` has it compiled.
"""

import itertools
import json
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import attrs

from structout.compile.arguments import is_duration, wrong_argument
from structout.compile.backends import BoundBackends
from structout.compile.cache import ResultCache
from structout.compile.deadlines import Deadlines
from structout.compile.failures import SHUT_DOWN, overloaded, timed_out
from structout.compile.jobs import Job, Jobs, Key, PendingGrammar, Request
from structout.compile.lanes import Lane, sandbox_lanes
from structout.compile.memory import Releasing
from structout.compile.risk import RiskClass
from structout.compile.sandbox import Sandbox
from structout.compile.sandbox.installed import versions
from structout.compile.store import GrammarStore
from structout.compile.work import Done, Isolate, Workshop
from structout.discovery import Registry
from structout.errors import GrammarError
from structout.grammar import BoundBackend, Grammar
from structout.hookspecs import CompileEvent
from structout.observability.sources import NO_OBSERVER, Observer, ServiceStats
from structout.observability.tracing import NO_TRACER, Tracer
from structout.result import Err, Result
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

WARM_UP_S: Final = 600.0
"""What a list of specs to warm up may take."""


class CompileService:
    """Compiles specs for one vocabulary on a few threads. Safe to use from any thread.

    Equal specs are compiled once however many ask (single flight) and kept in a bounded cache. Every waiter has a
    deadline and may cancel; when the last one is gone, a compile that has not begun never does, and one in the sandbox
    is stopped. One that runs native code in this process cannot be stopped: it keeps its thread until it ends, and what
    comes of it is kept. With a sandbox that happens to plain specs only, and to those that came through it.

    Specs wait in lanes by their estimated cost (`structout.compile.lanes.Lane`), each with threads of its own: cheap
    ones never wait for expensive ones, and one worker of the sandbox, if it has two, is kept from the most expensive.

    Args:
        registry: what is installed.
        vocabulary: what to compile for.
        sandbox: tries risky specs; belongs to the caller. Without one, every spec is compiled here at once.
        isolate: compiles what came through the sandbox elsewhere, or leaves it to this process by returning None:
            `engine_adapter.filling.isolation.Isolation.compile`. Grammars from there are not cached.
        store: keeps grammars on disk, those that came through the sandbox and can be read again.
        threads: how many specs compile at the same time, those in the sandbox aside.
        max_queue: how many jobs of a lane may be unfinished, of which a tenant may have a quarter; more are refused
            with OVERLOADED.
        cache_entries: how many grammars are kept, the most recently used ones, and how many refusals beside them.
        cache_bytes: how many bytes these may take, by what grammars say of themselves or by an estimate
            (`structout.compile.sizes`).
        deadline_s: seconds from submission to result, where the request does not say; finite and above 0, else
            ValueError.
        observer: is told how long each request waited.
        tracer: makes a span ``structout.compile`` of each job, and another if it has to go on in another lane.
    """

    def __init__(
        self,
        registry: Registry,
        vocabulary: Vocabulary,
        *,
        sandbox: Sandbox | None = None,
        isolate: Isolate | None = None,
        store: GrammarStore | None = None,
        threads: int = 2,
        max_queue: int = 1024,
        cache_entries: int = 256,
        cache_bytes: int = 1 << 30,
        deadline_s: float = 10.0,
        observer: Observer = NO_OBSERVER,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        if not is_duration(deadline_s):
            raise ValueError(f"deadline_s is not a finite number of seconds above 0: {deadline_s!r}")
        self.registry = registry
        self._vocabulary = vocabulary
        self._deadline_s = deadline_s
        self._observer = observer
        self._installed = versions(registry)
        self._all_installed = json.dumps(self._installed, sort_keys=True)
        self._jobs = Jobs(max_queue, ResultCache(cache_entries, cache_bytes))
        self._store = store
        self._workshop = Workshop(registry, BoundBackends(vocabulary), sandbox, isolate, store, tracer)
        self._deadlines = Deadlines()
        self._releasing = Releasing(self._deadlines)
        for number in range(threads):
            self._start_thread(f"quick-{number}", itertools.repeat((Lane.QUICK,)))
        if sandbox:
            self._start_thread("long", itertools.repeat((Lane.LONG,)))
        for number, lanes in enumerate(sandbox_lanes(sandbox.workers if sandbox else 0)):
            self._start_thread(f"sandbox-{number}", lanes)

    def _start_thread(self, name: str, lanes: Iterator[Sequence[Lane]]) -> None:
        # A daemon: native code that never returns must not keep the process from exiting.
        name = f"structout-compile-{name}"
        threading.Thread(target=self._work, args=(lanes,), name=name, daemon=True).start()

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    def stats(self) -> ServiceStats:
        """What it tells of itself."""
        return attrs.evolve(self._jobs.stats(), store_hits=self._store.hits if self._store else 0)

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
            tenant: for whom: tenants are served by turns, and none can fill a lane. "" has no such limit.
        """
        seconds = self._deadline_s if deadline_s is None else deadline_s
        if wrong := wrong_argument(spec, backend, seconds, tenant):
            return self._settled(Err(wrong))
        return self._submit(spec, backend, float(seconds), tenant)

    def warm_up(
        self, specs: Iterable[GrammarSpec], *, backend: str | None = None, deadline_s: float = WARM_UP_S
    ) -> list[PendingGrammar]:
        """`submit` for each of the specs that an operator expects, however many; they take no place from any tenant.

        They are compiled in turn with what requests ask for meanwhile. A result that is an error harms nobody.
        """
        pendings = []
        for spec in specs:
            wrong = wrong_argument(spec, backend, deadline_s, "")
            pendings.append(
                self._settled(Err(wrong)) if wrong else self._submit(spec, backend, float(deadline_s), None)
            )
        return pendings

    def compile(self, spec: GrammarSpec, *, backend: str | None = None) -> Result[Grammar, GrammarError]:
        """`submit`, and blocks until there is a result."""
        result = self.submit(spec, backend=backend).wait()
        assert result is not None, "wait without a time-out returns a result"
        return result

    def backend(self, backend: str) -> Result[BoundBackend, GrammarError]:
        """The backend of that id, started now if it is not yet: for warming up and for direct use."""
        return self._workshop.backend(backend)

    def close(self) -> None:
        """Fails whoever still waits, stops what is in the sandbox, and ends the threads once the native code in them
        has returned."""
        for waiter in self._jobs.close():
            waiter.settle(Err(SHUT_DOWN))
        self._deadlines.close()

    def _submit(self, spec: GrammarSpec, backend: str | None, seconds: float, tenant: str | None) -> PendingGrammar:
        pending, submitted_at = PendingGrammar(), time.monotonic()
        request = Request(
            key=self._key(spec, backend),
            spec=spec,
            tenant=tenant,
            lane=self._workshop.first_lane(spec),
            due=submitted_at + seconds,
        )
        if (known := self._jobs.join(request, pending)) is not None:
            return self._settled(known)
        deadline = self._deadlines.call_at(request.due, lambda: pending.settle(Err(timed_out(seconds))))

        def leave() -> None:
            self._deadlines.cancel(deadline)
            self._jobs.leave(request.key, pending)
            self._observer.waited(time.monotonic() - submitted_at, _error(pending.result()))

        pending.add_done_callback(leave)
        return pending

    def _settled(self, result: Result[Grammar, GrammarError]) -> PendingGrammar:
        """For a request that need not wait."""
        pending = PendingGrammar()
        pending.settle(result)
        # By way of a callback, so that an observer that raises does no harm.
        pending.add_done_callback(lambda: self._observer.waited(0.0, _error(result)))
        return pending

    def _key(self, spec: GrammarSpec, backend: str | None) -> Key:
        installed = self._all_installed if backend is None else self._installed.get(backend, "")
        return Key(spec.key, self._vocabulary.fingerprint, backend, installed)

    def _work(self, lanes: Iterator[Sequence[Lane]]) -> None:
        while (job := self._jobs.take(next(lanes))) is not None:
            try:
                self._run(job)
            except BaseException:
                # This thread is one of few; nothing that a plugin does may end it.
                logger.exception("ending a compile failed")
            del job  # or an idle thread would keep the last spec alive

    def _run(self, job: Job) -> None:
        done = self._workshop.do(job)
        if isinstance(done, Lane):
            if self._jobs.move(job, done):
                return
            done = Done(job.key.backend, Err(overloaded()), RiskClass.RISKY)
        for waiter in self._jobs.finish(job, done.result, keeps_grammar=not done.is_isolated):
            waiter.settle(done.result)
        if self._store and done.to_store:
            self._store.put(*done.to_store)
        if job.lane is not Lane.QUICK:
            self._releasing.soon()
        event = CompileEvent(
            spec=job.spec,
            backend=done.backend,
            seconds=time.monotonic() - job.submitted_at,
            error=_error(done.result),
            risk=done.risk.value if done.risk else None,
        )
        self.registry.compile_finished(event)


def _error(result: Result[Grammar, GrammarError] | None) -> GrammarError | None:
    return result.error if isinstance(result, Err) else None
