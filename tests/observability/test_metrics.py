"""What Prometheus reads is what happened; the dashboard and the manual name the metrics that there are."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from structout import Choice, ErrorKind, GrammarError
from structout.discovery import discover
from structout.hookspecs import CompileEvent
from structout.observability import ServiceStats
from structout.observability.metrics import Metrics
from structout.observability.sources import HasBackends
from tests.fakes import TriePlugin

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAME = re.compile(r"\bstructout_[a-z_]+")
REFUSED = GrammarError(kind=ErrorKind.INVALID_SPEC, message="no")


@attrs.frozen
class Backends:
    backends: Mapping[str, object]


@attrs.frozen
class Service:
    stats_now: ServiceStats
    registry: HasBackends = Backends({"trie": None, "xgrammar": None})

    def stats(self) -> ServiceStats:
        return self.stats_now


@attrs.frozen
class Sandbox:
    lost: int


@attrs.frozen
class Filler:
    misses: int


@attrs.frozen
class Ends:
    counts: Mapping[str, int]

    def outcomes(self) -> Mapping[str, int]:
        return self.counts


@attrs.frozen
class End:
    """A compile's end."""

    backend: str | None
    error: GrammarError | None
    risk: str | None


def service(quick: int, heavy: int, hits: int, misses: int, size: int) -> Service:
    waiting = {"quick": quick, "heavy": heavy}
    return Service(ServiceStats(waiting=waiting, cache_hits=hits, cache_misses=misses, cache_bytes=size, store_hits=2))


@pytest.fixture
def prometheus() -> CollectorRegistry:
    return CollectorRegistry()


def samples(prometheus: CollectorRegistry, name: str) -> dict[str, float]:
    """The samples of a name as a scrape reads them, by the values of their labels in order of the labels' names."""
    families = text_string_to_metric_families(generate_latest(prometheus).decode())
    found = [sample for family in families for sample in family.samples if sample.name == name]
    return {" ".join(value for _, value in sorted(sample.labels.items())): sample.value for sample in found}


def test_compiles_are_counted_by_backend_outcome_and_risk(prometheus: CollectorRegistry) -> None:
    metrics = Metrics(prometheus)
    metrics.watch(service=service(0, 0, 0, 0, 0))
    for end in (
        End("trie", None, "plain"),
        End("trie", None, "plain"),
        End("xgrammar", REFUSED, "risky"),
        End(None, REFUSED, None),
    ):
        metrics.structout_compile_finished(end)
    labels = ("trie ok plain", "xgrammar invalid_spec risky", "none invalid_spec unknown")
    assert samples(prometheus, "structout_compiles_total") == dict(zip(labels, (2, 1, 1), strict=True))


def test_it_is_a_plugin_that_hears_of_compiles(prometheus: CollectorRegistry) -> None:
    metrics = Metrics(prometheus)
    registry = discover(entry_points=[], plugins={"trie": TriePlugin(), "metrics": metrics})
    assert not registry.problems
    metrics.watch(service=attrs.evolve(service(0, 0, 0, 0, 0), registry=registry))
    event = CompileEvent(spec=Choice(("a",)), backend="trie", seconds=0.1, error=None, risk="plain")
    registry.compile_finished(event)
    assert samples(prometheus, "structout_compiles_total") == {"trie ok plain": 1}


def test_names_that_clients_invent_make_no_time_series(prometheus: CollectorRegistry) -> None:
    metrics = Metrics(prometheus)
    metrics.watch(service=service(0, 0, 0, 0, 0))
    for number in range(20):
        metrics.structout_compile_finished(End(f"invented-{number}", REFUSED, None))
    assert samples(prometheus, "structout_compiles_total") == {"other invalid_spec unknown": 20}


def test_waits_fall_into_buckets(prometheus: CollectorRegistry) -> None:
    metrics = Metrics(prometheus)
    for seconds in (0.0, 0.0004, 0.3, 60.0):
        metrics.waited(seconds, None)
    metrics.waited(10.0, GrammarError(kind=ErrorKind.TIMED_OUT, message="late"))
    assert samples(prometheus, "structout_wait_seconds_count") == {"ok": 4, "timed_out": 1}
    buckets = samples(prometheus, "structout_wait_seconds_bucket")
    assert (buckets["0.0005 ok"], buckets["0.25 ok"], buckets["0.5 ok"], buckets["+Inf ok"]) == (2, 2, 3, 4)
    assert (buckets["5.0 timed_out"], buckets["10.0 timed_out"]) == (0, 1)


def test_what_is_watched_is_added_up(prometheus: CollectorRegistry) -> None:
    metrics = Metrics(prometheus)
    blocked: list[int] = []
    metrics.watch(service=service(3, 1, 10, 5, 100), sandbox=Sandbox(2), filler=Filler(7), blocked=blocked)
    metrics.watch(service=service(4, 0, 1, 1, 11), sandbox=Sandbox(1), filler=Filler(1), blocked=range(2))
    blocked.append(0)
    metrics.watch(ends=Ends({"ok": 3, "dead_end": 1}))
    metrics.watch(ends=Ends({"ok": 1, "cancelled": 2}))
    assert samples(prometheus, "structout_queue_depth") == {"quick": 7, "heavy": 1}
    assert samples(prometheus, "structout_requests_total") == {"ok": 4, "dead_end": 1, "cancelled": 2}
    singles = {
        "structout_cache_hits_total": 11,
        "structout_cache_misses_total": 6,
        "structout_cache_bytes": 111,
        "structout_store_hits_total": 4,
        "structout_sandbox_restarts_total": 3,
        "structout_blocked_requests": 3,
        "structout_mask_misses_total": 8,
    }
    assert {name: samples(prometheus, name) for name in singles} == {name: {"": each} for name, each in singles.items()}


def exposed() -> set[str]:
    """The names that a scrape has."""
    prometheus = CollectorRegistry()
    metrics = Metrics(prometheus)
    metrics.watch(
        service=service(1, 1, 1, 1, 1), sandbox=Sandbox(1), filler=Filler(1), blocked=(), ends=Ends({"ok": 1})
    )
    metrics.structout_compile_finished(End("trie", None, "plain"))
    metrics.waited(0.0, None)
    families = text_string_to_metric_families(generate_latest(prometheus).decode())
    names = {sample.name for family in families for sample in family.samples}
    return {name for name in names if not name.endswith("_created")}


def test_the_dashboard_shows_the_metrics_that_there_are() -> None:
    dashboard = json.loads((DOCS / "dashboards" / "structout.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert {name for query in queries for name in NAME.findall(query)} == exposed()


def test_the_manual_lists_the_metrics_that_there_are() -> None:
    page = (DOCS / "observability.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(structout_[a-z_]+)`", page, re.MULTILINE))
    assert listed == {re.sub("_(bucket|sum|count)$", "", name) for name in exposed()}
