"""Running what was asked and sending the reply: whole, or as server-sent events.

A stream begins with its first real event. Until a sample has said something, or has finished, nothing is sent, so that
a request which fails before gets a plain reply with its status. Later a failure is one more event, and the stream still
ends as it should.
"""

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, TypeAlias

import attrs
from starlette.responses import JSONResponse, Response, StreamingResponse

from engine_adapter.outcome import Delta, Failed, Finished, internal_error
from engine_adapter.serve.http.asking import Asked, ChoiceStream, JsonObject
from engine_adapter.serve.http.errors import error_body, error_response, log_error
from engine_adapter.serve.running import RunningEngine
from engine_adapter.serve.samples import SampleOutcome, Samples, failure_of, sampled
from structout.errors import GrammarError

Send: TypeAlias = Callable[[Response], Awaitable[None]]
"""Sends a response to its end."""

_DONE: Final = b"data: [DONE]\n\n"


async def answer(asked: Asked, running: RunningEngine, send: Send) -> None:
    """Answers one request. Cancelled, it aborts what runs for it."""
    async with aclosing(_judged(asked, running)) as outcomes:
        if asked.is_stream:
            await _stream(asked, outcomes, send)
        else:
            await send(await _whole(asked, outcomes))


async def _judged(asked: Asked, running: RunningEngine) -> AsyncGenerator[SampleOutcome, None]:
    """What the samples say, with pointers into the client's request; a text that fits no reply is a failure."""
    async with aclosing(sampled(running, asked.request, asked.n)) as outcomes:
        async for each in outcomes:
            match each.outcome:
                case Failed(error):
                    log_error(error, asked.request.id)
                    yield attrs.evolve(each, outcome=Failed(asked.located(error)))
                case Finished() as finished if (unfit := asked.shape.judge(finished)) is not None:
                    log_error(unfit, asked.request.id)
                    yield attrs.evolve(each, outcome=Failed(unfit))
                case _:
                    yield each


async def _whole(asked: Asked, outcomes: AsyncIterator[SampleOutcome]) -> Response:
    samples = Samples.of(asked.n)
    async for each in outcomes:
        samples.take(each)
    if (error := samples.error) is not None:
        return error_response(error)
    choices = [
        asked.shape.choice(index, deltas, end)
        for index, (deltas, end) in enumerate(zip(samples.deltas, samples.ends, strict=True))
        if end is not None
    ]
    head = _head(asked, asked.shape.object_name)
    return JSONResponse({**head, "choices": choices, "usage": _usage(asked, samples)})


def _head(asked: Asked, object_name: str) -> JsonObject:
    reply_id = asked.shape.id_prefix + asked.request.id
    return {"id": reply_id, "object": object_name, "created": int(time.time()), "model": asked.model}


def _usage(asked: Asked, samples: Samples) -> dict[str, int]:
    usage = samples.usage(len(asked.request.prompt))
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


# ---- streams -------------------------------------------------------------------------------------------------------


@attrs.define
class _Chunks:
    """Makes a stream's events of what the samples say."""

    asked: Asked
    head: JsonObject
    samples: Samples
    choices: list[ChoiceStream]

    @classmethod
    def of(cls, asked: Asked) -> "_Chunks":
        head = _head(asked, asked.shape.chunk_name)
        return cls(asked, head, Samples.of(asked.n), [asked.shape.stream(index) for index in range(asked.n)])

    def take(self, each: SampleOutcome) -> bytes:
        """The events for one outcome, b"" for none. The failure of an only sample is told by `last`."""
        self.samples.take(each)
        stream = self.choices[each.index]
        match each.outcome:
            case Delta() as delta:
                choices = stream.delta(delta)
            case end if self.asked.n == 1 and failure_of(end) is not None:
                choices = []
            case end:
                choices = stream.end(end)
        return b"".join(self._event([choice]) for choice in choices)

    def last(self) -> bytes:
        """What follows when all samples have ended."""
        if (error := self.samples.error) is not None:
            return _sse(error_body(error)) + _DONE
        usage = _usage(self.asked, self.samples)
        return (_sse({**self.head, "choices": [], "usage": usage}) if self.asked.has_usage else b"") + _DONE

    def _event(self, choices: list[JsonObject]) -> bytes:
        usage = {"usage": None} if self.asked.has_usage else {}
        return _sse({**self.head, "choices": choices, **usage})


def _sse(data: dict[str, Any]) -> bytes:
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


async def _stream(asked: Asked, outcomes: AsyncIterator[SampleOutcome], send: Send) -> None:
    chunks = _Chunks.of(asked)
    opening = await _opening(chunks, outcomes)
    if isinstance(opening, GrammarError):
        return await send(error_response(opening))
    async with aclosing(_events(asked, chunks, opening, outcomes)) as events:
        return await send(StreamingResponse(events, media_type="text/event-stream", headers=_NO_BUFFERING))


_NO_BUFFERING: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def _opening(chunks: _Chunks, outcomes: AsyncIterator[SampleOutcome]) -> bytes | GrammarError:
    """The events up to the first that is not a failure; the error if there is none."""
    held = b""
    async for each in outcomes:
        events = chunks.take(each)
        held += events
        if events and (isinstance(each.outcome, Delta) or failure_of(each.outcome) is None):
            return held
    error = chunks.samples.error
    assert error is not None, "samples that say nothing have all failed"
    return error


async def _events(
    asked: Asked, chunks: _Chunks, opening: bytes, outcomes: AsyncIterator[SampleOutcome]
) -> AsyncGenerator[bytes, None]:
    yield opening
    try:
        async for each in outcomes:
            if events := chunks.take(each):
                yield events
        yield chunks.last()
    except Exception as exc:  # a bug: the status is sent, so it can only be told like any failure
        error = internal_error(exc)
        log_error(error, asked.request.id)
        yield _sse(error_body(error)) + _DONE
