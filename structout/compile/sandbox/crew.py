"""A fixed number of workers, each replaced when it dies, lent to one job at a time."""

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from structout.compile.failures import CANCELLED, SHUT_DOWN
from structout.errors import GrammarError
from structout.processes import LineProcess, Stop
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
"""How long to wait after a start that failed; twice as long after each that follows."""


class Crew:
    """Keeps workers alive. Safe to use from any thread.

    Every place has a thread that starts a worker, waits for its end and starts the next. The thread lives as long as
    the crew: workers die with the thread that started them.

    Args:
        start: starts a worker and returns it when it is ready; gives up when the `Stop` is set. Must not raise.
        workers: how many there are; at least 1.
    """

    def __init__(self, start: Callable[[Stop], Result[LineProcess, GrammarError]], workers: int) -> None:
        if workers < 1:
            raise ValueError(f"there is at least one worker, not {workers}")
        self._start = start
        self._closing = Stop()
        self._changed = threading.Condition()
        self._alive: set[LineProcess] = set()
        self._idle: list[LineProcess] = []
        self._line: deque[object] = deque()
        self._failures: dict[int, GrammarError] = {}
        self._lost = 0
        self._threads = [
            threading.Thread(target=self._keep, args=(place,), name=f"structout-sandbox-{place}", daemon=True)
            for place in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def lost(self) -> int:
        """How many workers have ended, whatever ended them."""
        return self._lost

    @property
    def waiting(self) -> int:
        """How many wait for a worker."""
        return len(self._line)

    def pids(self) -> tuple[int, ...]:
        """Of the workers that are ready or at work."""
        with self._changed:
            return tuple(process.pid for process in self._alive)

    def wait_until_full(self, timeout_s: float) -> bool:
        """Blocks until all workers are alive, at most ``timeout_s`` seconds; whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._alive) == len(self._threads), timeout_s)

    def take(self, stop: Stop) -> Result[LineProcess, GrammarError]:
        """A worker that is ready, in order of arrival. Waits for one as long as one may come and ``stop`` is not set.

        If no place can start its worker, the result is why not.
        """
        ticket = object()
        with stop.calling(self._wake), self._changed:
            self._line.append(ticket)
            try:
                while (found := self._found(ticket, stop)) is None:
                    self._changed.wait()
                return found
            finally:
                self._line.remove(ticket)
                self._changed.notify_all()

    def _found(self, ticket: object, stop: Stop) -> Result[LineProcess, GrammarError] | None:
        if stop.is_set:
            return Err(CANCELLED)
        if self._closing.is_set:
            return Err(SHUT_DOWN)
        while self._idle and self._line[0] is ticket:
            # One that has died, or said what nobody asked, is left to the thread of its place.
            if (process := self._idle.pop()).is_quiet():
                return Ok(process)
            process.kill()
        if len(self._failures) == len(self._threads):
            return Err(next(iter(self._failures.values())))
        return None

    def give_back(self, process: LineProcess) -> None:
        """Returns a worker that has answered and may be used again."""
        with self._changed:
            if process in self._alive:
                self._idle.append(process)
                self._changed.notify_all()

    def close(self) -> None:
        """Kills all workers and waits for their end. Whoever waits for one is told that this was shut down."""
        self._closing.set()
        self._wake()
        for thread in self._threads:
            thread.join()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _keep(self, place: int) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._closing.is_set:
            match self._start(self._closing):
                case Ok(process):
                    pause_s = FIRST_PAUSE_S
                    self._outlive(place, process)
                case Err(error):
                    self._fail(place, error, pause_s)
                    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _outlive(self, place: int, process: LineProcess) -> None:
        """Lends a worker out until it has ended."""
        with self._changed:
            self._failures.pop(place, None)
            self._alive.add(process)
            self._idle.append(process)
            self._changed.notify_all()
        with self._closing.calling(process.kill):
            process.wait()
        with self._changed:
            self._alive.discard(process)
            self._idle = [each for each in self._idle if each is not process]
            self._lost += 1
        process.close()

    def _fail(self, place: int, error: GrammarError, pause_s: float) -> None:
        """Tells everybody that a place has no worker, and waits before it tries again."""
        if not self._closing.is_set:
            logger.error("a sandbox worker cannot be started, next try in %g s: %s: %s", pause_s, error, error.detail)
        with self._changed:
            self._failures[place] = error
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closing.is_set, pause_s)
