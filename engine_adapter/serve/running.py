"""The embedded engine on a thread of its own, for requests that come from event loops.

::

    event loop   outcomes() ──add──▶ ┌────────┐
                                     │ Engine │ ◀─step── step thread
    event loop   mailbox ◀─posted────└────────┘──report──┘

A request has a mailbox from `outcomes` until the engine has reported its end. Each step's events are sorted by the loop
that waits for them, and each loop is woken once a step. What a mailbox has seen decides, not the engine: after one end
it takes nothing more, so that a request ends once even where a closing engine and its last step both end it.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final, TypeAlias

import attrs

from engine_adapter.embedded.engine import Engine, Event
from engine_adapter.embedded.request import Request, Standing
from engine_adapter.outcome import Delta, Failed, Outcome, Terminal, internal_error
from engine_adapter.serve.ends import Ends
from structout.errors import ErrorKind, Fault, GrammarError
from structout.observability.logs import RequestLogger
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

LAST_STEPS_S: Final = 10.0
"""How long `RunningEngine.close` waits for the step that is under way and the one that reports the aborts, in
seconds."""

MAX_REQUESTS: Final = 1024
"""How many requests may be under way where nobody says; those that wait for a row of the engine included."""

SHUTTING_DOWN: Final = GrammarError(
    kind=ErrorKind.UNAVAILABLE,
    fault=Fault.SERVICE,
    message="the server is shutting down",
    hint="send the request to another server, or again later",
)


Judge: TypeAlias = Callable[[Terminal], Terminal]
"""What becomes of a request's end before anybody is told of it: a protocol's own rule for a success, and its own way of
saying where an error is. Called once, in the reader's event loop."""


def as_it_is(end: Terminal) -> Terminal:
    """The `Judge` that leaves all to the engine."""
    return end


@attrs.define(eq=False)
class _Mailbox:
    """Where one request's outcomes wait for their reader. ``queue`` and ``is_over`` belong to the loop's thread."""

    request_id: str
    loop: asyncio.AbstractEventLoop
    ends: Ends
    judged: Judge
    queue: asyncio.Queue[Outcome] = attrs.field(factory=asyncio.Queue)
    is_over: bool = False
    since: float = attrs.field(factory=time.monotonic)

    def put(self, outcome: Outcome) -> None:
        if self.is_over:
            return
        if not isinstance(outcome, Delta):
            self.is_over = True
            outcome = self.judge(outcome)
            self.ends.add(self.request_id, outcome)
        self.queue.put_nowait(outcome)

    def judge(self, end: Terminal) -> Terminal:
        """The end that the reader is told, whatever its rule does."""
        try:
            return self.judged(end)
        except Exception as exc:
            RequestLogger(logger, self.request_id).exception("a request's end could not be judged")
            return Failed(internal_error(exc))


_Post: TypeAlias = tuple[_Mailbox, Outcome]


@attrs.frozen(kw_only=True)
class UnderWay:
    """A request that has not ended.

    Attributes:
        request_id: its id.
        state: ``blocked`` (waits for its grammar), ``waiting`` (for a place), ``prefilling``, ``decoding`` or
            ``ended`` (and nobody was told yet).
        tokens: how many it has generated.
        seconds: since it came.
    """

    request_id: str
    state: str
    tokens: int
    seconds: float


