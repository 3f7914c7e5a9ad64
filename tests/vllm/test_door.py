"""Around vLLM's endpoints: what it would pass over is refused, and streams that fail at once say so by their status."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from engine_adapter.vllm.admission import Admission
from engine_adapter.vllm.asking import BACKEND, ENFORCEMENT, complete
from engine_adapter.vllm.door import App, Door, Message, options
from structout import Err, ErrorKind, Ok
from tests.vllm.support import params

CHAT = "/v1/chat/completions"


@attrs.frozen
class Reply:
    """What the client gets."""

    status: int
    content_type: str
    body: str
    messages: int

    @property
    def error(self) -> Mapping[str, Any]:
        error: Mapping[str, Any] = json.loads(self.body)["error"]
        return error


def ask(app: App, body: bytes = b"{}", path: str = CHAT, method: str = "POST", deadline_s: float = 10.0) -> Reply:
    """Sends the body in two parts. Raises what the application raises."""
    received: list[Message] = [
        {"type": "http.request", "body": body[:3], "more_body": True},
        {"type": "http.request", "body": body[3:]},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return received.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    door = Door(app, Admission(deadline_s))
    asyncio.run(door({"type": "http", "method": method, "path": path}, receive, send))
    headers = dict(sent[0]["headers"])
    text = b"".join(message["body"] for message in sent[1:]).decode()
    return Reply(sent[0]["status"], headers[b"content-type"].decode(), text, len(sent))


def saying(*parts: str, content_type: str = "text/event-stream", status: int = 200) -> App:
    """An application that says this, whatever it is asked."""

    async def app(scope: object, receive: object, send: Callable[[Message], Any]) -> None:
        headers = [(b"content-type", content_type.encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await send({"type": "http.response.body", "body": part.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def echo(scope: object, receive: Callable[[], Any], send: Callable[[Message], Any]) -> None:
    """An application that says what it was asked, and whether the client is still there afterwards."""
    first, second, third = await receive(), await receive(), await receive()
    said = first["body"] + second["body"] + third["type"].encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": said})


ERROR = 'data: {"error": {"message": "no", "type": "BadRequestError", "param": null, "code": 400}}\n\n'
ROLE = 'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n'
OPENING = 'event: response.created\ndata: {"type": "response.created"}\n\n'


def test_the_application_gets_the_request_as_it_was_sent() -> None:
    body = json.dumps({"structured_outputs": {"json": {"a": "é" * 40}}}).encode()
    assert ask(echo, body).body == body.decode() + "http.disconnect"


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b"\xff", b"[" * 100_000, b"null"], ids=len)
def test_what_is_no_request_is_left_to_vllm(body: bytes) -> None:
    assert ask(saying("hello", content_type="text/plain"), body).body == "hello"


@pytest.mark.parametrize(
    "request_",
    [
        {"structured_output": {"json": {}}},
        {"structured_outputs": {"jsn": {}}},
        {"structured_outputs": {"json": {}, "backends": "xgrammar"}},
        {"response_fromat": {"type": "json_object"}},
        {"guided_json": {}},
        {"guided_jsno": {}},
        {"regex": "a"},
        {"extra_body": {"structured_outputs": {"json": {}}}},
        {"sampling_params": {"regex": "a"}},
        {"structured_outputs": {"json": {}, "backend": "No Such!"}},
    ],
    ids=repr,
)
def test_what_vllm_would_pass_over_is_refused(request_: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reply = ask(saying("hello"), json.dumps(request_).encode())
    assert (reply.status, reply.content_type) == (400, "application/json")
    assert reply.error["code"] == 400
    assert reply.error["type"] == "BadRequestError"
    assert "invalid_spec at /" in reply.error["message"]
    (record,) = (each for each in caplog.records if each.name.startswith("engine_adapter"))
    assert (record.levelname, record.getMessage()) == ("INFO", reply.error["message"])


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({"messages": [], "temperature": 1}, {}),
        ({"response_format": {"type": "json_object"}, "regex": None}, {}),
        ({"structured_outputs": {"json": {}, "backend": "auto"}}, {}),
        ({"structured_outputs": {"json": {}, "backend": "outlines", "enforcement": "exact"}}, None),
        ({"text": {"format": {"type": "text"}}}, {}),
    ],
    ids=repr,
)
def test_what_is_for_structout_alone_is_found(request_: dict[str, Any], found: Mapping[str, str] | None) -> None:
    expected = {BACKEND: "outlines", ENFORCEMENT: "exact"} if found is None else found
    assert options(json.dumps(request_).encode()) == Ok(expected)


def test_it_reaches_the_sampling_parameters_that_the_request_makes() -> None:
    made = params(json={})

    async def app(scope: object, receive: object, send: Callable[[Message], Any]) -> None:
        await asyncio.gather(asyncio.create_task(completing()))
        await saying("done")(scope, receive, send)  # type: ignore[arg-type]

    async def completing() -> None:
        complete(made)

    ask(app, json.dumps({"structured_outputs": {"json": {}, "backend": "outlines"}}).encode())
    assert made.extra_args == {BACKEND: "outlines"}


@pytest.mark.parametrize("beginning", [[ERROR], [ERROR[:9], ERROR[9:]], [OPENING, ERROR], [OPENING + ERROR]], ids=repr)
def test_a_stream_that_begins_with_an_error_has_its_status(beginning: list[str]) -> None:
    reply = ask(saying(*beginning, "data: [DONE]\n\n"))
    assert (reply.status, reply.content_type) == (400, "application/json")
    assert reply.error["message"] == "no"


@pytest.mark.parametrize(
    "parts",
    [
        [ROLE, ERROR],
        [ROLE[:5], ROLE[5:], ROLE],
        [OPENING, OPENING],
        ["data: [DONE]\n\n"],
        [": ping\n\n", ERROR],
        [],
        [ERROR[:-1]],
    ],
    ids=repr,
)
def test_other_streams_are_what_they_were(parts: list[str]) -> None:
    reply = ask(saying(*parts))
    assert (reply.status, reply.content_type) == (200, "text/event-stream")
    assert reply.body == "".join(parts)


@pytest.mark.parametrize("status", [200, 400, 500])
def test_other_replies_are_what_they_were(status: int) -> None:
    reply = ask(saying(ERROR, content_type="application/json", status=status))
    assert (reply.status, reply.body) == (status, ERROR)


@pytest.mark.parametrize(("path", "method"), [("/v1/embeddings", "POST"), (CHAT, "GET")])
def test_other_requests_are_not_looked_at(path: str, method: str) -> None:
    assert ask(echo, b'{"guided_json": {}}', path, method).status == 200


class GracefulHTTPError(Exception):
    """As vLLM's."""

    def __init__(self, http_status: int) -> None:
        super().__init__("why")
        self.http_status = http_status


