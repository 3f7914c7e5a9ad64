"""The server behind a real socket: how it stops, and what it does when clients leave."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2 as httpx
import pytest
from prometheus_client import CollectorRegistry

from engine_adapter.embedded.engine import Engine
from engine_adapter.serve.http.server import HttpServer, bound_socket
from engine_adapter.serve.running import RunningEngine
from tests.serve.support import GUARD_S, GatedRunner, events_of_text, guarded, scripted_engine, served_by

LONG = {"prompt": "x", "structured_outputs": {"choice": ["a" * 40]}, "max_tokens": 60, "stream": True}


class Served:
    """A server on a thread of its own, and a client of it."""

    def __init__(self, engine: Engine, grace_s: float) -> None:
        engine_runs = RunningEngine(engine)
        engine_runs.start()
        self.bound = bound_socket("127.0.0.1", 0)
        listens = threading.Event()
        served = served_by(engine_runs)
        self.server = HttpServer(served, grace_s=grace_s, metrics=CollectorRegistry(), announce=listens.set)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.bound]})
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.bound.getsockname()[1]}", timeout=GUARD_S)
        self.thread.start()
        assert listens.wait(GUARD_S)

    def stop(self) -> None:
        """What a signal does."""
        self.server.should_exit = True


@contextmanager
def serving(engine: Engine, grace_s: float = GUARD_S) -> Iterator[Served]:
    """A server until the block ends, and until it has stopped."""
    served = Served(engine, grace_s)
    try:
        yield served
    finally:
        served.stop()
        served.thread.join(GUARD_S)
        served.client.close()
        engine.close()
    assert not served.thread.is_alive()


def test_a_signal_lets_requests_finish_and_takes_no_more() -> None:
    runner = GatedRunner()
    with (
        serving(scripted_engine(runner)) as served,
        served.client.stream("POST", "/v1/completions", json=LONG) as response,
    ):
        lines = response.iter_text()
        text = next(lines)
        served.stop()
        wait_until_refused(str(served.client.base_url))
        runner.gate.set()
        text += "".join(lines)
    *_, last = events_of_text(text)
    assert last["choices"][0]["finish_reason"] == "stop"


def wait_until_refused(address: str) -> None:
    """Asks until nobody listens any more."""
    with httpx.Client(base_url=address, timeout=GUARD_S) as other:
        while True:
            try:
                other.get("/health", headers={"connection": "close"})
            except httpx.TransportError:
                return


def test_what_has_not_finished_in_time_fails_with_the_cause() -> None:
    runner = GatedRunner()
    with (
        serving(scripted_engine(runner), grace_s=0.0) as served,
        served.client.stream("POST", "/v1/completions", json=LONG) as response,
    ):
        lines = response.iter_text()
        text = next(lines)
        served.stop()
        text += "".join(lines)
        runner.gate.set()
    *events, last = events_of_text(text)
    assert events
    assert (last["error"]["code"], last["error"]["type"]) == ("unavailable", "server_error")


def test_a_client_that_leaves_aborts_its_generation() -> None:
    runner = GatedRunner()
    engine = scripted_engine(runner)
    with serving(engine) as served:
        with served.client.stream("POST", "/v1/completions", json=LONG) as response:
            next(response.iter_text())
        assert engine.aborted.wait(GUARD_S)
        runner.gate.set()
    assert engine.unfinished == 0
    assert runner.decoded < 40, "it did not go on to its end"


def test_a_body_that_has_not_come_in_when_the_server_ends_is_refused_with_the_cause() -> None:
    with (
        serving(scripted_engine(), grace_s=0.0) as served,
        socket.create_connection(served.bound.getsockname(), timeout=GUARD_S) as client,
    ):
        client.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
        served.client.get("/health")  # by then the server has begun to read the other request
        served.stop()
        reply = b"".join(iter(lambda: client.recv(4096), b""))
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 503")
    assert json.loads(body)["error"]["code"] == "unavailable"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_that_is_taken_is_an_error_at_once(host: str) -> None:
    try:
        first = bound_socket(host, 0)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with first:
        first.listen()
        with pytest.raises(OSError, match="in use"):
            bound_socket(host, first.getsockname()[1])


def test_replies_do_not_wait_for_acknowledgements() -> None:
    async def main() -> int:
        told: asyncio.Queue[int] = asyncio.Queue()

        def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            told.put_nowait(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        bound = bound_socket("127.0.0.1", 0)
        async with await asyncio.start_server(connected, sock=bound):
            _, writer = await asyncio.open_connection(*bound.getsockname())
            no_delay = await told.get()
            writer.close()
            await writer.wait_closed()
            return no_delay

    assert guarded(main) == 1
