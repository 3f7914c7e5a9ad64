"""Memory that costly specs have left behind goes back to the system."""

import threading
import time
from typing import Final

from structout.compile.deadlines import Deadlines
from structout.processes.usage import release_freed_memory

PAUSE_S: Final = 2.0
"""How long after a costly spec: by then what it has made is dropped, if it will be."""


class Releasing:
    """Has freed memory released some time after it is asked to, once however often it is asked meanwhile, and once more
    if that was shortly before. Safe to use from any thread.

    C's allocator keeps what was freed, for each thread that ever allocated: after a wave of large specs some tens of
    megabytes. Releasing takes milliseconds, in which allocations may wait.
    """

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._lock = threading.Lock()
        self._is_due = False
        self._asked_at = 0.0

    def soon(self) -> None:
        with self._lock:
            self._asked_at = time.monotonic()
            if self._is_due:
                return
            self._is_due = True
        self._release_later()

    def _release_later(self) -> None:
        self._deadlines.call_at(time.monotonic() + PAUSE_S, self._release)

    def _release(self) -> None:
        release_freed_memory()
        with self._lock:
            again = self._is_due = time.monotonic() - self._asked_at < PAUSE_S / 2
        if again:
            self._release_later()
