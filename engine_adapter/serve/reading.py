"""Reading what clients have sent, on threads beside the event loop, where small requests never wait for large ones."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from engine_adapter.outcome import internal_error
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Result

T = TypeVar("T")

SMALL_BYTES: Final = 64 * 2**10
"""Most bytes of a request that is read beside several others. Larger ones are read one at a time: each keeps the
interpreter from others for a second or so, the step of the engine among them."""

THREADS: Final = 4
"""How many small requests are read at the same time."""

MAX_LARGE: Final = 64
"""How many large requests may wait to be read, or may come in over a network, at the same time."""

TOO_MANY_LARGE: Final = GrammarError(
    kind=ErrorKind.OVERLOADED, message=f"{MAX_LARGE} large requests are being read", hint="send it again later"
)


class Reading:
    """Belongs to one event loop. Its threads end when it is gone."""

    def __init__(self) -> None:
        self._small = ThreadPoolExecutor(THREADS, "structout-read")
        self._large = ThreadPoolExecutor(1, "structout-read-large")
        self._larges = 0

    async def run(self, size: int, read: Callable[[], Result[T, GrammarError]]) -> Result[T, GrammarError]:
        """What ``read`` makes of a request of ``size`` bytes; ENGINE_FAILURE if it raises, which is a bug.

        Cancelled, it is not begun any more. Large ones are OVERLOADED where too many wait.
        """
        if size <= SMALL_BYTES:
            return await _run(self._small, read)
        if self._larges >= MAX_LARGE:
            return Err(TOO_MANY_LARGE)
        self._larges += 1
        try:
            return await _run(self._large, read)
        finally:
            self._larges -= 1


async def _run(pool: ThreadPoolExecutor, read: Callable[[], Result[T, GrammarError]]) -> Result[T, GrammarError]:
    def contained() -> Result[T, GrammarError]:
        try:
            return read()
        except BaseException as exc:  # a panic in Rust is no `Exception`; this is not the main thread
            return Err(internal_error(exc))

    return await asyncio.get_running_loop().run_in_executor(pool, contained)
