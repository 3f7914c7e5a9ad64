"""Running what was asked and sending the reply: whole, or as server-sent events.

A stream begins with its first real event. Until a sample has said something, or has finished, nothing is sent, so that
a request which fails before gets a plain reply with its status. Later a failure is one more event, and the stream still
ends as it should.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeAlias

import attrs
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse

from engine_adapter.outcome import Delta, Failed, Finished, Terminal, internal_error
from engine_adapter.serve.ends import Ends
from engine_adapter.serve.http.asking import Asked, EventWriter
from engine_adapter.serve.http.errors import error_response, log_error
from engine_adapter.serve.running import RunningEngine
from engine_adapter.serve.samples import SampleOutcome, Samples, failure_of, sampled
from structout.errors import GrammarError

Send: TypeAlias = Callable[[Response], Awaitable[None]]
"""Sends a response to its end."""


async def answer(asked: Asked, send: Send, *, running: RunningEngine) -> None:
    """Answers one request. Cancelled, it aborts what runs for it. If writing the reply raises, which is a bug, all
    samples have failed."""
    verdict = Verdict(asked, running.ends)
    async with aclosing(told(asked, running, verdict)) as outcomes:
        try:
            if asked.is_stream:
                await _stream(Stream.of(asked, verdict), outcomes, send)
            else:
                await send(await _whole(asked, outcomes))
        except ClientDisconnect:
            raise
        except Exception as exc:
            verdict.disown(internal_error(exc))
            raise


@attrs.define(eq=False)
class Verdict:
    """A `Judge` of one request's samples, also of a request whose reply cannot be told."""

    asked: Asked
    ends: Ends
    finished: int = 0
    error: GrammarError | None = None

    def __call__(self, end: Terminal) -> Terminal:
        verdict = self.asked.judged(end) if self.error is None else Failed(self.error)
        self.finished += isinstance(verdict, Finished)
        return verdict

    def disown(self, error: GrammarError) -> None:
        """Makes failures of all samples that have not failed: those that have ended, and those that will."""
        self.error = error
        while self.finished:
            self.finished -= 1
            self.ends.correct(self.asked.request.id, error)


async def told(asked: Asked, running: RunningEngine, verdict: Verdict) -> AsyncGenerator[SampleOutcome, None]:
    """What the samples say, as the client is told it; the operator is told of failures here."""
    async with aclosing(sampled(running, asked.request, asked.n, judged=verdict)) as outcomes:
        async for each in outcomes:
            if isinstance(each.outcome, Failed):
                log_error(each.outcome.error, asked.request.id)
            yield each


async def _whole(asked: Asked, outcomes: AsyncIterator[SampleOutcome]) -> Response:
    samples = Samples.of(asked.n)
    async for each in outcomes:
        samples.take(each)
    if (error := samples.error) is not None:
        return error_response(error)
    if asked.request.sampling.logprobs is None:
        return JSONResponse(asked.form.whole(asked, samples))
    # On another thread: there are twenty alternatives at each token.
    return await asyncio.to_thread(lambda: JSONResponse(asked.form.whole(asked, samples)))


# ---- streams -------------------------------------------------------------------------------------------------------


@attrs.frozen
class Stream:
    """One stream: what its samples have said, and who writes it."""

    asked: Asked
    verdict: Verdict
    samples: Samples
    writer: EventWriter

    @classmethod
    def of(cls, asked: Asked, verdict: Verdict) -> "Stream":
        """One that has not begun."""
        return cls(asked, verdict, Samples.of(asked.n), asked.form.stream(asked))

    def take(self, each: SampleOutcome) -> bytes:
        self.samples.take(each)
        return self.writer.take(each)

    async def opening(self, outcomes: AsyncIterator[SampleOutcome]) -> bytes | GrammarError:
        """The events up to the first that is not a failure; the error if there is none."""
        held = b""
        async for each in outcomes:
            events = self.take(each)
            held += events
            if events and (isinstance(each.outcome, Delta) or failure_of(each.outcome) is None):
                return held
        error = self.samples.error
        assert error is not None, "samples that say nothing have all failed"
        return error

    async def events(self, opening: bytes, outcomes: AsyncIterator[SampleOutcome]) -> AsyncGenerator[bytes, None]:
        """All events, of which ``opening`` are the first."""
        yield opening
        try:
            async for each in outcomes:
                if events := self.take(each):
                    yield events
            yield self.writer.last(self.samples)
        except Exception as exc:  # a bug: the status is sent, so it can only be told like any failure
            error = internal_error(exc)
            log_error(error, self.asked.request.id)
            self.verdict.disown(error)
            yield self.writer.broken(error)


async def _stream(stream: Stream, outcomes: AsyncIterator[SampleOutcome], send: Send) -> None:
    opening = await stream.opening(outcomes)
    if isinstance(opening, GrammarError):
        return await send(error_response(opening))
    async with aclosing(stream.events(opening, outcomes)) as events:
        return await send(StreamingResponse(events, media_type="text/event-stream", headers=NO_BUFFERING))


NO_BUFFERING: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
