"""A result that is still to come, settled once, by whoever is first."""

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from structout.compile.failures import CANCELLED
from structout.errors import GrammarError
from structout.result import Err, Result

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Pending(Generic[T]):
    """A future of a `Result`, safe to use from any thread. No method raises because of what the result is.

    It has one field for its one state: the result, None while there is none. Deadline, cancellation and completion
    race for it; the first settles it and the others come to nothing.
    """

    __slots__ = ("_callbacks", "_condition", "_result")

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._result: Result[T, GrammarError] | None = None
        self._callbacks: list[Callable[[], None]] = []

    def result(self) -> Result[T, GrammarError] | None:
        """The result; None while it is pending."""
        return self._result

    def wait(self, timeout_s: float | None = None) -> Result[T, GrammarError] | None:
        """Blocks until there is a result, at most ``timeout_s`` seconds; None if there is none by then."""
        with self._condition:
            self._condition.wait_for(lambda: self._result is not None, timeout_s)
            return self._result

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once there is a result: at once if there is one, else on the thread that settles it.

        What it raises is logged and reaches nobody.
        """
        with self._condition:
            if self._result is None:
                self._callbacks.append(callback)
                return
        _call(callback)

    def settle(self, result: Result[T, GrammarError]) -> bool:
        """Sets the result if there is none yet. Returns whether this call did."""
        with self._condition:
            if self._result is not None:
                return False
            self._result = result
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            _call(callback)
        return True

    def cancel(self) -> None:
        """Gives it up: the result becomes ``Err(CANCELLED)`` unless there is one already."""
        self.settle(Err(CANCELLED))


def _call(callback: Callable[[], None]) -> None:
    try:
        callback()
    except BaseException:
        # Also SystemExit: other callbacks are waiting, and so is the thread that settles.
        logger.exception("a done callback failed")
