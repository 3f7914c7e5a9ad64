"""Faults of compiling: its results, its caches, and what it says of the language."""

import abc
import json
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, cast

import attrs

from structout import (
    Choice,
    Err,
    ErrorKind,
    Finding,
    GrammarError,
    GrammarSpec,
    Ok,
    Policy,
    Regex,
    Result,
    Status,
)
from structout.backend import BitmaskRow, CompiledGrammar
from tests.mutants.wrapping import FullMatcher, PassBackend, PassGrammar, PassMatcher, SchemaEditor, put

Compiled = Result[CompiledGrammar, GrammarError]


class RaisesARefusal(PassBackend):
    """Raises where it should return an error."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        return Ok(super().compile(spec).unwrap())


class ReturnsNothing(PassBackend):
    """Returns None where it should return an error."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        result = super().compile(spec)
        return result if isinstance(result, Ok) else cast(Compiled, None)


class ReturnsTheGrammar(PassBackend):
    """Returns the grammar as it is, in no Ok."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        return cast(Compiled, super().compile(spec).unwrap())


class ErrsWithText(PassBackend):
    """Its errors are texts."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        match super().compile(spec):
            case Err(error):
                return cast(Compiled, Err(str(error)))
            case compiled:
                return compiled


class _Errs(PassBackend, abc.ABC):
    """Changes its errors."""

    @abc.abstractmethod
    def changed(self, error: GrammarError) -> GrammarError:
        """What it says instead."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        match super().compile(spec):
            case Err(error):
                return Err(self.changed(error))
            case compiled:
                return compiled


class ShowsItsInside(_Errs):
    """The message of an error has a traceback with files and lines in it."""

    def changed(self, error: GrammarError) -> GrammarError:
        return attrs.evolve(error, message=f"{error.message}\nTraceback (most recent call last):\n" + stack())


class ShowsObjects(_Errs):
    """The message of an error has the address of an object in it."""

    def changed(self, error: GrammarError) -> GrammarError:
        return attrs.evolve(error, message=f"{object()!r} cannot compile this")


class RefusesWithoutAWord(_Errs):
    """An error has no message, and does not say where."""

    def changed(self, error: GrammarError) -> GrammarError:
        return GrammarError(kind=error.kind, message="")


class CallsItInvalid(_Errs):
    """What it does not support it calls an invalid spec."""

    def changed(self, error: GrammarError) -> GrammarError:
        return attrs.evolve(error, kind=ErrorKind.INVALID_SPEC)


class CallsItUnsatisfiable(_Errs):
    """What it does not support it calls unsatisfiable."""

    def changed(self, error: GrammarError) -> GrammarError:
        return attrs.evolve(error, kind=ErrorKind.UNSATISFIABLE)


def stack() -> str:
    return "".join(traceback.format_stack())


class Races(PassBackend):
    """Keeps the spec that it compiles in the backend, where the next thread overwrites it."""

    spec: GrammarSpec | None = None

    def compile(self, spec: GrammarSpec) -> Compiled:
        self.spec = spec
        time.sleep(0.005)
        return super().compile(self.spec)


class IgnoresThePolicy(PassBackend):
    """Compiles everything as well as it can, says nothing of what it does not enforce, and refuses nothing for it."""

    base = "xgrammar"
    refuses_early = False

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        return attrs.evolve(spec, policy=Policy.BEST_EFFORT)

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        return HidesWhatItDrops(compiled, self)


class HidesWhatItDrops(PassGrammar):
    """Under best_effort it does not list what it does not enforce."""

    base = "xgrammar"

    @property
    def unenforced(self) -> Sequence[Finding]:
        return ()


class HidesWhatItNarrows(PassGrammar):
    """Does not list what it narrows."""

    base = "xgrammar"

    @property
    def narrowed(self) -> Sequence[Finding]:
        return ()


class ListsTheWrongPlace(PassGrammar):
    """Lists what it does not enforce at the root, wherever it is."""

    base = "xgrammar"

    @property
    def unenforced(self) -> Sequence[Finding]:
        return [attrs.evolve(finding, pointer="", keyword="$comment") for finding in super().unenforced]


class FindingsAreTexts(PassGrammar):
    """Lists what it narrows as texts."""

    base = "outlines"

    @property
    def narrowed(self) -> Sequence[Finding]:
        return cast(Sequence[Finding], [json.dumps(attrs.asdict(finding)) for finding in super().narrowed])


class RefusesEverything(PassBackend):
    """Refuses whatever it is given, with a message and a hint."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        message = f"{spec.kind} is not supported today"
        return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, hint="use another backend"))


