"""Many streams for a long time: see `benchmarks.streams`."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from random import Random
from typing import Any, Final

import attrs
import httpx2 as httpx

_HUNG_S: Final = 60.0
_FAILING: Final = 0.2
_LEAVING: Final = 0.1
_EARLY: Final = 0.2
"""Of the time, after which memory is looked at first."""
_BAD_REGEX: Final = "("
_DONE: Final = "[DONE]"


@attrs.frozen
class _Stream:
    """What one stream asks for.

    Attributes:
        text: that has to come; None for a grammar that fails.
        leaves_after: events after which the client leaves; None if it stays.
    """

    text: str | None
    leaves_after: int | None

    @classmethod
    def drawn(cls, number: int, random: Random) -> "_Stream":
        text = None if random.random() < _FAILING else f"the text of stream {number}"
        return cls(text, random.randrange(12) if random.random() < _LEAVING else None)

    def body(self) -> dict[str, Any]:
        constraint = {"regex": _BAD_REGEX} if self.text is None else {"choice": [self.text]}
        return {"prompt": "x", "max_tokens": 100, "stream": True, "structured_outputs": constraint}


@attrs.frozen
class State:
    """What the server's process tells of itself.

    Attributes:
        unfinished: requests that its engine has.
        resident: bytes of its memory.
    """

    unfinished: int
    resident: int


class _Server:
    """`benchmarks.stream_server` in a process of its own."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "benchmarks.stream_server"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port: int = self._heard()["port"]

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        heard: dict[str, Any] = json.loads(self._process.stdout.readline())
        return heard

    def state(self) -> State:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return State(**self._heard())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def soak(seconds: float, streams: int) -> dict[str, float]:
    """The figures."""
    server = _Server()
    try:
        return asyncio.run(_soaked(server, seconds, streams))
    finally:
        server.close()


async def _soaked(server: _Server, seconds: float, streams: int) -> dict[str, float]:
    ends: Counter[str] = Counter()
    numbers, random, until = itertools.count(), Random(0), time.monotonic() + seconds
    limits = httpx.Limits(max_connections=streams, max_keepalive_connections=streams)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", limits=limits, timeout=None) as client:

        async def one_after_the_other() -> None:
            while time.monotonic() < until:
                stream = _Stream.drawn(next(numbers), random)
                ends[await _end(client, stream)] += 1

        running = asyncio.gather(*(one_after_the_other() for _ in range(streams)))
        await asyncio.sleep(_EARLY * seconds)
        early = await asyncio.to_thread(server.state)
        await running
    last = await _settled(server)
    return {
        "streams": ends.total(),
        **{name: ends[name] for name in ("failing", "left", "lost", "duplicated", "hung")},
        "unfinished": last.unfinished,
        "resident_mb": round(last.resident / (1 << 20), 1),
        "early_resident_mb": round(early.resident / (1 << 20), 1),
    }


async def _settled(server: _Server) -> State:
    """The server's state once it has heard that the last clients left, which takes it a moment."""
    for _ in range(50):
        state = await asyncio.to_thread(server.state)
        if not state.unfinished:
            break
        await asyncio.sleep(0.1)
    return state


async def _end(client: httpx.AsyncClient, stream: _Stream) -> str:
    """What became of a stream; "good" if it came whole."""
    try:
        async with asyncio.timeout(_HUNG_S), client.stream("POST", "/v1/completions", json=stream.body()) as response:
            if stream.text is None:
                return await _refused(response)
            return await _heard(response, stream) if response.status_code == 200 else "lost"
    except TimeoutError:
        return "hung"
    except httpx.HTTPError:
        return "lost"


async def _refused(response: httpx.Response) -> str:
    error = json.loads(await response.aread()).get("error", {})
    return "failing" if (response.status_code, error.get("code")) == (400, "invalid_spec") else "lost"


async def _heard(response: httpx.Response, stream: _Stream) -> str:
    text, ends, is_done, count = "", 0, False, 0
    async for event in _events(response):
        if count == stream.leaves_after:
            return "left"
        count += 1
        if is_done:
            return "duplicated"
        is_done = event == _DONE
        for choice in [] if is_done else json.loads(event).get("choices", []):
            text += choice["text"]
            ends += choice["finish_reason"] == "stop"
    if ends > 1 or len(text) > len(stream.text or ""):
        return "duplicated"
    return "good" if (is_done, ends, text) == (True, 1, stream.text) else "lost"


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
