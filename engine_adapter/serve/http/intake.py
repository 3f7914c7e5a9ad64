"""Taking bodies in: none may be too long or take for ever, and few large ones come in at the same time."""

import asyncio
from typing import Final

import attrs
from starlette.requests import Request

from engine_adapter.serve.http.body import MAX_BODY_BYTES
from engine_adapter.serve.reading import MAX_LARGE, SMALL_BYTES, TOO_MANY_LARGE
from structout.errors import ErrorKind, Fault, GrammarError
from structout.result import Err, Ok, Result

BODY_S: Final = 60.0
"""How long a body may take to come in, in seconds."""

_DRAINED: Final = 2
"""Of a body that is too long, how many times the most bytes are taken in: a client that is still sending when the
connection is closed may not see why."""


class Intake:
    """Takes in the bodies of requests to some paths. Belongs to one event loop.

    Args:
        most_bytes: of one body.
        seconds: for one body.
    """

    def __init__(self, *, most_bytes: int = MAX_BODY_BYTES, seconds: float = BODY_S) -> None:
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._large: set[_Body] = set()

    async def take(self, request: Request) -> Result[bytes, GrammarError]:
        """The whole body. On an error there may be more of it on the way: the connection has to be closed.

        Raises:
            ClientDisconnect: the client has left.
        """
        body = _Body()
        try:
            async with asyncio.timeout(self._seconds):
                async for part in request.stream():
                    body.add(part)
                    body.error = body.error or self._objection(body)
                    if body.size > _DRAINED * self._most_bytes:
                        break
        except TimeoutError:
            body.error = body.error or _too_slow(self._seconds)
        finally:
            self._large.discard(body)
        return body.result

    def _objection(self, body: "_Body") -> GrammarError | None:
        """Why no more of a body is kept; None if it may go on."""
        if body.size > self._most_bytes:
            message = f"the body is longer than {self._most_bytes:,} bytes"
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
