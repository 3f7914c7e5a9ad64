"""An endpoint that asks the engine, as an ASGI application: reads a body, answers it, and stops when the client has
gone."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from engine_adapter.outcome import Failed, internal_error
from engine_adapter.serve.http.answering import Send as Respond
from engine_adapter.serve.http.body import read_body, rooted
from engine_adapter.serve.http.errors import error_response, log_error
from engine_adapter.serve.http.intake import Intake
from engine_adapter.serve.served import ServedModel
from structout.errors import GrammarError
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

A = TypeVar("A")
"""What is asked of an endpoint."""

Reader: TypeAlias = Callable[[Mapping[str, Any], ServedModel, str], Result[A, GrammarError]]
"""Makes what is asked of a body; the last argument is the request's id."""

Answerer: TypeAlias = Callable[[A, Respond], Awaitable[None]]
"""Answers what is asked. Cancelled, it stops what runs for it."""

REQUEST_ID_HEADER = "x-request-id"


@attrs.frozen(eq=False)
class Endpoint(Generic[A]):
    """Answers the requests to one path with what ``answer`` makes of what ``read`` makes of them.

    Every reply has the request's id in a header; the log has it too.
    """

    served: ServedModel
    intake: Intake
    read: Reader[A]
    answer: Answerer[A]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self.intake.take(HttpRequest(scope, receive))
        except ClientDisconnect:
            return
        exchange = _Exchange(scope, send, uuid.uuid4().hex, is_last=isinstance(body, Err))
        answering = asyncio.ensure_future(self._answer(body, exchange))
        leaving = asyncio.ensure_future(_left(receive))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            answering.cancel()
            leaving.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _answer(self, body: Result[bytes, GrammarError], exchange: "_Exchange") -> None:
        """Answers, also if something of ours is wrong."""
        try:
            match body if isinstance(body, Err) else await self._asked(body.value, exchange.id):
                case Err(error):
                    log_error(error, exchange.id)
                    self.served.running.ends.add(exchange.id, Failed(error))
                    await exchange.respond(error_response(error))
                case Ok(asked):
                    await self.answer(asked, exchange.respond)
        except ClientDisconnect:
            return
        except Exception as exc:
            error = internal_error(exc)
            log_error(error, exchange.id)
            if not exchange.has_begun:
                await exchange.respond(error_response(error))

    async def _asked(self, body: bytes, request_id: str) -> Result[A, GrammarError]:
        return await self.served.reading.run(len(body), lambda: self._read(body, request_id))

    def _read(self, body: bytes, request_id: str) -> Result[A, GrammarError]:
        match read_body(body):
            case Err() as failed:
                return failed
            case Ok(fields):
                pass
        match self.read(fields, self.served, request_id):
            case Err(error) if error.pointer is not None:
                return Err(attrs.evolve(error, pointer=rooted(fields, error.pointer)))
            case read:
                return read


@attrs.define(eq=False)
class _Exchange:
    """One request and the way back to who sent it. ``is_last``: whether the connection is closed after it."""

    scope: Scope
    send: Send
    id: str
    is_last: bool = attrs.field(kw_only=True)
    has_begun: bool = False

    async def respond(self, response: Response) -> None:
        self.has_begun = True
        response.headers[REQUEST_ID_HEADER] = self.id
        if self.is_last:
            response.headers["connection"] = "close"
        await response(self.scope, _nothing, self.send)


async def _left(receive: Receive) -> None:
    """Returns when the client has left; after the body that is all a client can do."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _nothing() -> Message:
    """For a response that would watch for the client itself: there is one who does."""
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")
