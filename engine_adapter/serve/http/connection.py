"""A client's connection, which is not waited for for ever."""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

PIECE_BYTES: Final = 8 * 2**10
"""Most bytes that are taken from a client before it is another's turn: cut into chunks of a byte each, which h11 reads
one by one, the 256 KiB that asyncio takes hold everybody up for a second."""

STALLED_S: Final = 60.0
"""How long a client may leave unread what it was sent, in seconds, where more is to come."""


class Connection(H11Protocol):
    """Closes itself where its client does nothing with it: for a request that has begun, uvicorn waits without end.

    The head of a request may take as long to come in, from the connection or its first byte on, as a connection may be
    idle between two requests.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if hasattr(transport, "max_size"):  # asyncio's own transports have it
            transport.max_size = PIECE_BYTES
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_head()

    def _watch_head(self) -> None:
        """Begins to wait for the head of a request, or goes on to, unless one has come that is not answered yet."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._head = _stopped(self._head)
        elif self._head is None:
            self._head = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled = _stopped(self._stalled)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._head, self._stalled = _stopped(self._head), _stopped(self._stalled)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """No timer any more."""
    if timer is not None:
        timer.cancel()
    return None
