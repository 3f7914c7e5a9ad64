"""Connections whose clients do nothing, or read nothing, are closed. Time passes when the test says so."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import attrs
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from engine_adapter.serve.http.connection import PIECE_BYTES, STALLED_S, Connection
from tests.serve.support import guarded

IDLE_S = 75
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@attrs.define(eq=False)
class Timer:
    due: float
    call: Callable[[], None]
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Clock:
    """An event loop whose time stands still but for `pass_by`."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.timers: list[Timer] = []
        self.now = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loop, name)

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(timer := Timer(self.now + delay, call))
        return timer

    def pass_by(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer.due <= self.now]
        self.timers = [timer for timer in self.timers if timer.due > self.now]
        for timer in due:
            if not timer.is_cancelled:
                timer.call()


class Transport(asyncio.Transport):
    """A connection to nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Client:
    """A client of a server that answers once ``gate`` is set."""

    def __init__(self) -> None:
        self.clock, self.transport, self.gate = Clock(), Transport(), asyncio.Event()
        config = uvicorn.Config(
            self.app, interface="asgi3", lifespan="off", ws="none", log_config=None, timeout_keep_alive=IDLE_S
        )
        config.load()
        clock: Any = self.clock
        self.connection = Connection(config, ServerState(), {}, clock)
        self.connection.connection_made(self.transport)

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async def answered(self) -> None:
        self.gate.set()
        while b"200 OK" not in self.transport.written:
            await asyncio.sleep(0)
        self.transport.written = b""
        self.gate.clear()


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("sent", [b"", REQUEST[:1], REQUEST[:-1]])
def test_a_head_that_does_not_come_in_ends_the_connection(sent: bytes, before: int) -> None:
    """However slowly it dribbles in; also that of a later request."""

    async def main() -> None:
        client = Client()
        for _ in range(before):
            client.clock.pass_by(IDLE_S - 1)
            client.connection.data_received(REQUEST)
            await client.answered()
        for byte in sent:
            client.connection.data_received(bytes([byte]))
            client.clock.pass_by((IDLE_S - 1) / len(sent))
        assert not client.transport.is_closed
        client.clock.pass_by(IDLE_S)
        assert client.transport.is_closed

    guarded(main)


def test_a_request_may_take_as_long_as_it_takes() -> None:
    async def main() -> None:
        client = Client()
        for _ in range(2):
            client.connection.data_received(REQUEST)
            client.clock.pass_by(100 * IDLE_S)
            assert not client.transport.is_closed
            await client.answered()

    guarded(main)


def test_a_client_that_reads_nothing_is_taken_for_gone() -> None:
    async def main() -> None:
        client = Client()
        client.connection.data_received(REQUEST)
        for _ in range(3):
            client.connection.pause_writing()
            client.clock.pass_by(STALLED_S - 1)
            client.connection.resume_writing()
        client.clock.pass_by(STALLED_S)
        assert not client.transport.is_aborted
        client.connection.pause_writing()
        client.clock.pass_by(STALLED_S)
        assert client.transport.is_aborted
        client.connection.connection_lost(None)

    guarded(main)


def test_no_more_is_taken_from_a_client_at_a_time_than_others_can_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(Connection, "data_received", lambda self, data: sizes.append(len(data)))

    async def main() -> None:
        config = uvicorn.Config(Client.app, interface="asgi3", lifespan="off", ws="none", log_config=None)
        config.load()
        make = functools.partial(Connection, config, ServerState(), {})
        async with await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0) as server:
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"x" * 10 * PIECE_BYTES)
            while sum(sizes) < 10 * PIECE_BYTES:
                await asyncio.sleep(0)
            writer.close()

    guarded(main)
    assert max(sizes) <= PIECE_BYTES


def test_a_connection_that_is_lost_leaves_no_timer() -> None:
    async def main() -> None:
        client = Client()
        client.connection.data_received(REQUEST[:3])
        client.connection.pause_writing()
        client.connection.connection_lost(None)
        assert all(timer.is_cancelled for timer in client.clock.timers)

    guarded(main)
