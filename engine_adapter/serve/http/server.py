"""The application behind a socket, from start to orderly end."""

import asyncio
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import uvicorn
from prometheus_client import REGISTRY, CollectorRegistry

from engine_adapter.serve.http.app import create_app
from engine_adapter.serve.http.connection import Connection
from engine_adapter.serve.http.intake import Intake
from engine_adapter.serve.running import LAST_STEPS_S
from engine_adapter.serve.served import ServedModel

GRACE_S: Final = 30.0
"""How long requests that are under way may take to finish when the server is to stop, in seconds."""

_KEEP_ALIVE_S: Final = 75
"""How long a connection stays open on which no request comes, in seconds. Longer than clients keep theirs, so that
none sends a request on one that is just being closed."""

_LAST_WRITES_S: Final = 5.0
"""How long their clients may take to read the end, in seconds."""


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket with that address, on which nobody listens yet. Port 0 is one that is free. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, or asyncio leaves TCP_NODELAY out, and every reply waits 40 ms for an acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except BaseException:
        bound.close()
        raise
    return bound


class HttpServer(uvicorn.Server):
    """Serves one model until SIGTERM or SIGINT, or until ``should_exit`` is set: ``run(sockets=[...])``.

    Then it takes no more connections; requests under way finish, or after ``grace_s`` seconds fail with the cause, and
    the engine, which runs already, is closed with them. A second SIGINT does not wait. Logs go where ``uvicorn`` and
    its children have handlers.

    Args:
        served: the model.
        grace_s: see above.
        metrics: what ``/metrics`` shows.
        announce: called when it listens.
    """

    def __init__(
        self,
        served: ServedModel,
        *,
        grace_s: float = GRACE_S,
        metrics: CollectorRegistry = REGISTRY,
        announce: Callable[[], None] = lambda: None,
    ) -> None:
        self._intake = Intake()
        config = uvicorn.Config(
            create_app(served, metrics=metrics, intake=self._intake),
            http=Connection,
            lifespan="off",
            ws="none",
            log_config=None,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(grace_s + LAST_STEPS_S + _LAST_WRITES_S),
        )
        super().__init__(config)
        self._engine = served.running
        self._grace_s = grace_s
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends the engine and the connections at the same time: as their requests end, connections can."""
        closing = asyncio.ensure_future(self._close())
        await super().shutdown(sockets)
        if self.force_exit:
            await self._engine.close(0.0)
        await closing

    async def _close(self) -> None:
        await self._engine.close(self._grace_s)
        self._intake.close()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Takes the signals, and does not raise them again in the end: the caller has things to close."""
        if threading.current_thread() is not threading.main_thread():
            yield  # which alone is told of signals
            return
        previous = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)
