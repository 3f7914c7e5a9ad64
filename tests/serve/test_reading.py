"""Reading requests: large ones hold up no small ones, and whatever a body is like, reading it is bounded."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from starlette.requests import Request as HttpRequest
from starlette.types import Message

from engine_adapter.serve.http.body import MAX_FIELDS, read_fields
from engine_adapter.serve.http.embeddings import EmbeddingsRequest
from engine_adapter.serve.http.intake import Intake
from engine_adapter.serve.http.requests import ChatMessage, ChatRequest, CompletionRequest
from engine_adapter.serve.http.responses.request import InputMessage, ResponseRequest
from engine_adapter.serve.reading import MAX_LARGE, SMALL_BYTES, TOO_MANY_LARGE, Reading
from engine_adapter.serve.running import SHUTTING_DOWN
from structout import Err, ErrorKind, GrammarError, Ok, Result
from tests.serve.support import GUARD_S, client_to, guarded, running, scripted_engine

LARGE = SMALL_BYTES + 1


# ---- on which thread -----------------------------------------------------------------------------------------------


def test_a_small_request_is_read_while_large_ones_are() -> None:
    gate = threading.Event()
    at_once: list[int] = []

    def slow() -> Result[int, GrammarError]:
        at_once.append(1)
        assert gate.wait(GUARD_S)
        return Ok(at_once.pop())

    async def main() -> list[Result[int, GrammarError]]:
        reading = Reading()
        large = [asyncio.ensure_future(reading.run(LARGE, slow)) for _ in range(MAX_LARGE)]
        await asyncio.sleep(0)
        assert await reading.run(LARGE, lambda: Ok(2)) == Err(TOO_MANY_LARGE)
        assert await reading.run(SMALL_BYTES, lambda: Ok(3)) == Ok(3)
        assert len(at_once) <= 1, "one large request at a time"
        gate.set()
        return await asyncio.gather(*large)

    assert guarded(main) == [Ok(1)] * MAX_LARGE


def test_a_large_request_that_nobody_waits_for_is_not_read() -> None:
    gate = threading.Event()
    read: list[str] = []

    def reader(name: str) -> Callable[[], Result[None, GrammarError]]:
        def call() -> Result[None, GrammarError]:
            assert gate.wait(GUARD_S)
            read.append(name)
            return Ok(None)

        return call

    async def main() -> None:
        reading = Reading()
        first, given_up, last = (asyncio.ensure_future(reading.run(LARGE, reader(name))) for name in "abc")
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        gate.set()
        await asyncio.gather(first, last)

    guarded(main)
    assert read == ["a", "c"]


class Panic(BaseException):
    """What Rust's panics are in Python: no `Exception`."""


def test_whatever_reading_raises_is_a_failure_of_this_request() -> None:
    def broken() -> Result[None, GrammarError]:
        raise Panic("secret")

    async def main() -> Result[None, GrammarError]:
        return await Reading().run(1, broken)

    match guarded(main):
        case Err(error):
            assert error.kind is ErrorKind.ENGINE_FAILURE
            assert "secret" not in str(error.to_json())
        case Ok():
            pytest.fail("it raised")


# ---- bodies --------------------------------------------------------------------------------------------------------


class Sending:
    """A client that sends parts of a body, and then nothing more; or the last of them without end."""

    def __init__(self, *parts: bytes, is_endless: bool = False, ends: bool = False) -> None:
        self.parts = list(parts)
        self.is_endless = is_endless
        self.ends = ends

    async def receive(self) -> Message:
        if not self.parts:
            await asyncio.Event().wait()
        part = self.parts[0] if self.is_endless else self.parts.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(self.parts) or not self.ends}

    @property
    def request(self) -> HttpRequest:
        return HttpRequest({"type": "http", "method": "POST", "headers": []}, self.receive)


def failure(result: Result[bytes, GrammarError]) -> ErrorKind:
    assert isinstance(result, Err)
    return result.error.kind


def test_a_body_is_its_parts() -> None:
    assert guarded(lambda: Intake().take(Sending(b"a", b"b" * LARGE, b"c", ends=True).request)) == Ok(
        b"a" + b"b" * LARGE + b"c"
    )


