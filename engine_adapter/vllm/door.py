"""Around vLLM's HTTP endpoints: what they would pass over in silence is refused, and a stream that fails before it has
said anything gets a status that says so.

ASGI, and nothing of vLLM's: `Door` is put inside of all other middleware, so that nothing is read for strangers.
"""

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import attrs

from engine_adapter.vllm.admission import Admission
from engine_adapter.vllm.asking import BACKEND, ENFORCEMENT, beside
from structout.errors import ErrorKind, GrammarError
from structout.observability.logs import log_failure
from structout.parsing import requested_backend
from structout.parsing.fields import CARRIERS, KNOWN_FIELDS
from structout.parsing.problems import child
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_PATHS: Final = ("/chat/completions", "/completions", "/responses")
_READ_BY_VLLM: Final = ("response_format", "structured_outputs", "tool_choice")
_INSTEAD: Final = {
    "guided_json": "json",
    "guided_regex": "regex",
    "guided_choice": "choice",
    "guided_grammar": "grammar",
    "json_schema": "json",
    "regex": "regex",
    "ebnf": "grammar",
    "grammar": "grammar",
    "structural_tag": "structural_tag",
    "guided_decoding_backend": "backend",
    "guided_whitespace_pattern": "whitespace_pattern",
}
"""Where in ``structured_outputs`` vLLM reads what other dialects write elsewhere."""


def options(body: bytes) -> Result[Mapping[str, str], GrammarError]:
    """What a request says for structout alone, as `asking.complete` takes it.

    Err for a field that is misspelt, or that carries a constraint and that vLLM does not read. What is no JSON object
    is left to vLLM.
    """
    try:
        request: object = json.loads(body)
    except (ValueError, RecursionError):
        return Ok({})
    if not isinstance(request, dict):
        return Ok({})
    if error := _passed_over(request):
        return Err(error)
    return requested_backend(request).map(lambda backend: _options(request, backend))


def _options(request: Mapping[str, Any], backend: str | None) -> Mapping[str, str]:
    constraint = request.get("structured_outputs")
    enforcement = constraint.get("enforcement") if isinstance(constraint, Mapping) else None
    found = {BACKEND: backend, ENFORCEMENT: enforcement}
    return {name: value for name, value in found.items() if value is not None}


def _passed_over(request: Mapping[str, Any]) -> GrammarError | None:
    layers: list[tuple[str, object]] = [("", request), *((child("", name), request.get(name)) for name in CARRIERS)]
    for pointer, fields in layers:
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            is_read = not pointer and name in _READ_BY_VLLM
            if name in KNOWN_FIELDS and not is_read and value is not None:
                return _not_read(name, pointer)
    return None


def _not_read(name: str, pointer: str) -> GrammarError:
    message = f"vLLM does not read the field {name!r} here, and would answer as if it was not there"
    place = f"structured_outputs.{_INSTEAD[name]}" if name in _INSTEAD else f"{name} in the request itself"
    return GrammarError(
        kind=ErrorKind.INVALID_SPEC,
        message=message,
        pointer=child(pointer, name),
        keyword=name,
        hint=f"use {place if name in (*_INSTEAD, *_READ_BY_VLLM) else 'structured_outputs'}",
    )


class Door:
    """The middleware.

    Args:
        app: what it is around.
        admission: whose threads read the bodies.
    """

    def __init__(self, app: App, admission: Admission) -> None:
        self._app = app
        self._admission = admission

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """As ASGI calls it."""
        is_asked = scope["type"] == "http" and scope["method"] == "POST" and scope["path"].endswith(_PATHS)
        if not is_asked:
            await self._app(scope, receive, send)
            return
        received = await _received(receive)
        body = b"".join(message.get("body", b"") for message in received)
        match await self._admission.read(lambda: options(body)):
            case Err(error):
                log_failure(logger, error)
                await _reply(send, error.consequence.http_status, _as_json(error))
            case Ok(found):
                reply = _Reply(send)
                with beside(found):
                    async with reply.decided():
                        await self._app(scope, _again(received, receive), reply.send)


async def _received(receive: Receive) -> list[Message]:
    """The messages of a request's body, or until the client has gone."""
    received = [await receive()]
    while received[-1]["type"] == "http.request" and received[-1].get("more_body"):
        received.append(await receive())
    return received


