"""What compiles came to, kept for those who ask again."""

from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

import attrs
from cachetools import LRUCache

from structout.errors import GrammarError
from structout.result import Err, Ok, Result

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
R = TypeVar("R")

ERRORS_SHARE: Final = 16
"""Errors may take one in `ERRORS_SHARE` bytes."""
_ERROR_BYTES: Final = 1024
"""What an error takes beside its texts."""


@attrs.frozen
class Weighed(Generic[R]):
    """What is kept, and the bytes that it takes."""

    kept: R
    size: int


def _size(weighed: Weighed[Any]) -> int:
    return weighed.size


class ResultCache(Generic[K, V]):
    """The most recently used values, and as many errors apart from them: who sends only what is refused evicts nobody
    else's grammars. Not safe to use from several threads.

    Args:
        entries: how many of each are kept; with 0 nothing is.
        max_bytes: what all of it together may take; a value that takes more by itself is not kept.
    """

    def __init__(self, entries: int, max_bytes: int) -> None:
        self._entries = entries
        for_errors = max_bytes // ERRORS_SHARE
        self._values: LRUCache[K, Weighed[Ok[V]]] = LRUCache(max_bytes - for_errors, _size)
        self._errors: LRUCache[K, Weighed[Err[GrammarError]]] = LRUCache(for_errors, _size)

    def __len__(self) -> int:
        """How many results are kept."""
        return len(self._values) + len(self._errors)

    @property
    def size_bytes(self) -> int:
        """What they take."""
        return int(self._values.currsize + self._errors.currsize)

    def get(self, key: K) -> Result[V, GrammarError] | None:
        """What was kept under ``key``; None if nothing is."""
        if (value := self._values.get(key)) is not None:
            return value.kept
        error = self._errors.get(key)
        return None if error is None else error.kept

    def put(self, key: K, result: Result[V, GrammarError], size: int) -> None:
        """Keeps a value, or an error that is a verdict on the spec; other errors may be gone the next time.

        Args:
            key: what to find it by.
            result: what to keep.
            size: bytes that the value takes, above 0.
        """
        match result:
            case Ok():
                self._keep(self._values, key, Weighed(result, size))
            case Err(error) if error.consequence.cacheable:
                self._keep(self._errors, key, Weighed(result, _error_bytes(error)))

    def _keep(self, kept: LRUCache[K, Weighed[R]], key: K, result: Weighed[R]) -> None:
        if result.size > kept.maxsize:
            return
        kept[key] = result
        while len(kept) > self._entries:
            kept.popitem()


def _error_bytes(error: GrammarError) -> int:
    texts = (error.message, error.pointer, error.keyword, error.hint, error.detail)
    return _ERROR_BYTES + sum(len(text) for text in texts if text)
