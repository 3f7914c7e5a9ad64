"""A good backend for choices with every optional ability, and ones that differ from it by a line each.

They run in the process of the tests; what harms its process is in `tests.fuzz.hazards`.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from structout import BackendInfo, Choice, Err, ErrorKind, GrammarError, Ok, Result, Status
from structout.backend import Backend, Bitmask, BitmaskRow, CompiledGrammar, Matcher
from structout.fuzz.case import Case, Text
from structout.fuzz.vocabulary import small_vocabulary
from structout.grammar import BoundBackend
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary
from tests.fakes import ForcingTrieMatcher, TrieGrammar

MEMBERS = ("abc", "abd", "a", "yes", "漢字")
CASE = Case(
    Choice(MEMBERS),
    members=tuple(Text(member, "plain") for member in MEMBERS),
    strangers=(Text("ab", "syntax"), Text("no", "syntax"), Text("abcd", "syntax")),
)


def allow(row: BitmaskRow, token: int) -> None:
    row.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))


class GoodMatcher(ForcingTrieMatcher):
    """Can do all that a matcher may."""

    def fork(self) -> Matcher:
        return attrs.evolve(self, undo=list(self.undo))


class GoodBackend:
    """Compiles choices."""

    matcher: ClassVar[Callable[..., Matcher]] = GoodMatcher

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        return Ok(self.grammar([option.encode() for option in self.options(spec)]))

    def options(self, spec: GrammarSpec) -> Sequence[str]:
        assert isinstance(spec, Choice)
        return spec.options

    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        return TrieGrammar(frozenset(options), self.vocabulary, type(self).matcher)

    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [matcher.fill(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]


def bound(backend: Callable[[Vocabulary], Backend] = GoodBackend, **info: Any) -> BoundBackend:
    description = BackendInfo(id="trie", create=backend, spec_kinds={"choice"}, **info)
    return BoundBackend.create(description, None, small_vocabulary()).unwrap()


def with_matcher(matcher: type[Matcher]) -> BoundBackend:
    """The good backend with another matcher."""
    return bound(type("Backend", (GoodBackend,), {"matcher": matcher}))


# What a fill writes and returns.


class SetsPadding(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        allow(row, len(row) * 32 - 1)
        return status


class AllowsControl(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        allow(row, {name: token for token, name in self.vocabulary.names}["<|start|>"])
        return status


class LeavesAWord(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        first = row[0]
        status = super().fill(row)
        row[0] = first
        return status


class OrsIntoTheRow(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        before = row.copy()
        status = super().fill(row)
        row |= before & 0x0F
        return status


class WritesBesideTheRow(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        if isinstance(row.base, np.ndarray):
            row.base[-1] = 0
        return super().fill(row)


class FillMovesOn(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        self.accept(ord("b"))
        return status


class FillRaises(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        raise BaseException("a panic")


class FillReturnsANumber(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        return int(super().fill(row))  # type: ignore[return-value]


class FillIsLate(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        return Status.LATE


class FillFindsADeadEnd(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        return Status.DEAD_END


class AcceptIsOutOfMemory(GoodMatcher):
    def accept(self, token: int) -> Status:
        raise MemoryError


class AcceptReturnsFree(GoodMatcher):
    def accept(self, token: int) -> Status:
        return Status.FREE


class AcceptingIsANumber(GoodMatcher):
    @property
    def is_accepting(self) -> bool:
        return 1  # type: ignore[return-value]


# The language.


class LosesAnOption(GoodBackend):
    def options(self, spec: GrammarSpec) -> Sequence[str]:
        return super().options(spec)[1:]


class AddsAnOption(GoodBackend):
    def options(self, spec: GrammarSpec) -> Sequence[str]:
        return (*super().options(spec), "no")


class CallsBeginningsComplete(GoodBackend):
    def options(self, spec: GrammarSpec) -> Sequence[str]:
        return [option[:length] for option in super().options(spec) for length in (2, len(option))]


# Moves.


class AcceptsTwoLetters(GoodMatcher):
    def accept(self, token: int) -> Status:
        if token == ord("z") and self.text == b"":
            return super().accept(ord("a"))
        return super().accept(token)


class RefusesMergedTokens(GoodMatcher):
    def _allowed(self) -> frozenset[int]:
        pieces = self.vocabulary.token
        return frozenset(token for token in super()._allowed() if token in self.stops or len(pieces(token)) == 1)


class ForgetsAToken(GoodMatcher):
    def rollback(self, tokens: int) -> Status:
        return super().rollback(tokens - 1) if tokens > 2 else super().rollback(tokens)


class CannotUndoTheEnd(GoodMatcher):
    def rollback(self, tokens: int) -> Status:
        ended = self.ended
        status = super().rollback(tokens)
        self.ended = self.ended or (ended and tokens == 1)
        return status


class RollbackIsRefused(GoodMatcher):
    def rollback(self, tokens: int) -> Status:
        return Status.REJECTED


class ForkIsItself(GoodMatcher):
    def fork(self) -> Matcher:
        return self


class ForksShareTheirPast(GoodMatcher):
    def fork(self) -> Matcher:
        return attrs.evolve(self)


class ForkStartsAnew(GoodMatcher):
    def fork(self) -> Matcher:
        return attrs.evolve(self, text=b"", undo=[])


class ForkIsNoMatcher(GoodMatcher):
    def fork(self) -> Matcher:
        return "a copy"  # type: ignore[return-value]


class RefusedTokenResets(GoodMatcher):
    def accept(self, token: int) -> Status:
        status = super().accept(token)
        if status is Status.REJECTED:
            self.text = self.text[:-1]
        return status


class DependsOnOthers(GoodMatcher):
    """Where another sequence of the process moved last, it starts where that one is."""

    last: ClassVar[bytes] = b""

    def accept(self, token: int) -> Status:
        status = super().accept(token)
        DependsOnOthers.last = self.text
        return status

    def _allowed(self) -> frozenset[int]:
        allowed = super()._allowed()
        return allowed - {ord("a")} if self.text == b"" and DependsOnOthers.last else allowed


class IgnoresLargeIds(GoodMatcher):
    def _allowed(self) -> frozenset[int]:
        return frozenset(token for token in super()._allowed() if token < 1 << 16 or token in self.stops)


class IgnoresDuplicates(GoodMatcher):
    def _allowed(self) -> frozenset[int]:
        pieces = self.vocabulary.tokens()
        allowed = super()._allowed()
        return frozenset(token for token in allowed if token in self.stops or pieces.index(pieces[token]) == token)


class LargeIdsAreOutOfTheRow(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        row[1 << 11 :] = 0
        return status


# The end.


class StopsAnywhere(GoodMatcher):
    def _allowed(self) -> frozenset[int]:
        return super()._allowed() | self.stops


class StopsLate(GoodMatcher):
    def _allowed(self) -> frozenset[int]:
        allowed = super()._allowed()
        return allowed - self.stops or allowed


class AcceptsAfterTheEnd(GoodMatcher):
    def accept(self, token: int) -> Status:
        return Status.OK if self.ended else super().accept(token)


class FillsAfterTheEnd(GoodMatcher):
    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        row[:] = 0 if self.ended else row
        return Status.OK if self.ended else status


class IncompleteAfterTheEnd(GoodMatcher):
    @property
    def is_accepting(self) -> bool:
        return not self.ended and super().is_accepting


class DeadEnd(GoodMatcher):
    def _allowed(self) -> frozenset[int]:
        return frozenset() if self.text == b"ab" else super()._allowed()


class ForcesTheFirst(GoodMatcher):
    def forced_text(self, limit: int) -> bytes:
        return min(self._rest(), default=b"")


class ForcesNothingToSpeakOf(GoodMatcher):
    def forced_text(self, limit: int) -> bytes:
        return None  # type: ignore[return-value]


# Compiling, batches, memory.


class CompilesByTurns(GoodBackend):
    compiles: ClassVar[int] = 0

    def options(self, spec: GrammarSpec) -> Sequence[str]:
        CompilesByTurns.compiles += 1
        return super().options(spec)[CompilesByTurns.compiles % 2 :]


class RefusesTheSecondTime(GoodBackend):
    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.is_used = False

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        if self.is_used:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="Not again.", hint="ask before"))
        self.is_used = True
        return super().compile(spec)


class CachesByLength(GoodBackend):
    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.cache: dict[tuple[int, ...], Sequence[str]] = {}

    def options(self, spec: GrammarSpec) -> Sequence[str]:
        options = super().options(spec)
        return self.cache.setdefault(tuple(map(len, options)), options)


class Races(GoodBackend):
    current: Sequence[str] = ()

    def options(self, spec: GrammarSpec) -> Sequence[str]:
        self.current = super().options(spec)
        time.sleep(0.002)
        return self.current


class SwapsRows(GoodBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return super().fill_batch(matchers, bitmask, rows[::-1])


class IgnoresTheRows(GoodBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return super().fill_batch(matchers, bitmask, range(len(rows)))


class AlwaysOk(GoodBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        super().fill_batch(matchers, bitmask, rows)
        return [Status.OK] * len(rows)


class AnswersOnce(GoodBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return super().fill_batch(matchers, bitmask, rows)[:1]


class AnswersNothing(GoodBackend):
    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        super().fill_batch(matchers, bitmask, rows)
        return None  # type: ignore[return-value]


@attrs.frozen(eq=False)
class _SavedGrammar(TrieGrammar):
    def serialize(self) -> bytes:
        options = sorted(option.decode() for option in self.options)
        return json.dumps([self.vocabulary.fingerprint, *options]).encode()


class Saves(GoodBackend):
    """Good; its grammars can be saved and loaded."""

    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        return _SavedGrammar(frozenset(options), self.vocabulary, type(self).matcher)

    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        try:
            fingerprint, *options = json.loads(data)
        except ValueError:
            fingerprint, options = "damaged", []
        if fingerprint != self.vocabulary.fingerprint:
            return Err(GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="That was not saved here."))
        return Ok(self.grammar(self.loaded([option.encode() for option in options])))

    def loaded(self, options: Sequence[bytes]) -> Sequence[bytes]:
        """What is made of the options that were saved."""
        return options


class LoadsLess(Saves):
    def loaded(self, options: Sequence[bytes]) -> Sequence[bytes]:
        return options[1:]


class LoadsWhatIsDamaged(Saves):
    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        return super().deserialize(data.rstrip(b"\0"))


class LoadsWhatIsForeign(Saves):
    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        try:
            return Ok(self.grammar([option.encode() for option in json.loads(data)[1:]]))
        except ValueError:
            return super().deserialize(data)


class LoadsNothing(Saves):
    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message="It is of another version."))


class LoadsWhatItHas(Saves):
    """Loads what the same instance has saved, and raises at all else."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self.saved: dict[bytes, CompiledGrammar] = {}

    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        grammar = _SavedGrammar(frozenset(options), self.vocabulary, type(self).matcher)
        return self.saved.setdefault(grammar.serialize(), grammar)

    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        return Ok(self.saved[data])


@attrs.frozen(eq=False)
class _GrammarSavedAsText(TrieGrammar):
    def serialize(self) -> bytes:
        return "a text"  # type: ignore[return-value]


class SavesText(Saves):
    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        return _GrammarSavedAsText(frozenset(options), self.vocabulary, type(self).matcher)


@attrs.frozen(eq=False)
class _KeepingGrammar(TrieGrammar):
    kept: ClassVar[list[Matcher]] = []

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        self.kept.append(super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback))
        return self.kept[-1]


class KeepsMatchers(GoodBackend):
    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        return _KeepingGrammar(frozenset(options), self.vocabulary, GoodMatcher)


class KeepsGrammars(GoodBackend):
    kept: ClassVar[list[CompiledGrammar]] = []

    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        self.kept.append(super().grammar(options))
        return self.kept[-1]


class KeepsFiles(GoodBackend):
    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        os.open(os.devnull, os.O_RDONLY)
        return super().grammar(options)


class KeepsThreads(GoodBackend):
    """Until it is told that it is over."""

    over: ClassVar[threading.Event] = threading.Event()

    def grammar(self, options: Sequence[bytes]) -> CompiledGrammar:
        threading.Thread(target=self.over.wait, daemon=True).start()
        return super().grammar(options)
