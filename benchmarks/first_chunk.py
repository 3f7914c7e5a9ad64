"""Streams that begin with their first real event, against streams that begin at once: see `benchmarks.streams`."""

import asyncio
import gc
import time
from contextlib import aclosing
from typing import Any, Final, Protocol

import numpy as np
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Scope

from benchmarks.stream_server import scripted
from engine_adapter.serve.http.answering import NO_BUFFERING, Send, Stream, Verdict, told
from engine_adapter.serve.http.answering import answer as answer_held_back
from engine_adapter.serve.http.asking import Asked
from engine_adapter.serve.http.completions import read_completion
from engine_adapter.serve.running import RunningEngine
from engine_adapter.serve.served import ServedModel

_TEXT: Final = "sixteen letters."
_SCOPE: Final[Scope] = {"type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}}
_RESAMPLES: Final = 10_000
_WARM_UP: Final = 20


class _Answer(Protocol):
    async def __call__(self, asked: Asked, send: Send, *, running: RunningEngine) -> None: ...


async def _answer_at_once(asked: Asked, send: Send, *, running: RunningEngine) -> None:
    """What `answer_held_back` does, of the same parts, without waiting for anything before the stream begins."""
    verdict = Verdict(asked, running.ends)
    async with (
        aclosing(told(asked, running, verdict)) as outcomes,
        aclosing(Stream.of(asked, verdict).events(b"", outcomes)) as events,
    ):
        await send(StreamingResponse(events, media_type="text/event-stream", headers=NO_BUFFERING))


async def _seconds(answer: _Answer, served: ServedModel, number: int) -> tuple[float, int]:
    """Processor time of one stream, of all threads, and how many pieces it came in that are not empty."""
    body = {"prompt": "x", "max_tokens": 100, "stream": True, "structured_outputs": {"choice": [_TEXT]}}
    asked = read_completion(body, served, str(number)).unwrap()
    pieces = 0

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("the event is never set")

    async def take(message: Any) -> None:
        nonlocal pieces
        pieces += bool(message.get("body"))

    async def send(response: Response) -> None:
        await response(_SCOPE, receive, take)

    began = time.process_time()
    await answer(asked, send, running=served.running)
    return time.process_time() - began, pieces


async def _compared(served: ServedModel, pairs: int) -> tuple[np.ndarray[Any, np.dtype[np.float64]], int]:
    """Seconds of each pair, [pairs, 2]: held back, and begun at once; each is first in every other pair."""
    ways: tuple[_Answer, _Answer] = (answer_held_back, _answer_at_once)
    seconds, pieces = np.zeros((pairs + _WARM_UP, 2)), set()
    gc.disable()
    for pair in range(len(seconds)):
        gc.collect(0)
        for turn in (0, 1):
            way = (pair + turn) % 2
            seconds[pair, way], count = await _seconds(ways[way], served, 2 * pair + turn)
            pieces.add(count)
    gc.enable()
    [chunks] = pieces
    await served.running.close(0.0)
    return seconds[_WARM_UP:], chunks


def compare(pairs: int) -> dict[str, float]:
    """The figures."""
    with scripted(max_rows=4) as (served, _):
        seconds, chunks = asyncio.run(_compared(served, pairs))
    drawn = np.random.default_rng(0).integers(0, pairs, (_RESAMPLES, pairs))
    sums = np.stack([seconds[:, way][drawn].sum(axis=1) for way in (0, 1)])
    low, high = np.percentile(sums[0] / sums[1], [2.5, 97.5])
    held, at_once = seconds.sum(axis=0)
    return {
        "pairs": pairs,
        "chunks": chunks,
        "ratio": round(held / at_once, 4),
        "ratio_low": round(float(low), 4),
        "ratio_high": round(float(high), 4),
        "us_per_chunk": round(1e6 * (held - at_once) / pairs / chunks, 2),
    }
