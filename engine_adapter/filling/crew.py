"""Threads that may get stuck in native code, and then are replaced."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

logger = logging.getLogger(__name__)

Task: TypeAlias = Callable[[], None]


class Crew:
    """Runs tasks on daemon threads: on an idle one if there is one, else on a new one, up to a bound.

    Daemons, because a native call that never returns must not keep the process from exiting.

    Args:
        name: of the threads.
        limit: most threads; None for no bound.
    """

    def __init__(self, name: str, limit: int | None = None) -> None:
        self._name = name
        self._limit = limit
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads = 0
        # One None for each thread without a task, less the tasks on their way to one: that needs no lock.
        self._idle: list[None] = []

    def submit(self, task: Task) -> bool:
        """Starts ``task`` at once on a thread of its own; False, and nothing is done, if all threads are busy."""
        try:
            self._idle.pop()
        except IndexError:
            if not self._has_started_one():
                return False
        self._tasks.put(task)
        return True

    def _has_started_one(self) -> bool:
        with self._lock:
            if self._limit is not None and self._threads >= self._limit:
                return False
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
            self._threads += 1
        return True

    def close(self) -> None:
        """Ends the threads, each once its task has returned. No task may be submitted any more."""
        for _ in range(self._threads):
            self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException:
                # Nothing that a task does may cost the crew a thread that it counts as its own.
                logger.exception("a task of %s failed", self._name)
            del task  # or an idle thread would keep a step's bitmask alive
            self._idle.append(None)
