"""Backends bound to a vocabulary, each made once, by whoever needs it first."""

import threading
from collections import defaultdict

from structout.discovery import RegisteredBackend
from structout.errors import GrammarError
from structout.grammar import BoundBackend
from structout.result import Ok, Result
from structout.vocabulary import Vocabulary


class BoundBackends:
    """Safe to use from any thread. Making one backend, which may take long, keeps nobody from the others."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._bound: dict[str, BoundBackend] = {}
        self._making: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()

    def bind(self, registered: RegisteredBackend) -> Result[BoundBackend, GrammarError]:
        """The backend for this vocabulary, made once. A factory that failed is tried again by the next request."""
        backend = registered.info.id
        with self._lock:
            making = self._making[backend]
        with making:
            if bound := self._bound.get(backend):
                return Ok(bound)
            result = BoundBackend.create(registered.info, registered.distribution, self._vocabulary)
            if isinstance(result, Ok):
                self._bound[backend] = result.value
            return result
