"""What compiles came to, kept for those who ask again."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from cachetools import LRUCache

from structout.errors import GrammarError
from structout.result import Err, Ok, Result

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

ERRORS_SHARE: Final = 16
"""Errors may take one in `ERRORS_SHARE` bytes."""
_ERROR_BYTES: Final = 1024
"""What an error takes beside its texts."""


class ResultCache(Generic[K, V]):
    """The most recently used values, and as many errors apart from them: who sends only what is refused evicts nobody
    else's grammars. Not safe to use from several threads.

    Args:
        entries: how many of each are kept; with 0 nothing is.
        max_bytes: what all of it together may take; a value that takes more by itself is not kept.
        size_of: bytes that a value takes, above 0.
    """

    def __init__(self, entries: int, max_bytes: int, size_of: Callable[[V], int]) -> None:
        self._entries = entries
        for_errors = max_bytes // ERRORS_SHARE
        self._values: LRUCache[K, Ok[V]] = LRUCache(max_bytes - for_errors, lambda kept: size_of(kept.value))
        self._errors: LRUCache[K, Err[GrammarError]] = LRUCache(for_errors, lambda kept: _error_bytes(kept.error))

    def __len__(self) -> int:
        """How many results are kept."""
        return len(self._values) + len(self._errors)

    @property
    def size_bytes(self) -> int:
        """What they take."""
        return int(self._values.currsize + self._errors.currsize)

    def get(self, key: K) -> Result[V, GrammarError] | None:
        """What was kept under ``key``; None if nothing is."""
        value = self._values.get(key)
        return self._errors.get(key) if value is None else value

    def put(self, key: K, result: Result[V, GrammarError]) -> None:
        """Keeps a value, or an error that is a verdict on the spec; other errors may be gone the next time."""
        match result:
            case Ok():
                self._keep(self._values, key, result)
            case Err(error) if error.consequence.cacheable:
                self._keep(self._errors, key, result)

    def _keep(self, kept: "LRUCache[K, R]", key: K, result: "R") -> None:
        if kept.getsizeof(result) > kept.maxsize:
            return
        kept[key] = result
        while len(kept) > self._entries:
            kept.popitem()


R = TypeVar("R")


def _error_bytes(error: GrammarError) -> int:
    texts = (error.message, error.pointer, error.keyword, error.hint, error.detail)
    return _ERROR_BYTES + sum(len(text) for text in texts if text)
