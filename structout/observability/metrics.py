"""Prometheus metrics. Needs the extra ``metrics``.

`Metrics` is a plugin, which hears of every compile; an `Observer`, which hears of every wait; and a collector, which
reads the rest when Prometheus asks::

    metrics = Metrics()
    registry = discover(plugins={"metrics": metrics})
    service = CompileService(registry, vocabulary, sandbox=sandbox, observer=metrics)
    metrics.watch(service=service, sandbox=sandbox, filler=filler, blocked=promoter, ends=running.ends)
"""

from collections.abc import Iterator, Sized
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from structout.errors import GrammarError
from structout.hookspecs import hookimpl
from structout.observability.sources import (
    CompileEnd,
    EndsSource,
    FillerSource,
    SandboxSource,
    ServiceSource,
    outcome_of,
)

BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the waits' histogram: from a cache hit to a deadline."""


class Metrics(Collector):
    """What is told and what is watched, of any number of services and engines together. Safe to use from any thread.

    Args:
        registry: where the metrics are registered.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._services: list[ServiceSource] = []
        self._sandboxes: list[SandboxSource] = []
        self._fillers: list[FillerSource] = []
        self._blocked: list[Sized] = []
        self._ends: list[EndsSource] = []
        self._compiles = Counter(
            "structout_compiles",
            "Compiles that have ended, by the backend tried last, what came of it, and the spec's risk class.",
            ("backend", "outcome", "risk"),
            registry=registry,
        )
        self._waits = Histogram(
            "structout_wait_seconds",
            "Time from a request's submission to its grammar or error.",
            ("outcome",),
            buckets=BUCKETS_S,
            registry=registry,
        )
        registry.register(self)

    def watch(
        self,
        *,
        service: ServiceSource | None = None,
        sandbox: SandboxSource | None = None,
        filler: FillerSource | None = None,
        blocked: Sized | None = None,
        ends: EndsSource | None = None,
    ) -> None:
        """Reads these too from now on; values of several of a kind are added up.

        Args:
            blocked: has as many members as requests are blocked: `engine_adapter.promotion.Promoter`.
        """
        self._services += [service] if service is not None else []
        self._sandboxes += [sandbox] if sandbox is not None else []
        self._fillers += [filler] if filler is not None else []
        self._blocked += [blocked] if blocked is not None else []
        self._ends += [ends] if ends is not None else []

    @hookimpl
    def structout_compile_finished(self, event: CompileEnd) -> None:
        self._compiles.labels(self._backend(event.backend), outcome_of(event.error), event.risk or "unknown").inc()

    def waited(self, seconds: float, error: GrammarError | None) -> None:
        """See `structout.observability.sources.Observer`."""
        self._waits.labels(outcome_of(error)).observe(seconds)

    def _backend(self, backend: str | None) -> str:
        """A label for it. What a request names need not exist, and would make a time series of its own each time."""
        if backend is None:
            return "none"
        return backend if any(backend in service.registry.backends for service in self._services) else "other"

    def collect(self) -> Iterator[Metric]:
        """What is watched, as it is now. Called by the registry."""
        all_stats = [service.stats() for service in self._services]
        depth = GaugeMetricFamily("structout_queue_depth", "Jobs that wait to be compiled, by lane.", labels=["lane"])
        for lane in dict.fromkeys(lane for stats in all_stats for lane in stats.waiting):
            depth.add_metric([lane], sum(stats.waiting.get(lane, 0) for stats in all_stats))
        yield depth
        hits = sum(stats.cache_hits for stats in all_stats)
        yield CounterMetricFamily("structout_cache_hits", "Requests that the cache answered.", hits)
        misses = sum(stats.cache_misses for stats in all_stats)
        yield CounterMetricFamily("structout_cache_misses", "Requests that the cache did not answer.", misses)
        size = sum(stats.cache_bytes for stats in all_stats)
        yield GaugeMetricFamily("structout_cache_bytes", "Bytes that the cache holds.", size)
        read = sum(stats.store_hits for stats in all_stats)
        yield CounterMetricFamily("structout_store_hits", "Grammars that were read from disk.", read)
        lost = sum(sandbox.lost for sandbox in self._sandboxes)
        yield CounterMetricFamily("structout_sandbox_restarts", "Workers of the sandbox that have ended.", lost)
        blocked = sum(len(each) for each in self._blocked)
        yield GaugeMetricFamily("structout_blocked_requests", "Requests that wait for what they need to run.", blocked)
        ended = CounterMetricFamily("structout_requests", "Requests that have ended, by outcome.", labels=["outcome"])
        counts = [each.outcomes() for each in self._ends]
        for outcome in dict.fromkeys(outcome for each in counts for outcome in each):
            ended.add_metric([outcome], sum(each.get(outcome, 0) for each in counts))
        yield ended
        late = sum(filler.misses for filler in self._fillers)
        yield CounterMetricFamily("structout_mask_misses", "Bitmask rows that missed their step's budget.", late)
