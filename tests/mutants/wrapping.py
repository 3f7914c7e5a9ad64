"""A good backend behind a layer that passes everything on, so that a mutant is a class that overrides one method.

`PassBackend` makes `PassGrammar`, which makes `PassMatcher`. As they stand they are as good as what they wrap; a
subclass has one fault, which its docstring states. ``base`` names the backend that is wrapped.
"""

import copy
import importlib
import json
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, Protocol, Self, cast

import attrs
import numpy as np

from structout import (
    BackendInfo,
    GrammarError,
    GrammarSpec,
    JsonSchema,
    Result,
    Status,
    TokenKind,
    Vocabulary,
    hookimpl,
)
from structout.backend import (
    Backend,
    Bitmask,
    BitmaskRow,
    CompiledGrammar,
    Finding,
    Matcher,
    SupportsFork,
    SupportsRollback,
)
from structout.schema import walk


class FullMatcher(Matcher, SupportsRollback, SupportsFork, Protocol):
    """What the matchers of all the bases can do."""


def allows(row: BitmaskRow, token: int) -> bool:
    return bool(int(row[token >> 5]) >> (token & 31) & 1)


def put(row: BitmaskRow, token: int, *, allowed: bool) -> None:
    """Sets or clears one bit."""
    bit = np.uint32(1 << (token & 31))
    words = row.view(np.uint32)
    words[token >> 5] = words[token >> 5] | bit if allowed else words[token >> 5] & ~bit


