"""Taking bodies in: none may be too long or take for ever, and few large ones come in at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
from starlette.requests import Request

from engine_adapter.serve.http.body import MAX_BODY_BYTES
from engine_adapter.serve.reading import MAX_LARGE, SMALL_BYTES, TOO_MANY_LARGE
from engine_adapter.serve.running import SHUTTING_DOWN
from structout.errors import ErrorKind, Fault, GrammarError
from structout.result import Err, Ok, Result

BODY_S: Final = 60.0
"""How long a body may take to come in, in seconds."""

_DRAINED: Final = 2
"""Of a body that is too long, how many times the most bytes are taken in: a client that is still sending when the
connection is closed may not see why."""


class Intake:
    """Takes in the bodies of requests. Belongs to one event loop.

    Args:
        seconds: for one body.
    """

    def __init__(self, *, seconds: float = BODY_S) -> None:
        self._seconds = seconds
        self._large: set[_Body] = set()
        self._coming: set[asyncio.Timeout] = set()
        self._is_closed = False

    def close(self) -> None:
        """Waits for no body any more: those that have not come in are refused."""
        self._is_closed = True
        for each in self._coming:
            each.reschedule(0.0)

    async def take(self, request: Request, *, most_bytes: int = MAX_BODY_BYTES) -> Result[bytes, GrammarError]:
        """The whole body, of ``most_bytes`` at most. On an error there may be more of it on the way: the connection has
        to be closed.

        Raises:
            ClientDisconnect: the client has left.
        """
        body = _Body()
        try:
            async with self._time():
                async for part in request.stream():
                    body.add(part)
                    body.error = body.error or self._objection(body, most_bytes)
                    if body.size > _DRAINED * most_bytes:
                        break
        except TimeoutError:
            body.error = body.error or (SHUTTING_DOWN if self._is_closed else _too_slow(self._seconds))
        finally:
            self._large.discard(body)
        return body.result

    @asynccontextmanager
    async def _time(self) -> AsyncIterator[None]:
        """Raises TimeoutError in the block when it has lasted too long, or `close` is called."""
        async with asyncio.timeout(0.0 if self._is_closed else self._seconds) as coming:
            self._coming.add(coming)
            try:
                yield
            finally:
                self._coming.remove(coming)

    def _objection(self, body: "_Body", most_bytes: int) -> GrammarError | None:
        """Why no more of a body is kept; None if it may go on."""
        if body.size > most_bytes:
            message = f"the body is longer than {most_bytes:,} bytes"
            return GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message, pointer="")
        if body.size > SMALL_BYTES and body not in self._large:
            if len(self._large) >= MAX_LARGE:
                return TOO_MANY_LARGE
            self._large.add(body)
        return None


@attrs.define(eq=False)
class _Body:
    """What has come in of one."""

    parts: list[bytes] = attrs.field(factory=list)
    size: int = 0
    error: GrammarError | None = None

    def add(self, part: bytes) -> None:
        self.size += len(part)
        if self.error is None:
            self.parts.append(part)
        else:
            self.parts.clear()

    @property
    def result(self) -> Result[bytes, GrammarError]:
        return Ok(b"".join(self.parts)) if self.error is None else Err(self.error)


def _too_slow(seconds: float) -> GrammarError:
    message = f"the body did not come in within {seconds:g} seconds"
    return GrammarError(kind=ErrorKind.TIMED_OUT, fault=Fault.CALLER, message=message, pointer="")