@pytest.mark.parametrize("status", [400, 503, 504])
def test_what_a_stream_raises_before_it_says_anything_is_the_reply(status: int) -> None:
    async def app(scope: object, receive: object, send: Callable[[Message], Any]) -> None:
        await saying(OPENING)(scope, receive, unfinished(send))  # type: ignore[arg-type]
        raise RuntimeError("already started") from GracefulHTTPError(status)

    reply = ask(app)
    assert (reply.status, reply.error["code"], reply.error["message"]) == (status, status, "why")


def test_a_reply_that_was_replaced_has_one_beginning() -> None:
    async def app(scope: object, receive: object, send: Callable[[Message], Any]) -> None:
        await saying(ERROR)(scope, receive, send)  # type: ignore[arg-type]
        raise GracefulHTTPError(503)

    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"{}"}

    async def send(message: Message) -> None:
        sent.append(message)

    door = Door(app, Admission(10.0))
    with pytest.raises(GracefulHTTPError):
        asyncio.run(door({"type": "http", "method": "POST", "path": CHAT}, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 400


def test_other_exceptions_are_for_others() -> None:
    async def app(scope: object, receive: object, send: Callable[[Message], Any]) -> None:
        await saying(OPENING)(scope, receive, unfinished(send))  # type: ignore[arg-type]
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        ask(app)


def unfinished(send: Callable[[Message], Any]) -> Callable[[Message], Any]:
    """Leaves the last message out."""

    async def sending(message: Message) -> None:
        if message.get("more_body", True):
            await send(message)

    return sending


def test_a_fault_of_reading_is_ours_and_in_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    def call() -> Ok[None]:
        raise RuntimeError("secret internals")

    result = asyncio.run(Admission(10.0).read(call))
    assert isinstance(result, Err)
    assert result.error.kind is ErrorKind.ENGINE_FAILURE
    assert "secret internals" in caplog.text
    assert "secret" not in str(result.error)


def test_reading_has_a_deadline() -> None:
    async def slow() -> object:
        admission = Admission(0.001)
        release = asyncio.Event()
        loop = asyncio.get_running_loop()

        def call() -> Ok[None]:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result()
            return Ok(None)

        try:
            return await admission.read(call)
        finally:
            release.set()

    result = asyncio.run(slow())
    assert isinstance(result, Err)
    assert result.error.kind is ErrorKind.TIMED_OUT
    assert result.error.consequence.http_status == 504
