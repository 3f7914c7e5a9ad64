"""The endpoints that OpenAI's API has, over a socket."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import attrs
import httpx2 as httpx

from structout.errors import ErrorKind, Fault
from tests.serve.matrix.cells import Endpoint
from tests.serve.matrix.told import Ask, Cause, Said, Told, Wait
from tests.serve.support import events_of

_PATHS: Final = {Endpoint.CHAT: "/v1/chat/completions", Endpoint.COMPLETIONS: "/v1/completions"}
_FAULTS: Final = {"invalid_request_error": Fault.CALLER, "server_error": Fault.SERVICE, "cancelled": Fault.NOBODY}


@attrs.frozen
class HttpDoor:
    """See `tests.serve.matrix.told.Door`."""

    client: httpx.AsyncClient
    endpoint: Endpoint

    async def ask(self, ask: Ask) -> Told:
        response = await self.client.post(_PATHS[self.endpoint], json=self._body(ask))
        status, text = str(response.status_code), response.text
        if response.status_code != 200:
            assert response.headers["content-type"] == "application/json"
            cause = cause_of(response.json(), is_alone=True)
            return Told(status, cause, {}, text, may_retry="retry-after" in response.headers)
        return _streamed(status, response) if ask.is_stream else Told(status, None, _samples([response.json()]), text)

    async def leave(self, ask: Ask, when: Wait, *, is_late: bool) -> None:
        if ask.is_stream and is_late:
            async with self.client.stream("POST", _PATHS[self.endpoint], json=self._body(ask)) as response:
                assert response.status_code == 200
                lines = response.aiter_lines()  # held: where it is dropped, the connection is closed
                assert await anext(lines)
                await when()
            return
        asking = asyncio.create_task(self.ask(ask))
        await when()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        assert asking.cancelled()

    def _body(self, ask: Ask) -> dict[str, Any]:
        is_chat = self.endpoint is Endpoint.CHAT
        prompt = {"messages": [{"role": "user", "content": ask.mark}]} if is_chat else {"prompt": ask.mark}
        options = {"structured_outputs": {"choice": ask.choice}, "top_p": ask.top_p}
        return {**prompt, **options, "n": ask.n, "stream": ask.is_stream}


def cause_of(body: dict[str, Any], *, is_alone: bool = False) -> Cause | None:
    """What is under ``error`` in a reply, an event or a choice."""
    if (error := body.get("error")) is None:
        return None
    assert not is_alone or set(body) == {"error"}
    assert set(error) == {"message", "type", "code", "param"}
    assert error["message"]
    return Cause(ErrorKind(error["code"]), _FAULTS[error["type"]], error["param"])


def _streamed(status: str, response: httpx.Response) -> Told:
    assert response.headers["content-type"].startswith("text/event-stream")
    *chunks, last = events_of(response)
    cause = cause_of(last, is_alone=True) if "choices" not in last else None
    if cause is None:
        chunks.append(last)
    return Told(status, cause, _samples(chunks), response.text)


def _samples(parts: Sequence[dict[str, Any]]) -> dict[int, Said]:
    """The choices of a reply, or of a stream's chunks put together."""
    samples: dict[int, Said] = {}
    for choice in (choice for part in parts for choice in part["choices"]):
        before = samples.get(choice["index"], Said(""))
        assert before.reason is None, "nothing follows the end of a choice"
        said = choice.get("message") or choice.get("delta") or choice
        text = said.get("content", said.get("text")) or ""
        samples[choice["index"]] = Said(before.text + text, choice["finish_reason"], cause_of(choice))
    return samples
