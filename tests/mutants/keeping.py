"""Faults of what is kept: caches that take one spec for another, and grammars that are saved and loaded again."""

import abc
import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs

from structout import (
    Choice,
    Ebnf,
    Err,
    ErrorKind,
    GrammarError,
    GrammarSpec,
    JsonSchema,
    Result,
    Vocabulary,
)
from structout.backend import Backend, CompiledGrammar
from structout.spec import FormatMode, spec_from_json, spec_to_json
from tests.mutants.wrapping import PassBackend, PassGrammar, PassMatcher

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


class _Saves(PassBackend):
    """Saves the spec of a grammar, and compiles it again to load it; refuses what it has not saved."""

    def compile(self, spec: GrammarSpec) -> Compiled:
        return self.inner.compile(spec).map(lambda compiled: _Saved(compiled, self, lambda: self.saved(spec)))

    def saved(self, spec: GrammarSpec) -> bytes:
        text = json.dumps(self.said(spec)).encode()
        return self.owner() + hashlib.sha256(text).digest() + text

    def said(self, spec: GrammarSpec) -> dict[str, Any]:
        """What is saved of a spec."""
        return spec_to_json(spec)

    def owner(self) -> bytes:
        """Whose it is: 64 bytes."""
        return self.vocabulary.fingerprint.encode()

    def deserialize(self, data: bytes) -> Compiled:
        owner, digest, text = data[:64], data[64:96], data[96:]
        if owner != self.owner() or digest != hashlib.sha256(text).digest():
            return Err(GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="this is not what was saved"))
        return self.compile(spec_from_json(json.loads(text)))


class _Saved(PassGrammar):
    def __init__(self, inner: CompiledGrammar, backend: PassBackend, serialize: Callable[[], bytes]) -> None:
        super().__init__(inner, backend)
        self.serialize = serialize


class DeserializesWithoutOptions(_Saves):
    """What is saved of a grammar is its text: not its root, and not how JSON is to be written."""

    def said(self, spec: GrammarSpec) -> dict[str, Any]:
        data = spec_to_json(spec)
        return {name: data[name] for name in data if name not in ("root", "serialization")}


class LoadsForAnyVocabulary(_Saves):
    """Loads what was saved for another vocabulary."""

    def owner(self) -> bytes:
        return bytes(64)


class LoadsWhatIsDamaged(_Saves):
    """Loads what has zeros behind what was saved."""

    def deserialize(self, data: bytes) -> Compiled:
        return super().deserialize(data.rstrip(b"\0"))