@pytest.mark.parametrize("part", [b"x", b"x" * LARGE])
def test_a_body_that_never_ends_is_refused(part: bytes) -> None:
    request = Sending(part, is_endless=True).request
    assert failure(guarded(lambda: Intake().take(request, most_bytes=1000))) is ErrorKind.TOO_COMPLEX


@pytest.mark.parametrize("parts", [[], [b"x"], [b"x" * LARGE]])
def test_a_body_that_does_not_come_in_is_refused(parts: list[bytes]) -> None:
    intake = Intake(seconds=0.01)
    result = guarded(lambda: intake.take(Sending(*parts).request))
    assert isinstance(result, Err)
    assert (result.error.kind, result.error.consequence.http_status) == (ErrorKind.TIMED_OUT, 400)


def test_when_the_server_ends_no_body_is_waited_for() -> None:
    async def main() -> list[Result[bytes, GrammarError]]:
        intake = Intake()
        coming = [asyncio.ensure_future(intake.take(Sending(*parts).request)) for parts in ([], [b"x"], [b"x" * LARGE])]
        await asyncio.sleep(0)
        intake.close()
        return [*await asyncio.gather(*coming), await intake.take(Sending().request)]

    assert guarded(main) == [Err(SHUTTING_DOWN)] * 4


def test_few_large_bodies_come_in_at_the_same_time() -> None:
    async def main() -> None:
        intake = Intake()
        coming = [asyncio.ensure_future(intake.take(Sending(b"x" * LARGE).request)) for _ in range(MAX_LARGE)]
        await asyncio.sleep(0)
        assert failure(await intake.take(Sending(b"x" * LARGE, ends=True).request)) is ErrorKind.OVERLOADED
        assert await intake.take(Sending(b"x" * SMALL_BYTES, ends=True).request) == Ok(b"x" * SMALL_BYTES)
        for each in coming:
            each.cancel()
        await asyncio.gather(*coming, return_exceptions=True)
        assert isinstance(await intake.take(Sending(b"x" * LARGE, ends=True).request), Ok)

    guarded(main)


# ---- what is in them -----------------------------------------------------------------------------------------------

MANY = 10_000
LISTS: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (ChatRequest, {"messages": [1] * MANY}),
    (ChatRequest, {"messages": [{}] * MANY}),
    (ChatRequest, {"messages": [{"role": "user"}], "stop": [1] * MANY}),
    (ChatRequest, {"messages": [{"role": "user"}], "tools": [1] * MANY}),
    (ChatMessage, {"role": "user", "content": [1] * MANY}),
    (CompletionRequest, {"prompt": "x", "stop": [1] * MANY}),
    (CompletionRequest, {"prompt": [None] * MANY}),
    (ResponseRequest, {"input": [1] * MANY}),
    (ResponseRequest, {"input": "x", "tools": [1] * MANY}),
    (ResponseRequest, {"input": "x", "metadata": {str(number): 1 for number in range(MANY)}}),
    (InputMessage, {"role": "user", "content": [1] * MANY}),
    (EmbeddingsRequest, {"input": [None] * MANY}),
]


@pytest.mark.parametrize(("fields", "body"), LISTS)
def test_of_a_thousand_mistakes_few_are_described(fields: type[BaseModel], body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        fields.model_validate(body)
    assert raised.value.error_count() <= 4


def test_a_request_has_a_bounded_number_of_fields() -> None:
    few = {"prompt": "x", **{f"colour_{number}": 1 for number in range(MAX_FIELDS - 1)}}
    assert isinstance(read_fields(few, CompletionRequest), Ok)
    for many in ({**few, "one_more": 1}, {**few, "extra_body": {"one_more": 1}}):
        refused = read_fields(many, CompletionRequest)
        assert isinstance(refused, Err)
        assert (refused.error.kind, refused.error.pointer) == (ErrorKind.TOO_COMPLEX, "")


def test_what_is_refused_counts_once_however_many_answers_were_wanted() -> None:
    """It is refused while it is read: before it is copied for each answer."""

    async def main() -> None:
        async with running(scripted_engine()) as engine_runs, client_to(engine_runs) as client:
            response = await client.post("/v1/completions", json={"prompt": [97] * 65, "n": 3})
            assert (response.status_code, response.json()["error"]["param"]) == (400, "/prompt")
            assert engine_runs.ends.counts()["failed"] == 1

    guarded(main)
