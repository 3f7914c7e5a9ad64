"""One thread that calls back when deadlines pass."""

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Final

import attrs

logger = logging.getLogger(__name__)

# The platform refuses to wait for longer than some maximum; waiting again costs nothing.
_LONGEST_WAIT_S: Final = 3600.0
# Up to here cancelled deadlines are not worth a sweep.
_FEW: Final = 64


@attrs.define(eq=False)
class Deadline:
    """A call that is to come; it has no callback any more once it was made or taken back."""

    callback: Callable[[], object] | None


class Deadlines:
    """Calls callbacks at points of `time.monotonic`, on a daemon thread.

    A deadline that is taken back lets go of its callback at once, and of its place soon after.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._heap: list[tuple[float, int, Deadline]] = []
        self._cancelled = 0
        self._ticket = itertools.count()
        self._closed = False
        threading.Thread(target=self._run, name="structout-deadlines", daemon=True).start()

    def __len__(self) -> int:
        """How many places are taken."""
        return len(self._heap)

    def call_at(self, when: float, callback: Callable[[], object]) -> Deadline:
        """Calls ``callback`` once ``time.monotonic()`` has reached ``when``, which is finite. It must be quick; what
        it raises is logged."""
        deadline = Deadline(callback)
        with self._condition:
            if not self._closed:
                heapq.heappush(self._heap, (when, next(self._ticket), deadline))
                if self._heap[0][2] is deadline:
                    self._condition.notify()
        return deadline

    def cancel(self, deadline: Deadline) -> None:
        """Takes a deadline of this object back; nothing happens if it has passed."""
        with self._condition:
            if deadline.callback is None:
                return
            deadline.callback = None
            self._cancelled += 1
            if self._cancelled > max(_FEW, len(self._heap) // 2):
                self._heap = [entry for entry in self._heap if entry[2].callback is not None]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def close(self) -> None:
        """Ends the thread; callbacks that are not due yet are dropped."""
        with self._condition:
            self._closed = True
            self._heap.clear()
            self._condition.notify()

    def _run(self) -> None:
        while (callback := self._next_due()) is not None:
            try:
                callback()
            except BaseException:
                # This thread serves everybody else's deadlines too.
                logger.exception("what a deadline calls failed")

    def _next_due(self) -> Callable[[], object] | None:
        with self._condition:
            while not self._closed:
                wait_s = self._heap[0][0] - time.monotonic() if self._heap else _LONGEST_WAIT_S
                if wait_s > 0:
                    self._condition.wait(min(_LONGEST_WAIT_S, wait_s))
                elif (callback := self._pop()) is not None:
                    return callback
            return None

    def _pop(self) -> Callable[[], object] | None:
        deadline = heapq.heappop(self._heap)[2]
        callback, deadline.callback = deadline.callback, None
        if callback is None:
            self._cancelled -= 1
        return callback
