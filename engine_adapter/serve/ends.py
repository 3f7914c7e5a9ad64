"""How requests have ended: counts, and the last failures with their causes. For people who look after a server."""

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

import attrs

from engine_adapter.outcome import Aborted, Failed, Finished, Terminal
from structout.errors import ErrorKind, GrammarError
from structout.observability.sources import outcome_of

KEPT: Final = 50
"""How many failures are remembered."""

LONGEST: Final = 500
"""Most characters of a text in one of them: clients choose ids, and pointers are made of what they sent."""


@attrs.frozen(kw_only=True)
class Failure:
    """A request that failed.

    Attributes:
        request_id: its id.
        at: when it ended, in seconds since the epoch.
        error: why, without what is for the operator's log only.
    """

    request_id: str
    at: float
    error: GrammarError


class Ends:
    """Remembers a bounded number of ends. Safe to use from any thread; adding one costs next to nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._finished = self._aborted = self._failed = 0
        self._outcomes: Counter[str] = Counter()
        self._failures: deque[Failure] = deque(maxlen=KEPT)

    def add(self, request_id: str, end: Terminal) -> None:
        with self._lock:
            match end:
                case Finished():
                    self._finished += 1
                    self._outcomes[outcome_of(None)] += 1
                case Aborted():
                    self._aborted += 1
                    self._outcomes[ErrorKind.CANCELLED] += 1
                case Failed(error):
                    self._failed += 1
                    self._outcomes[outcome_of(error)] += 1
                    self._failures.append(_failure(request_id, error))

    def correct(self, request_id: str, error: GrammarError) -> None:
        """One that was added as `Finished` has failed after all: what it said could not be told."""
        with self._lock:
            self._finished -= 1
            self._outcomes[outcome_of(None)] -= 1
        self.add(request_id, Failed(error))

    def counts(self) -> dict[str, int]:
        """How many have ``finished``, were ``aborted`` and have ``failed`` so far."""
        with self._lock:
            return {"finished": self._finished, "aborted": self._aborted, "failed": self._failed}

    def outcomes(self) -> Mapping[str, int]:
        """How many have ended so far by outcome: ``ok``, or the kind of the error; an abort is ``cancelled``."""
        with self._lock:
            return dict(self._outcomes)

    def failures(self) -> list[Failure]:
        """The last ones, latest first."""
        with self._lock:
            return list(reversed(self._failures))


def _failure(request_id: str, error: GrammarError) -> Failure:
    short = attrs.evolve(
        error,
        message=_shortened(error.message),
        pointer=None if error.pointer is None else _shortened(error.pointer),
        keyword=None if error.keyword is None else _shortened(error.keyword),
        hint=None if error.hint is None else _shortened(error.hint),
        detail=None,
    )
    return Failure(request_id=_shortened(request_id), at=time.time(), error=short)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
