"""Embeddings of many prompts at a time, in a lane beside what generates."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import Final

import attrs

from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Finished, Terminal
from engine_adapter.serve.running import RunningEngine
from engine_adapter.serve.samples import failure_of
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result

AT_ONCE: Final = 4
"""How many prompts are in the engine at the same time, of all callers together. Each takes a KV row while it is
computed, and a new request waits for those that came before it: for so many prompts at most."""

MAX_CALLS: Final = 64
"""How many callers may wait at the same time."""

OVERLOADED: Final = GrammarError(
    kind=ErrorKind.OVERLOADED, message=f"{MAX_CALLS} requests for embeddings are under way", hint="send it again later"
)


@attrs.frozen
class Failure:
    """Why there are no embeddings. ``index``: the prompt that failed, if it was one."""

    error: GrammarError
    index: int | None = None


@attrs.define(eq=False)
class _Batch:
    """One caller's prompts; workers share it, and each takes the next."""

    requests: Sequence[Request]
    left: Iterator[tuple[int, Request]]
    ends: dict[int, Finished] = attrs.field(factory=dict)
    failure: Failure | None = None

    def take(self, index: int, end: Terminal) -> None:
        if isinstance(end, Finished):
            self.ends[index] = end
        elif self.failure is None and (error := failure_of(end)) is not None:
            self.failure = Failure(error, index)


class Embedder:
    """Has prompts embedded, a few at a time. Belongs to one event loop."""

    def __init__(self, running: RunningEngine) -> None:
        self._running = running
        self._lane = asyncio.Semaphore(AT_ONCE)  # first come, first served: callers take turns
        self._calls = 0

    async def embed(self, requests: Sequence[Request]) -> Result[list[Finished], Failure]:
        """Runs requests that want an embedding: all ends, in order; or the first failure, after which none is begun.

        Cancelled, it aborts what runs. Too many calls at the same time are OVERLOADED.
        """
        if self._calls >= MAX_CALLS:
            return Err(Failure(OVERLOADED))
        self._calls += 1
        try:
            return await self._all(requests)
        finally:
            self._calls -= 1

    async def _all(self, requests: Sequence[Request]) -> Result[list[Finished], Failure]:
        batch = _Batch(requests, iter(enumerate(requests)))
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(AT_ONCE, len(requests))):
                workers.create_task(self._work(batch))
        if batch.failure is not None:
            return Err(batch.failure)
        return Ok([batch.ends[index] for index in range(len(requests))])

    async def _work(self, batch: _Batch) -> None:
        for index, request in batch.left:
            async with self._lane:
                if batch.failure is not None:
                    return
                batch.take(index, await self._end_of(request))

    async def _end_of(self, request: Request) -> Terminal:
        async with aclosing(self._running.outcomes(request)) as outcomes:
            async for outcome in outcomes:
                if not isinstance(outcome, Delta):
                    return outcome
        raise AssertionError("a request ends before its outcomes do")
