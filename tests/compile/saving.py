"""A backend whose grammars can be saved, and that counts how often it compiles and reads."""

import json
from collections.abc import Sequence

import attrs

from structout import BackendInfo, Choice, Err, ErrorKind, GrammarError, GrammarSpec, Ok, Result, Vocabulary
from structout.backend import CompiledGrammar
from tests.fakes import TrieBackend, TrieGrammar


@attrs.frozen(eq=False)
class SavingGrammar(TrieGrammar):
    texts: Sequence[str] = ()

    def serialize(self) -> bytes:
        return json.dumps(list(self.texts)).encode()


@attrs.define(eq=False)
class SavingBackend:
    """Compiles `Choice` as `TrieBackend` does; what it saves are the options."""

    vocabulary: Vocabulary
    compiled: int = 0
    read: int = 0

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        self.compiled += 1
        return TrieBackend(self.vocabulary).compile(spec).map(lambda _: self._grammar(spec.options))

    def deserialize(self, data: bytes) -> Result[CompiledGrammar, GrammarError]:
        try:
            options = json.loads(data)
        except ValueError:
            return Err(GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="this was not saved here"))
        self.read += 1
        return Ok(self._grammar(options))

    def _grammar(self, options: Sequence[str]) -> SavingGrammar:
        return SavingGrammar(frozenset(each.encode() for each in options), self.vocabulary, texts=tuple(options))


def saving_info(backends: list[SavingBackend], id: str = "saving") -> BackendInfo:
    """A description whose backends are added to ``backends`` when they are made."""

    def create(vocabulary: Vocabulary) -> SavingBackend:
        backends.append(SavingBackend(vocabulary))
        return backends[-1]

    return BackendInfo(id=id, create=create, spec_kinds=frozenset({"choice"}))
