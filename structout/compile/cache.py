"""What compiles came to, kept for those who ask again."""

from typing import Generic, TypeVar

from cachetools import LRUCache

from structout.errors import GrammarError
from structout.result import Err, Ok, Result

K = TypeVar("K")
V = TypeVar("V")


class ResultCache(Generic[K, V]):
    """The most recently used values, and as many errors apart from them: who sends only what is refused evicts nobody
    else's grammars. Not safe to use from several threads.

    Args:
        entries: how many of each are kept; with 0 nothing is.
    """

    def __init__(self, entries: int) -> None:
        self._values: LRUCache[K, Ok[V]] = LRUCache(entries)
        self._errors: LRUCache[K, Err[GrammarError]] = LRUCache(entries)

    def get(self, key: K) -> Result[V, GrammarError] | None:
        """What was kept under ``key``; None if nothing is."""
        value = self._values.get(key)
        return self._errors.get(key) if value is None else value

    def put(self, key: K, result: Result[V, GrammarError]) -> None:
        """Keeps a value, or an error that is a verdict on the spec; other errors may be gone the next time."""
        if self._values.maxsize < 1:
            return
        match result:
            case Ok():
                self._values[key] = result
            case Err(error) if error.consequence.cacheable:
                self._errors[key] = result
