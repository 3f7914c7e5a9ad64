"""Faults of compiling: its results, its caches, and what it says of the language."""

import abc
import json
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import attrs

from structout import (
    Choice,
    Ebnf,
    Err,
    ErrorKind,
    Finding,
    GrammarError,
    GrammarSpec,
    JsonSchema,
    Ok,
    Policy,
    Regex,
    Result,
    Status,
    Vocabulary,
)
from structout.backend import Backend, BitmaskRow, CompiledGrammar
from structout.spec import FormatMode, spec_from_json, spec_to_json
from tests.mutants.wrapping import FullMatcher, PassBackend, PassGrammar, PassMatcher, SchemaEditor, put

Compiled = Result[CompiledGrammar, GrammarError]


class _Caches(PassBackend, abc.ABC):
    """Keeps what it has compiled, by a key that says too little."""

    def __init__(self, inner: Backend, vocabulary: Vocabulary) -> None:
        super().__init__(inner, vocabulary)
        self._known: dict[object, Compiled] = {}

    @abc.abstractmethod
    def key(self, spec: GrammarSpec) -> object:
        """What it takes for the whole of a spec."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        key = self.key(spec)
        if key not in self._known:
            self._known[key] = super().compile(spec)
        return self._known[key]


def language_of(spec: GrammarSpec) -> str:
    """The text of a spec, without what else it asks for."""
    data = spec_to_json(spec)
    fields = ("text", "pattern", "options", "serialization")
    return f"{spec.kind} {next(data[name] for name in fields if name in data)}"


class CachesByLength(_Caches):
    """The cache takes specs of the same length for the same."""

    def key(self, spec: GrammarSpec) -> object:
        return len(language_of(spec))


class CachesByBeginning(_Caches):
    """The cache takes specs for the same that begin with the same 24 characters and end with the same 4."""

    def key(self, spec: GrammarSpec) -> object:
        return language_of(spec)[:24], language_of(spec)[-4:]


class CachesByText(_Caches):
    """The cache knows the text of a spec only: not its serialization, format mode or policy."""

    def key(self, spec: GrammarSpec) -> object:
        return language_of(spec)


class CachesBySortedText(_Caches):
    """The cache takes schemas for the same whose members and items are the same in another order."""

    def key(self, spec: GrammarSpec) -> object:
        return "".join(sorted(language_of(spec)))


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


class CachesForAnyVocabulary(PassBackend):
    """The cache belongs to the module, and does not know for which vocabulary a grammar is."""

    kept: ClassVar[dict[GrammarSpec, Compiled]] = {}

    def compile(self, spec: GrammarSpec) -> Compiled:
        if spec not in self.kept:
            self.kept[spec] = super().compile(spec)
        return self.kept[spec]


class CachesByEnd(_Caches):
    """The cache takes specs for the same that are as long and end with the same 48 characters."""

    def key(self, spec: GrammarSpec) -> object:
        return len(language_of(spec)), language_of(spec)[-48:]


class CachesWithoutCase(_Caches):
    """The cache makes no difference between small and capital letters."""

    def key(self, spec: GrammarSpec) -> object:
        return repr(spec).lower()


class CachesWithoutBlanks(_Caches):
    """The cache ignores all white space, in strings too."""

    def key(self, spec: GrammarSpec) -> object:
        return "".join(repr(spec).split())


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


class CachesByValue(_Caches):
    """The cache takes schemas for the same that are equal as Python's values, in which true is 1."""

    def key(self, spec: GrammarSpec) -> object:
        if not isinstance(spec, JsonSchema):
            return spec
        return attrs.evolve(spec, text="{}"), _hashable(json.loads(spec.text))


def _hashable(value: Any) -> object:
    match value:
        case dict():
            return ("object", *((name, _hashable(inner)) for name, inner in value.items()))
        case list():
            return ("array", *map(_hashable, value))
    return value


class CachesByJoinedOptions(_Caches):
    """The cache takes choices for the same whose options with bars between them are the same."""

    def key(self, spec: GrammarSpec) -> object:
        return "|".join(spec.options) if isinstance(spec, Choice) else spec


class CachesWithoutTheRoot(_Caches):
    """The cache does not know which rule a grammar starts with."""

    base = "reference"

    def key(self, spec: GrammarSpec) -> object:
        return spec.text if isinstance(spec, Ebnf) else spec


class CachesWithoutTheFormatMode(_Caches):
    """The cache does not know whether format is to be asserted."""

    def key(self, spec: GrammarSpec) -> object:
        return attrs.evolve(spec, format_mode=FormatMode.ASSERT) if isinstance(spec, JsonSchema) else spec


class CachesWithoutTheRegistry(_Caches):
    """The cache does not know what other documents a reference can lead to."""

    base = "reference"

    def key(self, spec: GrammarSpec) -> object:
        return attrs.evolve(spec, registry=()).key if isinstance(spec, JsonSchema) else spec.key


class DeserializesWithoutOptions(PassBackend):
    """What is saved of a grammar is its text: not its root, and not how JSON is to be written."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        return self.inner.compile(spec).map(lambda compiled: _Saved(compiled, self, spec))

    def deserialize(self, data: bytes) -> Compiled:
        return self.compile(spec_from_json(json.loads(data)))


class _Saved(PassGrammar):
    def __init__(self, inner: CompiledGrammar, backend: PassBackend, spec: GrammarSpec) -> None:
        super().__init__(inner, backend)
        self._spec = spec

    def serialize(self) -> bytes:
        data = spec_to_json(self._spec)
        return json.dumps({name: data[name] for name in data if name not in ("root", "serialization")}).encode()


class OffsetIsMinusOne(_Errs):
    """Where an error has no place, it has the offset -1."""

    refuses_early = False

    def changed(self, error: GrammarError) -> GrammarError:
        return error if error.offset is not None else attrs.evolve(error, offset=-1)


class EvictsWhatIsHeld(PassBackend):
    """A grammar can start no sequence any more once 128 others were compiled."""

    compiled = 0

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        self.compiled += 1
        return _Numbered(compiled, self)


class _Numbered(PassGrammar):
    def __init__(self, inner: CompiledGrammar, backend: PassBackend) -> None:
        super().__init__(inner, backend)
        self.number: int = vars(backend)["compiled"]

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        if vars(self.backend)["compiled"] - self.number > 128:
            raise RuntimeError("there is no such grammar")
        return super().start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)


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
