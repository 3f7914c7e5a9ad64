"""What an engine core tells of itself: structout's metrics, on a port of its own.

vLLM's ``/metrics`` is answered by an API server from what its own process counts, and what an engine core sends there
has fixed fields. Asking for more when Prometheus asks would have the event loop wait for the engine core.
"""

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from engine_adapter.vllm.settings import KEY, Settings
from structout.discovery import Registry, discover
from structout.errors import GrammarError
from structout.observability.sources import NO_OBSERVER, Observer, outcome_of


class Ends:
    """How requests with a constraint have ended. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outcomes = Counter[str]()

    def add(self, error: GrammarError | None) -> None:
        with self._lock:
            self._outcomes[outcome_of(error)] += 1

    def outcomes(self) -> Mapping[str, int]:
        """See `structout.observability.sources.EndsSource`."""
        with self._lock:
            return dict(self._outcomes)


class Watching:
    """An engine core's metrics, if there is to be a port for them; else they are not collected.

    Args:
        settings: the server's.
        place: which of the engine cores on this host it is, from 0.

    Raises:
        ValueError: it cannot listen, or ``prometheus_client`` is missing.
    """

    def __init__(self, settings: Settings, place: int = 0) -> None:
        self._metrics: Any = None
        self._close: Callable[[], None] = lambda: None
        self.observer: Observer = NO_OBSERVER
        if settings.metrics_port is not None:
            self._listen(settings.metrics_host, settings.metrics_port + place)

    def _listen(self, host: str, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, start_http_server

            from structout.observability.metrics import Metrics
        except ImportError as exc:
            raise ValueError(f"{KEY}.metrics_port needs prometheus_client: install structout[metrics]") from exc
        prometheus = CollectorRegistry()
        try:
            server, thread = start_http_server(port, host, prometheus)
        except (OSError, OverflowError) as exc:
            raise ValueError(f"{KEY}.metrics_port: cannot listen on {host}, port {port}: {exc}") from exc
        self._metrics = self.observer = Metrics(prometheus)
        self._close = _closing(server, thread)

    def registry(self) -> Registry:
        """What is installed, with whoever listens to its compiles."""
        return discover() if self._metrics is None else discover(plugins={"structout_metrics": self._metrics})

    def watch(self, **sources: Any) -> None:
        """See `structout.observability.metrics.Metrics.watch`."""
        if self._metrics is not None:
            self._metrics.watch(**sources)

    def close(self) -> None:
        """Listens no longer."""
        self._close()


def _closing(server: Any, thread: threading.Thread) -> Callable[[], None]:
    def close() -> None:
        server.shutdown()
        with contextlib.suppress(OSError):
            server.server_close()
        thread.join()

    return close
