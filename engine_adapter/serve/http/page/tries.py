"""Trying a constraint: from what was typed to a walk, and its steps. Every backend's code runs aside."""

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Final, TypeVar

import attrs

from engine_adapter.serve.http.page.aside import Aside
from engine_adapter.serve.http.page.sessions import Session, Sessions
from engine_adapter.serve.http.page.tokens import TokenTable
from engine_adapter.serve.http.page.typed import spec_of
from engine_adapter.serve.http.page.views import JsonObject, grammar_view, walk_view
from engine_adapter.serve.http.page.walk import Walk
from structout.compile import CompileService
from structout.errors import ErrorKind, GrammarError
from structout.grammar import Grammar
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec, Policy

T = TypeVar("T")

TENANT: Final = "the page"
"""Who asks the compile service: it lets no tenant fill its lanes."""

DEADLINE_S: Final = 10.0
"""How long a constraint may take to compile, in seconds."""

_IN_USE: Final = GrammarError(
    kind=ErrorKind.OVERLOADED, message="the last step of this try is still under way", hint="look again later"
)


@attrs.frozen(kw_only=True)
class Wish:
    """What somebody wants to try: the text of a kind of constraint, the backend that has to take it or None, and how
    exactly."""

    kind: str
    text: str
    backend: str | None
    policy: Policy


@attrs.define(eq=False)
class Tries:
    """All tries of one server. Its methods are called in the event loop; none raises for what a backend does.

    Attributes:
        service: makes the grammars.
        sessions: the walks under way.
        aside: where backends run.
    """

    service: CompileService
    sessions: Sessions = attrs.field(factory=Sessions)
    aside: Aside = attrs.field(factory=Aside)

    @cached_property
    def table(self) -> TokenTable:
        return TokenTable(self.service.vocabulary)

    async def begin(self, wish: Wish) -> Result[JsonObject, GrammarError]:
        """A new try: its ``id``, its ``grammar``, and the ``walk`` before the first token."""
        match await self._aside(lambda: spec_of(wish.kind, wish.text, wish.policy)):
            case Err() as failed:
                return failed
            case Ok(spec):
                pass
        match await compiled(self.service, spec, wish.backend):
            case Err() as failed:
                return failed
            case Ok(grammar):
                return await self._begin(grammar)
        raise AssertionError("a result is Ok or Err")

    async def _begin(self, grammar: Grammar) -> Result[JsonObject, GrammarError]:
        def first() -> Result[tuple[Walk, JsonObject], GrammarError]:
            begun = Walk.begin(grammar, self.table)
            return begun.map(lambda walk: (walk, walk_view(walk, self.table, "")))

        begun = await self._aside(first)
        return begun.map(
            lambda of: {"id": self.sessions.add(of[0]), "grammar": grammar_view(grammar), "walk": of[1]},
        )

    async def look(self, session_id: str, search: str) -> Result[JsonObject, GrammarError]:
        """The walk as it stands, with the tokens that have ``search`` in them."""
        return await self._step(session_id, lambda walk: Ok({}), search)

    async def take(self, session_id: str, token: int) -> Result[JsonObject, GrammarError]:
        """The walk a token further on."""
        return await self._step(session_id, lambda walk: walk.take(token).map(lambda _: {}))

    async def take_text(self, session_id: str, text: str) -> Result[JsonObject, GrammarError]:
        """The walk further on by what may follow of the text; ``taken`` is how many characters that was."""
        return await self._step(session_id, lambda walk: walk.take_text(text).map(lambda taken: {"taken": taken}))

    async def back(self, session_id: str) -> Result[JsonObject, GrammarError]:
        """The walk without its last step."""
        return await self._step(session_id, lambda walk: walk.back().map(lambda _: {}))

    async def end(self, session_id: str) -> Result[JsonObject, GrammarError]:
        """Forgets a try, if there is one."""
        self.sessions.drop(session_id)
        return Ok({})

    async def _step(
        self, session_id: str, move: Callable[[Walk], Result[JsonObject, GrammarError]], search: str = ""
    ) -> Result[JsonObject, GrammarError]:
        """What ``move`` says, and the ``walk`` after it."""
        match self.sessions.find(session_id):
            case Err() as failed:
                return failed
            case Ok(session) if not session.lock.acquire(blocking=False):
                return Err(_IN_USE)
            case Ok(session):
                return await self._move(session, move, search)
        raise AssertionError("a result is Ok or Err")

    async def _move(
        self, session: Session, move: Callable[[Walk], Result[JsonObject, GrammarError]], search: str
    ) -> Result[JsonObject, GrammarError]:
        def moved() -> Result[JsonObject, GrammarError]:
            return move(session.walk).map(lambda said: {**said, "walk": walk_view(session.walk, self.table, search)})

        return await self._aside(moved, session.lock.release)

    async def _aside(
        self, call: Callable[[], Result[T, GrammarError]], done: Callable[[], None] = lambda: None
    ) -> Result[T, GrammarError]:
        return (await self.aside.run(call, done)).and_then(lambda result: result)


async def compiled(service: CompileService, spec: GrammarSpec, backend: str | None) -> Result[Grammar, GrammarError]:
    """The grammar of a spec. Cancelled, nobody compiles it any more unless another waits for it too."""
    loop, is_done = asyncio.get_running_loop(), asyncio.Event()
    pending = service.submit(spec, backend=backend, deadline_s=DEADLINE_S, tenant=TENANT)

    def settled() -> None:
        loop.call_soon_threadsafe(is_done.set)

    pending.add_done_callback(settled)
    try:
        await is_done.wait()
    finally:
        pending.cancel()
    result = pending.result()
    assert result is not None, "it is done"
    return result
