"""Calls into backends, beside the event loop: a few at a time, and none is waited for longer than people wait."""

import asyncio
import logging
import weakref
from collections.abc import Callable
from typing import Final, TypeVar

from engine_adapter.filling.crew import Crew
from engine_adapter.outcome import internal_error
from structout.errors import ErrorKind, Fault, GrammarError
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

T = TypeVar("T")

THREADS: Final = 4
"""Most calls at a time: what is stuck in native code costs the page a thread, and the engine none."""

PATIENCE_S: Final = 5.0
"""How long a call is waited for, in seconds. It is not stopped then: native code cannot be."""

_ALL_BUSY: Final = GrammarError(
    kind=ErrorKind.OVERLOADED, message="others are trying constraints that take long", hint="try again later"
)
_SLOW: Final = GrammarError(
    kind=ErrorKind.TIMED_OUT,
    fault=Fault.CALLER,
    message="the backend takes too long for this step",
    hint="make the constraint simpler, or look again later",
)


class Aside:
    """Runs calls on threads of its own, which end when it is gone."""

    def __init__(self, *, threads: int = THREADS, patience_s: float = PATIENCE_S) -> None:
        self._crew = Crew("structout-page", threads)
        self._patience_s = patience_s
        weakref.finalize(self, self._crew.close)

    async def run(self, call: Callable[[], T], done: Callable[[], None] = lambda: None) -> Result[T, GrammarError]:
        """What ``call`` returns; OVERLOADED if no thread is free, TIMED_OUT if it takes too long.

        Args:
            call: may raise, which is a bug.
            done: called when ``call`` has returned, however late, or will not be called; on any thread.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result[T, GrammarError]] = loop.create_future()

        def task() -> None:
            result = _contained(call)
            done()
            try:
                loop.call_soon_threadsafe(_settle, future, result)
            except RuntimeError:
                logger.debug("the event loop was closed before a call of the page returned")

        if not self._crew.submit(task):
            done()
            return Err(_ALL_BUSY)
        try:
            async with asyncio.timeout(self._patience_s):
                return await future
        except TimeoutError:
            return Err(_SLOW)


def _contained(call: Callable[[], T]) -> Result[T, GrammarError]:
    try:
        return Ok(call())
    except BaseException as exc:  # also a SystemExit: this is not the main thread
        logger.exception("the page failed")
        return Err(internal_error(exc))


def _settle(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