class PointsNowhere(_Errs):
    """A refusal points to where nothing is, and names a keyword that is not there."""

    refuses_early = False

    def changed(self, error: GrammarError) -> GrammarError:
        return attrs.evolve(error, pointer="/no/where", keyword="nope")


class SizeIsText(PassGrammar):
    """Says how big it is in words."""

    @property
    def size_bytes(self) -> str:
        return "12 KiB"


class StaysInItsThread(PassGrammar):
    """Cannot start a sequence in another thread than the one that compiled it."""

    def __init__(self, inner: CompiledGrammar, backend: PassBackend) -> None:
        super().__init__(inner, backend)
        self._thread = threading.get_ident()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        if threading.get_ident() != self._thread:
            raise RuntimeError("it belongs to another thread")
        return super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)


class SequencesStayInTheirThread(PassMatcher):
    """A sequence cannot go on in another thread than the one that started it."""

    base = "llguidance"

    def __init__(self, inner: FullMatcher, grammar: PassGrammar, stops: Sequence[int]) -> None:
        super().__init__(inner, grammar, stops)
        self._thread = threading.get_ident()

    def accept(self, token: int) -> Status:
        if threading.get_ident() != self._thread:
            raise RuntimeError("it belongs to another thread")
        return super().accept(token)


class DependsOnTheHashSeed(PassMatcher):
    """By the seed of Python's hashes, which each process has its own of, a token may follow or not."""

    base = "llguidance"

    def fill(self, row: BitmaskRow) -> Status:
        status = super().fill(row)
        if not self._takes(self._odd):
            put(row, self._odd, allowed=False)
        return status

    def accept(self, token: int) -> Status:
        return super().accept(token) if self._takes(token) else Status.REJECTED

    @property
    def _odd(self) -> int:
        return self.vocabulary.tokens().index(b"ab")

    def _takes(self, token: int) -> bool:
        return token != self._odd or hash("ab") % 2 == 0


class NarrowsInSecret(SchemaEditor):
    """Lets through no string of more than a character, and lists something else that it narrows: white space."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("type") == "string" and schema.keys().isdisjoint(("pattern", "format", "enum", "const")):
            schema["maxLength"] = min(max(1, schema.get("minLength", 0)), schema.get("maxLength", 1))

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        return _NarrowsWhiteSpace(compiled, self)


class _NarrowsWhiteSpace(PassGrammar):
    @property
    def narrowed(self) -> Sequence[Finding]:
        return (*super().narrowed, Finding("", "whitespace", "is one space at most"))


class OffsetIsMinusOne(_Errs):
    """Where an error has no place, it has the offset -1."""

    refuses_early = False

    def changed(self, error: GrammarError) -> GrammarError:
        return error if error.offset is not None else attrs.evolve(error, offset=-1)


class RaisesAtWhatIsMalformed(PassBackend):
    """Raises where a regular expression or a grammar cannot be read."""

    base = "reference"

    def compile(self, spec: GrammarSpec) -> Compiled:
        match super().compile(spec):
            case Err(error) if error.kind is ErrorKind.INVALID_SPEC:
                raise ValueError(error.message)
            case result:
                return result


class TakesWhatIsMalformed(PassBackend):
    """Where a regular expression cannot be read it is taken for a text."""

    base = "reference"

    def compile(self, spec: GrammarSpec) -> Compiled:
        match super().compile(spec):
            case Err(error) if error.kind is ErrorKind.INVALID_SPEC and isinstance(spec, Regex):
                return super().compile(Choice([spec.pattern]))
            case result:
                return result