def _again(received: list[Message], receive: Receive) -> Receive:
    """A `receive` that first gives what was received already."""
    left = iter(received)

    async def again() -> Message:
        for message in left:
            return message
        return await receive()

    return again


def _as_json(error: GrammarError) -> dict[str, Any]:
    """In vLLM's own form."""
    status = error.consequence.http_status
    kind = "BadRequestError" if status == HTTPStatus.BAD_REQUEST else HTTPStatus(status).phrase
    return {"error": {"message": str(error), "type": kind, "param": error.keyword, "code": status}}


async def _reply(send: Send, status: int, content: Mapping[str, Any]) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_OPENING: Final = ("response.created", "response.in_progress")
"""Events that a response's stream begins with, whatever becomes of it."""


@attrs.define
class _Reply:
    """A reply on its way to the client. A stream's first messages are kept until it is clear what becomes of it.

    Attributes:
        kept: None once the client has the beginning.
    """

    _send: Send
    kept: list[Message] | None = attrs.field(factory=list)
    is_replaced: bool = False

    async def send(self, message: Message) -> None:
        """As ASGI's ``send``."""
        if self.is_replaced:
            return
        if self.kept is None:
            await self._send(message)
            return
        self.kept.append(message)
        if not _is_stream(self.kept[0]):
            await self._let_go()
        elif error := _error_in(self._text()):
            await self._replace(error)
        elif _is_last(message) or _says_something(self._text()):
            await self._let_go()

    def _text(self) -> str:
        assert self.kept is not None, "asked for before the client has the beginning"
        return b"".join(message.get("body", b"") for message in self.kept).decode(errors="replace")

    async def _let_go(self) -> None:
        kept, self.kept = self.kept or [], None
        for message in kept:
            await self._send(message)

    async def _replace(self, error: Mapping[str, Any]) -> None:
        self.is_replaced = True
        await _reply(self._send, int(error["code"]), {"error": error})

    @contextlib.asynccontextmanager
    async def decided(self) -> AsyncIterator[None]:
        """What is raised while the beginning of a stream is kept becomes the reply, if it says what it is to be."""
        try:
            yield
        except Exception as exc:
            if self.is_replaced:
                raise
            error = _error_of(exc) if self.kept else None
            if error is None:
                await self._let_go()
                raise
            await self._replace(error)


def _is_last(message: Message) -> bool:
    return message["type"] == "http.response.body" and not message.get("more_body", False)


def _is_stream(start: Message) -> bool:
    headers = dict(start.get("headers", ()))
    return start.get("status") == 200 and headers.get(b"content-type", b"").startswith(b"text/event-stream")


def _events(text: str) -> list[Any]:
    """The data of the events in the beginning of a stream, as far as they are complete."""
    return [_data(event) for event in text.split("\n\n")[:-1]]


def _data(event: str) -> Any:
    """None for what has no data, such as the comments that keep a connection alive."""
    lines = [line.removeprefix("data:").strip() for line in event.splitlines() if line.startswith("data:")]
    try:
        return json.loads("\n".join(lines))
    except ValueError:
        return None


def _is_opening(event: Any) -> bool:
    return isinstance(event, dict) and event.get("type") in _OPENING


def _says_something(text: str) -> bool:
    return any(not _is_opening(event) for event in _events(text))


def _error_in(text: str) -> Mapping[str, Any] | None:
    """The error that a stream begins with, in vLLM's form."""
    first = next((event for event in _events(text) if not _is_opening(event)), None)
    error = first.get("error") if isinstance(first, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("code"), int) else None


def _error_of(exc: BaseException | None) -> Mapping[str, Any] | None:
    """What vLLM's handlers would have said of an exception, or of what it came from, had the reply not begun."""
    while exc is not None:
        status = getattr(exc, "http_status", None) or (400 if type(exc).__name__ == "VLLMValidationError" else None)
        if status is not None:
            kind = "BadRequestError" if status == HTTPStatus.BAD_REQUEST else HTTPStatus(status).phrase
            return {"message": str(exc), "type": kind, "param": None, "code": int(status)}
        exc = exc.__cause__
    return None
