"""Backends called directly, as their own documentation shows, behind the same protocols: what structout is compared to.

Nothing of a plugin is in them: no table of dropped keywords, no serialization policy, no repair of what the library
does at the end of a text. A schema that the library takes is accepted.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from structout import (
    BackendInfo,
    Err,
    ErrorKind,
    Finding,
    GrammarError,
    JsonSchema,
    Ok,
    Result,
    Status,
    Vocabulary,
    hookimpl,
)
from structout.backend import Backend, BitmaskRow, CompiledGrammar, Matcher
from structout.cli.bench.peers import llguidance_tokenizer
from structout.spec import Dialect, GrammarSpec


def _text(spec: GrammarSpec) -> str:
    """The schema as its user would hand it over: a dialect other than the usual one is named in it."""
    assert isinstance(spec, JsonSchema)
    schema = spec.schema()
    if spec.dialect is Dialect.DRAFT_2020_12 or not isinstance(schema, dict):
        return spec.text
    return json.dumps({"$schema": str(spec.dialect)} | schema)


def _refused(exc: Exception) -> Err[GrammarError]:
    return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message=f"{type(exc).__name__}: {exc}"[:200]))


@attrs.frozen(eq=False)
class _Compiled:
    """Starts a matcher around what the library compiled."""

    make: Any
    unenforced: Sequence[Finding] = ()
    narrowed: Sequence[Finding] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        matcher: Matcher = self.make(tuple(stop_token_ids))
        return matcher


class XgrammarDirect:
    """`GrammarCompiler.compile_json_schema` with its defaults, as in xgrammar's tutorial."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import xgrammar

        tokens = vocabulary.tokens()
        info = xgrammar.TokenizerInfo(
            tokens, vocab_size=vocabulary.padded_size, stop_token_ids=list(vocabulary.eos_token_ids)
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self._matcher = xgrammar.GrammarMatcher

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        text = _text(spec)
        try:
            grammar = self._compiler.compile_json_schema(text)
        except Exception as exc:
            return _refused(exc)
        return Ok(_Compiled(lambda stops: _XgrammarMatcher(self._matcher(grammar, override_stop_tokens=list(stops)))))


@attrs.define(eq=False)
class _XgrammarMatcher:
    native: Any

    def fill(self, row: BitmaskRow) -> Status:
        self.native.fill_next_token_bitmask(row[None], 0)
        return Status.OK

    def accept(self, token: int) -> Status:
        return Status.OK if self.native.accept_token(token) else Status.REJECTED

    @property
    def is_accepting(self) -> bool:
        return bool(self.native.is_completed())

    @property
    def is_terminated(self) -> bool:
        return bool(self.native.is_terminated())


class LlguidanceDirect:
    """`LLMatcher` on the JSON Schema grammar, as in llguidance's documentation."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import llguidance

        self._library = llguidance
        self._tokenizer = llguidance_tokenizer(vocabulary)

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        text, matcher = _text(spec), self._library.LLMatcher
        try:
            grammar = matcher.grammar_from_json_schema(text)
            if error := matcher.validate_grammar(grammar, self._tokenizer):
                raise ValueError(error)
        except Exception as exc:
            return _refused(exc)
        return Ok(_Compiled(lambda stops: _LlguidanceMatcher(matcher(self._tokenizer, grammar, log_level=0), stops)))


@attrs.define(eq=False)
class _LlguidanceMatcher:
    native: Any
    stops: tuple[int, ...]
    is_terminated: bool = False

    def fill(self, row: BitmaskRow) -> Status:
        self.native.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        return Status.OK

    def accept(self, token: int) -> Status:
        if token in self.stops and self.native.is_accepting():
            self.is_terminated = True
            return Status.OK
        return Status.OK if self.native.consume_token(token) else Status.REJECTED

    @property
    def is_accepting(self) -> bool:
        return bool(self.native.is_accepting())


class OutlinesDirect:
    """`Index` over the regex of the schema, walked by `Guide`, as in outlines-core's README."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        import outlines_core
        from outlines_core.json_schema import build_regex_from_schema

        ids: dict[bytes, list[int]] = {}
        for token, piece in enumerate(vocabulary.tokens()):
            if piece:
                ids.setdefault(piece, []).append(token)
        self._eos = vocabulary.eos_token_ids[0]
        self._vocabulary = outlines_core.Vocabulary(self._eos, ids)
        self._index, self._guide, self._regex = outlines_core.Index, outlines_core.Guide, build_regex_from_schema

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        text = _text(spec)
        try:
            index = self._index(self._regex(text), self._vocabulary)
        except Exception as exc:
            return _refused(exc)
        return Ok(_Compiled(lambda stops: _OutlinesMatcher(self._guide(index), self._eos)))


@attrs.define(eq=False)
class _OutlinesMatcher:
    native: Any
    eos: int
    is_terminated: bool = False

    def fill(self, row: BitmaskRow) -> Status:
        row.fill(0)
        self.native.write_mask_into(row.ctypes.data, row.size, 4)
        return Status.OK

    def accept(self, token: int) -> Status:
        if token == self.eos:
            self.is_terminated = self.is_accepting
            return Status.OK if self.is_terminated else Status.REJECTED
        if not self.native.accepts_tokens([token]):
            return Status.REJECTED
        self.native.advance(token, False)
        return Status.OK

    @property
    def is_accepting(self) -> bool:
        return self.is_terminated or self.eos in self.native.get_tokens()


DIRECT: dict[str, Callable[[Vocabulary], Backend]] = {
    "xgrammar": XgrammarDirect,
    "llguidance": LlguidanceDirect,
    "outlines": OutlinesDirect,
}


class DirectPlugin:
    """Registers the three under the ids ``xgrammar_direct`` and so on."""

    @hookimpl
    def structout_register_backends(self) -> list[BackendInfo]:
        return [
            BackendInfo(id=f"{backend}_direct", create=create, spec_kinds=frozenset({"json_schema"}))
            for backend, create in DIRECT.items()
        ]