class RunningEngine:
    """Steps an engine for as long as there is something to do, and tells each request's outcomes where it was asked.

    `outcomes` may be called in any event loop, and in several; `close` in any of them. If a step raises, which is a
    bug, the engine steps no more: all requests fail with ENGINE_FAILURE, later ones too, and `failure` says so.

    Args:
        engine: nobody else may add to it or step it. It belongs to the caller, who closes it after this.
        max_requests: how many requests may be under way; more are refused with OVERLOADED.

    Attributes:
        ends: how its requests have ended. Whoever refuses a request before it comes here may add that.
    """

    def __init__(self, engine: Engine, *, max_requests: int = MAX_REQUESTS) -> None:
        self._engine = engine
        self.ends = Ends()
        self._max_requests = max_requests
        self._lock = threading.Lock()
        self._mailboxes: dict[str, _Mailbox] = {}  # written under the lock, like the next two
        self._refusal: GrammarError | None = None
        self._failure: GrammarError | None = None
        # A daemon: a forward pass that never returns must not keep the process from exiting.
        self._thread = threading.Thread(target=self._run, name="structout-engine", daemon=True)

    def start(self) -> None:
        """Starts the step thread. Called once, from the event loop's thread or before it runs."""
        self._thread.start()

    @property
    def failure(self) -> GrammarError | None:
        """Why the engine steps no more; None while nothing is wrong with it."""
        return self._failure

    @property
    def unavailable(self) -> GrammarError | None:
        """Why a new request would be refused: the engine failed, or is being closed. None while it would be taken."""
        return self._failure or self._refusal

    def under_way(self) -> list[UnderWay]:
        """The requests that have not ended, oldest first, as they stood a moment ago. From any thread."""
        with self._lock:
            mailboxes = list(self._mailboxes.values())
        standings, now = self._engine.standings(), time.monotonic()
        found = [(each, standings.get(each.request_id, Standing())) for each in mailboxes]
        return [
            UnderWay(request_id=mailbox.request_id, state=each.state, tokens=each.tokens, seconds=now - mailbox.since)
            for mailbox, each in found
        ]

    async def outcomes(self, request: Request, *, judged: Judge = as_it_is) -> AsyncGenerator[Outcome, None]:
        """Runs a request: some `Delta`, then exactly one `Finished`, `Failed` or `Aborted`, as ``judged`` has it.

        A request that the engine refuses yields its `Failed` at once. Closing the iterator before its end, also by
        cancelling the task that reads it, aborts the request. The outcomes that nobody reads wait; there are at most as
        many as tokens.
        """
        mailbox = _Mailbox(request.id, asyncio.get_running_loop(), self.ends, judged)
        if isinstance(entered := self._enter(request, mailbox), Err):
            mailbox.put(Failed(entered.error))
        try:
            is_over = False
            while not is_over:
                outcome = await mailbox.queue.get()
                is_over = not isinstance(outcome, Delta)
                yield outcome
        finally:
            self._abort(mailbox)

    def abort(self, request_id: str) -> None:
        """Ends a request with `Aborted`, which its reader is told; nothing if there is none, or it has ended."""
        self._engine.abort(request_id)

    async def close(self, grace_s: float) -> None:
        """Takes no more requests, lets those under way finish for ``grace_s`` seconds, and ends the step thread.

        What is left after that time ends as `Failed`, like what is refused: UNAVAILABLE. May be called again.
        """
        with self._lock:
            self._refusal = SHUTTING_DOWN
        self._engine.wake()
        await self._ended_within(grace_s)
        self._fail_all(SHUTTING_DOWN)
        if not await self._ended_within(LAST_STEPS_S):
            logger.error("the engine's last step has not ended within %g s and is left behind", LAST_STEPS_S)

    async def _ended_within(self, seconds: float) -> bool:
        """Waits for the step thread, if there is one."""
        if self._thread.ident is not None:
            await asyncio.to_thread(self._thread.join, seconds)
        return not self._thread.is_alive()

    # ---- on the loops' threads ---------------------------------------------------------------------------------

    def _enter(self, request: Request, mailbox: _Mailbox) -> Result[None, GrammarError]:
        """Adds a request to the engine. Its mailbox is there first: the step thread may be quick."""
        with self._lock:
            if (reason := self.unavailable) is not None:
                return Err(reason)
            if request.id in self._mailboxes:
                message = "there is a request with this id already"
                return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword="id"))
            if len(self._mailboxes) >= self._max_requests:
                message = f"{self._max_requests} requests are under way, and no more are taken"
                return Err(GrammarError(kind=ErrorKind.OVERLOADED, message=message, hint="send it again later"))
            self._mailboxes[request.id] = mailbox
        is_added = False
        try:
            added = self._engine.add(request)
            is_added = isinstance(added, Ok)
            return added
        finally:
            if not is_added:
                self._forget([request.id])
                self._engine.wake()  # it may have been the last that a closing engine waits for

    def _abort(self, mailbox: _Mailbox) -> None:
        """Aborts a request unless the engine has ended it; its id may be another's then."""
        with self._lock:
            if self._mailboxes.get(mailbox.request_id) is mailbox:
                self._engine.abort(mailbox.request_id)

    # ---- on the step thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_done():
                if self._engine.wait_for_work():
                    self._tell(self._engine.step().events)
        except BaseException as exc:
            logger.exception("the engine has failed and steps no more")
            with self._lock:
                self._failure = internal_error(exc)
            self._fail_all(self._failure)
            self._forget(list(self._mailboxes))

    def _is_done(self) -> bool:
        return self._refusal is not None and not self._mailboxes

    def _tell(self, events: Iterable[Event]) -> None:
        """Hands a step's events to those who wait for them. A request that has ended is forgotten before it hears it,
        so that its id is free once it does."""
        posts = [(self._mailboxes[event.request_id], event.outcome) for event in events]
        self._forget(event.request_id for event in events if not isinstance(event.outcome, Delta))
        self._post(posts)

    def _forget(self, request_ids: Iterable[str]) -> None:
        with self._lock:
            for request_id in request_ids:
                self._mailboxes.pop(request_id, None)

    # ---- on any thread -----------------------------------------------------------------------------------------

    def _fail_all(self, error: GrammarError) -> None:
        """Ends every request that is under way, for its reader at once and in the engine by its next step."""
        with self._lock:
            left = dict(self._mailboxes)
            for request_id in left:
                self._engine.abort(request_id)
                RequestLogger(logger, request_id).warning("ended by the server: %s", error.message)
        self._post([(mailbox, Failed(error)) for mailbox in left.values()])

    def _post(self, posts: Iterable[_Post]) -> None:
        """Wakes each loop once. Where a loop was closed, nobody waits any more."""
        by_loop: dict[asyncio.AbstractEventLoop, list[_Post]] = {}
        for mailbox, outcome in posts:
            by_loop.setdefault(mailbox.loop, []).append((mailbox, outcome))
        for loop, its_posts in by_loop.items():
            try:
                loop.call_soon_threadsafe(_put, its_posts)
            except RuntimeError:
                logger.warning("an event loop was closed with requests under way")
                for mailbox, _ in its_posts:
                    self._abort(mailbox)


def _put(posts: Iterable[_Post]) -> None:
    for mailbox, outcome in posts:
        mailbox.put(outcome)
