"""A request to stop, that whoever works on something hears at once."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class Stop:
    """Set once, by any thread. Costs no file descriptor; nobody polls it.

    Who can be stopped says how with `calling`; `set` then does it, on its own thread.
    """

    def __init__(self) -> None:
        # Held while the calls are made: once `calling` is left, its callback does not run any more, nor later.
        self._lock = threading.Lock()
        self._is_set = False
        self._callbacks: dict[object, Callable[[], object]] = {}

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Makes every registered call. Nothing happens the second time."""
        with self._lock:
            self._is_set = True
            callbacks, self._callbacks = self._callbacks, {}
            for callback in callbacks.values():
                callback()

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """While the block runs, `set` calls ``callback``: at once if it is set already.

        The callback must be quick, must not raise and must not use this object.
        """
        ticket = object()
        with self._lock:
            if self._is_set:
                callback()
            else:
                self._callbacks[ticket] = callback
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.pop(ticket, None)
