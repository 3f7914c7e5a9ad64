"""structout's metrics of an engine core, as Prometheus reads them."""

import socket
import urllib.error
import urllib.request
from contextlib import closing

import pytest

from engine_adapter.vllm.grammars import Grammars
from engine_adapter.vllm.settings import Settings
from engine_adapter.vllm.watching import Ends, Watching
from structout import ErrorKind, GrammarError
from structout.discovery import discover
from structout.observability.sources import NO_OBSERVER
from tests.fakes import BYTES, TriePlugin
from tests.vllm.support import params
from tests.vllm.test_grammars import submit


@pytest.fixture
def port() -> int:
    """One that nobody listens on."""
    with socket.socket() as first:
        first.bind(("127.0.0.1", 0))
        number: int = first.getsockname()[1]
    return number


def scraped(port: int) -> str:
    with closing(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)) as reply:
        text: str = reply.read().decode()
        return text


def test_what_happened_is_told(port: int) -> None:
    watching = Watching(Settings(metrics_port=port - 1, sandbox_workers=0), place=1)
    registry = discover(plugins={"tries": TriePlugin(), "metrics": watching._metrics}, entry_points=())
    grammars, ends = Grammars(registry, BYTES, Settings(sandbox_workers=0), watching=watching), Ends()
    watching.watch(blocked=["one that waits"], ends=ends)
    for _ in range(2):
        submit(grammars, params(choice=["a"])).unwrap()
    ends.add(None)
    ends.add(GrammarError(kind=ErrorKind.DEAD_END, message="no"))
    told = scraped(port)
    for line in (
        'structout_compiles_total{backend="trie",outcome="ok",risk="unknown"} 1.0',
        "structout_cache_hits_total 1.0",
        'structout_wait_seconds_count{outcome="ok"} 2.0',
        "structout_blocked_requests 1.0",
        'structout_requests_total{outcome="ok"} 1.0',
        'structout_requests_total{outcome="dead_end"} 1.0',
    ):
        assert line in told.splitlines()
    grammars.shutdown()
    with pytest.raises(urllib.error.URLError):
        scraped(port)


def test_its_registry_is_all_that_is_installed(port: int) -> None:
    watching = Watching(Settings(metrics_port=port))
    try:
        assert watching.registry().backends.keys() == discover().backends.keys()
    finally:
        watching.close()


def test_without_a_port_nothing_is_collected() -> None:
    watching = Watching(Settings())
    watching.watch(blocked=[])
    assert watching.observer is NO_OBSERVER
    assert watching.registry().backends.keys() == discover().backends.keys()
    watching.close()


@pytest.mark.parametrize("place", [0, 1 << 16])
def test_a_port_that_it_cannot_have_keeps_the_server_from_starting(port: int, place: int) -> None:
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ValueError, match=r"metrics_port: cannot listen"):
        Watching(Settings(metrics_port=port), place)
