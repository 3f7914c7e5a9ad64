"""Several answers to one request: who said what, and how the whole ends."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

import attrs

from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, Outcome, Terminal, Usage, internal_error
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.running import Judge, RunningEngine, as_it_is
from structout.errors import ErrorKind, GrammarError
from structout.observability.logs import RequestLogger

logger = logging.getLogger(__name__)


@attrs.frozen
class SampleOutcome:
    """Something about one of a request's samples."""

    index: int
    outcome: Outcome


async def sampled(
    running: RunningEngine, request: Request, n: int, *, judged: Judge = as_it_is
) -> AsyncGenerator[SampleOutcome, None]:
    """Runs ``n`` samples of a request at the same time and yields their outcomes in order of arrival.

    Each index ends exactly once, with what ``judged`` makes of its end; the iterator ends after the last. Closing it
    aborts all that run. The samples have the ids ``<id>-<index>`` and, if there is a seed, seeds in a row from it; of
    one sample they are the request's own.
    """
    if n == 1:
        async with aclosing(running.outcomes(request, judged=judged)) as outcomes:
            async for outcome in outcomes:
                yield SampleOutcome(0, outcome)
        return
    arrived: asyncio.Queue[SampleOutcome] = asyncio.Queue()
    tasks = [
        asyncio.create_task(_run(running.outcomes(sample, judged=judged), sample, index, arrived))
        for index, sample in enumerate(_samples(request, n))
    ]
    try:
        running_samples = n
        while running_samples:
            each = await arrived.get()
            running_samples -= not isinstance(each.outcome, Delta)
            yield each
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def sample_ids(request_id: str, n: int) -> list[str]:
    """The ids under which the engine runs the samples of a request."""
    return [request_id] if n == 1 else [f"{request_id}-{index}" for index in range(n)]


def _samples(request: Request, n: int) -> list[Request]:
    return [
        attrs.evolve(request, id=id, sampling=_shifted(request.sampling, index))
        for index, id in enumerate(sample_ids(request.id, n))
    ]


def _shifted(sampling: SamplingParams, index: int) -> SamplingParams:
    """The parameters with a seed ``index`` further on, round the 64 bits if need be."""
    if sampling.seed is None:
        return sampling
    return attrs.evolve(sampling, seed=(sampling.seed + index + 2**63) % 2**64 - 2**63)


async def _run(
    outcomes: AsyncGenerator[Outcome, None], sample: Request, index: int, arrived: asyncio.Queue[SampleOutcome]
) -> None:
    """Passes one sample's outcomes on. An exception, which is a bug, is its end: whoever waits would wait for ever."""
    try:
        async with aclosing(outcomes):
            async for outcome in outcomes:
                arrived.put_nowait(SampleOutcome(index, outcome))
    except Exception as exc:
        RequestLogger(logger, sample.id).exception("a sample's outcomes could not be read")
        arrived.put_nowait(SampleOutcome(index, Failed(internal_error(exc))))


def failure_of(end: Terminal) -> GrammarError | None:
    """Why it did not finish; None if it did. An abort is nobody's fault: CANCELLED."""
    match end:
        case Finished():
            return None
        case Failed(error):
            return error
        case Aborted():
            return _ABORTED


_ABORTED: Final = GrammarError(kind=ErrorKind.CANCELLED, message="the request was aborted")


@attrs.define(eq=False)
class Samples:
    """How the samples of one request stand, for whoever answers when all have ended.

    Attributes:
        deltas: of each sample, in order.
        ends: of each sample; None while it runs.
    """

    deltas: Sequence[list[Delta]]
    ends: list[Terminal | None]

    @classmethod
    def of(cls, n: int) -> "Samples":
        """``n`` samples that have said nothing yet."""
        return cls(tuple([] for _ in range(n)), [None] * n)

    def take(self, each: SampleOutcome) -> None:
        match each.outcome:
            case Delta() as delta:
                self.deltas[each.index].append(delta)
            case end:
                self.ends[each.index] = end

    @property
    def error(self) -> GrammarError | None:
        """Why the request as a whole failed: the first sample's error if all have ended and none finished."""
        if any(end is None or isinstance(end, Finished) for end in self.ends):
            return None
        first = self.ends[0]
        return None if first is None else failure_of(first)

    def usage(self, prompt_tokens: int) -> Usage:
        """The tokens of all: the prompt's once; of a sample that has not finished those that were delivered."""
        generated = map(_generated, self.deltas, self.ends)
        return Usage(prompt_tokens=prompt_tokens, completion_tokens=sum(generated))


def _generated(deltas: list[Delta], end: Terminal | None) -> int:
    if isinstance(end, Finished):
        return end.usage.completion_tokens
    return sum(len(delta.token_ids) for delta in deltas)