def ids_of(row: BitmaskRow) -> list[int]:
    """The tokens that a row allows, ascending."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


@cache
def byte_token(vocabulary: Vocabulary, byte: int) -> int:
    """The id of the token that is this byte alone."""
    return vocabulary.tokens().index(bytes([byte]))


class PassMatcher:
    """One sequence. The wrapped matcher gets text only: where a stop token may end it is decided here.

    Attributes:
        inner: the wrapped matcher.
        grammar: what it was started from.
        stops: what ends the sequence.
        tokens: what was accepted, without the stop token.
        ended: whether a stop token was accepted.
    """

    base: ClassVar[str] = "reference"

    def __init__(self, inner: FullMatcher, grammar: "PassGrammar", stops: Sequence[int]) -> None:
        self.inner = inner
        self.grammar = grammar
        self.stops = tuple(stops)
        self.tokens: list[int] = []
        self.ended = False

    @property
    def vocabulary(self) -> Vocabulary:
        return self.grammar.vocabulary

    @property
    def text(self) -> bytes:
        """What was accepted, as bytes."""
        return self.vocabulary.decode(self.tokens)

    @property
    def may_end(self) -> bool:
        """Whether a stop token may follow."""
        return self.inner.is_accepting

    def fill(self, row: BitmaskRow) -> Status:
        if self.ended:
            return Status.TERMINATED
        status = self.inner.fill(row)
        may_end = self.may_end
        for stop in self.stops:
            put(row, stop, allowed=may_end)
        return status

    def accept(self, token: int) -> Status:
        if self.ended:
            return Status.TERMINATED
        if token in self.stops:
            self.ended = self.may_end
            return Status.OK if self.ended else Status.REJECTED
        status = self.inner.accept(token)
        if status is Status.OK:
            self.tokens.append(token)
        return status

    @property
    def is_accepting(self) -> bool:
        return self.inner.is_accepting

    @property
    def is_terminated(self) -> bool:
        return self.ended

    def rollback(self, tokens: int) -> Status:
        if tokens and self.ended:
            self.ended = False
            tokens -= 1
        if tokens:
            del self.tokens[-tokens:]
            return self.inner.rollback(tokens)
        return Status.OK

    def fork(self) -> Self:
        twin = copy.copy(self)
        twin.inner = cast(FullMatcher, self.inner.fork())
        twin.tokens = self.tokens.copy()
        return twin

    def allowed(self) -> list[int]:
        """The tokens of text that the wrapped matcher lets follow."""
        row = np.zeros(self.vocabulary.bitmask_width, np.int32)
        self.inner.fill(row)
        return [token for token in ids_of(row) if token not in self.stops]

    def is_one_short(self) -> bool:
        """Whether one more token could complete the text."""
        return any(self._completes(token) for token in self.allowed())

    def _completes(self, token: int) -> bool:
        ahead = self.inner.fork()
        return ahead.accept(token) is Status.OK and ahead.is_accepting


class PassGrammar:
    """A compiled grammar.

    Attributes:
        inner: the wrapped grammar.
        backend: what compiled it.
    """

    base: ClassVar[str] = "llguidance"

    def __init__(self, inner: CompiledGrammar, backend: "PassBackend") -> None:
        self.inner = inner
        self.backend = backend

    @property
    def vocabulary(self) -> Vocabulary:
        return self.backend.vocabulary

    @property
    def unenforced(self) -> Sequence[Finding]:
        return self.inner.unenforced

    @property
    def narrowed(self) -> Sequence[Finding]:
        return self.inner.narrowed

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> PassMatcher:
        # A stop token of text would be refused as text too; the wrapped matcher is never asked about one.
        inner = self.inner.start(stop_token_ids=stop_token_ids, max_rollback=max_rollback)
        return self.backend.matcher_type(cast(FullMatcher, inner), self, stop_token_ids)


class PassBackend:
    """A backend for one vocabulary.

    Attributes:
        inner: the wrapped backend.
        matcher_type, grammar_type: what it makes.
    """

    base: ClassVar[str] = "llguidance"
    refuses_early: ClassVar[bool] = True
    """Whether it has its base's `BackendInfo.refusal`."""

    def __init__(
        self,
        inner: Backend,
        vocabulary: Vocabulary,
        matcher_type: type[PassMatcher] = PassMatcher,
        grammar_type: type[PassGrammar] = PassGrammar,
    ) -> None:
        self.inner = inner
        self.vocabulary = vocabulary
        self.matcher_type = matcher_type
        self.grammar_type = grammar_type

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        """What the wrapped backend gets to compile."""
        return spec

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        return self.inner.compile(self.altered(spec)).map(self.wrapped)

    def wrapped(self, compiled: CompiledGrammar) -> CompiledGrammar:
        return self.grammar_type(compiled, self)

    def fill_batch(self, matchers: Sequence[Matcher], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [matcher.fill(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]


class SchemaEditor(PassBackend):
    """Compiles another schema than it is given."""

    def edit(self, schema: dict[str, Any]) -> None:
        """Changes one schema in place; called for each, an outer one first."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, JsonSchema):
            return spec
        schema = json.loads(spec.text)
        for node in list(walk(schema, spec.dialect)):
            if isinstance(node.schema, dict):
                self.edit(node.schema)
        return attrs.evolve(spec, text=json.dumps(schema))


Part = type[PassMatcher] | type[PassGrammar] | type[PassBackend]


@attrs.frozen
class Mutant:
    """A backend with one fault, and the plugin that registers it.

    Attributes:
        name: its id.
        description: what is wrong with it.
        base: id of the good backend that it is made from.
        info: what the plugin registers.
    """

    name: str
    description: str
    base: str
    info: BackendInfo = attrs.field(repr=False)

    @hookimpl
    def structout_register_backends(self) -> Sequence[BackendInfo]:
        return [self.info]


@cache
def base_info(base: str) -> BackendInfo:
    """The description of a good backend, without entry points: a bare checkout has none."""
    module = importlib.import_module(f"structout_{base}")
    [info] = module.structout_register_backends()
    assert isinstance(info, BackendInfo)
    return info


def make(part: Part) -> Mutant:
    """The mutant in which ``part`` stands for the layer that it is a class of."""
    name = "".join("_" + letter.lower() if letter.isupper() else letter for letter in part.__name__).removeprefix("_")
    good = base_info(part.base)
    description = " ".join((part.__doc__ or "").split())

    def create(vocabulary: Vocabulary) -> PassBackend:
        inner = good.create(vocabulary)
        if issubclass(part, PassBackend):
            return part(inner, vocabulary)
        if issubclass(part, PassGrammar):
            return PassBackend(inner, vocabulary, grammar_type=part)
        return PassBackend(inner, vocabulary, matcher_type=part)

    info = attrs.evolve(good, id=name, create=create, description=description)
    if issubclass(part, PassBackend) and not part.refuses_early:
        info = attrs.evolve(info, refusal=lambda _spec: None)
    return Mutant(name, description, part.base, info)


def is_text(vocabulary: Vocabulary, token: int) -> bool:
    return vocabulary.kind(token) in (TokenKind.TEXT, TokenKind.ADDED)
