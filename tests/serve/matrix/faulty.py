"""A backend that does what the first option of a choice says, in this process and in the sandbox's: no torch here.

An option that begins with an exclamation mark is an order, ``!deed when whom number``; the others are the language. Of
an order with ``one`` only the first matcher that is started does it. What `tests.compile.hazards` does to a process is
ordered by its own names.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from structout import (
    BackendInfo,
    Choice,
    Err,
    ErrorKind,
    Finding,
    GrammarError,
    GrammarSpec,
    Ok,
    Result,
    Status,
    hookimpl,
)
from structout.backend import BitmaskRow, CompiledGrammar, Matcher
from structout.vocabulary import Vocabulary
from tests.compile.hazards import DEEDS, Hazards
from tests.fakes import TrieGrammar, TrieMatcher

TEXT: Final = "xyzxyzxyz"
"""The only text of the language; each letter is a token."""

SEEN: Final = "xyz"
"""What is said of it before something fails late."""

SECRET: Final = "secret internals"
"""In what is raised: nobody outside may see it."""


@attrs.define(eq=False)
class RejectingMatcher(TrieMatcher):
    """Takes back what it allowed at one place of the text."""

    place: bytes = b""

    def accept(self, token: int) -> Status:
        return Status.REJECTED if self.text == self.place else TrieMatcher.accept(self, token)


@attrs.define(eq=False)
class EmptyRowMatcher(TrieMatcher):
    """Allows nothing at one place of the text, and calls that a mask."""

    place: bytes = b""

    def fill(self, row: BitmaskRow) -> Status:
        if self.text != self.place:
            return TrieMatcher.fill(self, row)
        row[:] = 0
        return Status.OK


_LIARS: Final[dict[str, Callable[..., Matcher]]] = {"reject": RejectingMatcher, "empty": EmptyRowMatcher}


@attrs.define(eq=False)
class LyingGrammar:
    """Starts matchers that lie: all, or the first."""

    honest: TrieGrammar
    liar: Callable[..., Matcher]
    place: bytes
    only_first: bool
    started: int = 0
    unenforced: tuple[Finding, ...] = ()
    narrowed: tuple[Finding, ...] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        self.started += 1
        if self.only_first and self.started > 1:
            return self.honest.start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)
        return self.liar(self.honest.options, self.honest.vocabulary, frozenset(stop_token_ids), place=self.place)


@attrs.frozen(eq=False)
class Faulty:
    """The backend. Told to ``wait``, it waits for ``gate``."""

    vocabulary: Vocabulary
    gate: threading.Event

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        order, *texts = spec.options
        if order in DEEDS:
            return Hazards(self.vocabulary).compile(spec)
        honest = TrieGrammar(frozenset(text.encode() for text in texts), self.vocabulary)
        match order.removeprefix("!").split():
            case ["decline", *_]:
                return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="this choice is declined", detail=SECRET))
            case ["raise", *_]:
                raise RuntimeError(SECRET)
            case ["wait", *_]:
                self.gate.wait()
            case [deed, when, whom, _] if deed in _LIARS:
                place = SEEN.encode() if when == "late" else b""
                return Ok(LyingGrammar(honest, _LIARS[deed], place, only_first=whom == "one"))
        return Ok(honest)


@attrs.frozen(eq=False)
class FaultyPlugin:
    """Registers it, as the only backend."""

    gate: threading.Event = attrs.field(factory=threading.Event)

    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        return [BackendInfo(id="faulty", create=lambda words: Faulty(words, self.gate), spec_kinds={"choice"})]


PLUGIN: Final = f"{__name__}:FaultyPlugin"
