"""The walks that are under way, by an id that only who began one knows."""

import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

import attrs
from cachetools import TTLCache

from engine_adapter.serve.http.page.walk import Walk
from structout.errors import ErrorKind, Fault, GrammarError
from structout.result import Err, Ok, Result

MAX_SESSIONS: Final = 32
"""How many walks there may be; the one that was left alone for longest makes room for another."""

IDLE_S: Final = 900.0
"""For how long a walk may be left alone, in seconds."""

_GONE: Final = GrammarError(
    kind=ErrorKind.UNAVAILABLE,
    fault=Fault.CALLER,
    message="this try is over: there were too many others, or it was left alone for too long",
    hint="begin it again",
)


@attrs.frozen(eq=False)
class Session:
    """A walk, and who works on it.

    Attributes:
        walk: only who holds ``lock`` touches it.
        lock: held by the call that is under way; may be given back by another thread than took it.
    """

    walk: Walk
    lock: threading.Lock = attrs.field(factory=threading.Lock)


class Sessions:
    """Bounded in number and in age. Belongs to the event loop's thread."""

    def __init__(
        self, *, limit: int = MAX_SESSIONS, idle_s: float = IDLE_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions: TTLCache[str, Session] = TTLCache(limit, idle_s, clock)

    def __len__(self) -> int:
        return len(self._sessions)

    def add(self, walk: Walk) -> str:
        """Keeps a walk; returns its id."""
        session_id = secrets.token_urlsafe(16)
        self._sessions[session_id] = Session(walk)
        return session_id

    def find(self, session_id: str) -> Result[Session, GrammarError]:
        """A session, which is young again."""
        if (session := self._sessions.pop(session_id, None)) is None:
            return Err(_GONE)
        self._sessions[session_id] = session
        return Ok(session)

    def drop(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
