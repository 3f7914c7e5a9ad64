"""The backend: from a spec to a compiled grammar, and many rows at once."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any, Final

import attrs
import llguidance

from structout.backend import Bitmask, Finding, Status
from structout.errors import ErrorKind, GrammarError
from structout.forced import LookAhead
from structout.result import Err, Ok, Result
from structout.schema import Rule
from structout.spec import Choice, GrammarSpec, JsonObject, JsonSchema, Lark, Regex, StructuralTag
from structout.vocabulary import Vocabulary
from structout_llguidance.errors import WHAT, compile_error
from structout_llguidance.examination import Examination, examined_once, find
from structout_llguidance.lark import NO_FORCING, choice_grammar, permitted_tokens, regex_grammar, tag_grammar
from structout_llguidance.matcher import (
    LlguidanceGrammar,
    LlguidanceMatcher,
    address,
    breaks_lexer,
    build,
    is_exhausted,
)
from structout_llguidance.refusals import refusal
from structout_llguidance.rules import ALWAYS_FOUND, ROUNDED_INWARD
from structout_llguidance.schemas import prepared
from structout_llguidance.tags import Tag, read_tags
from structout_llguidance.tokenizer import native_tokenizer

_OPTIONS: Final = {"name": "options", "lark_grammar": f'{NO_FORCING}start: ""'}
"""A grammar that nothing uses, for an option that holds for all."""


@attrs.frozen(eq=False)
class LlguidanceBackend:
    """llguidance for one vocabulary."""

    _vocabulary: Vocabulary
    _tokenizer: llguidance.LLTokenizer
    _look_ahead: LookAhead
    _executor: llguidance.LLExecutor

    @classmethod
    def create(cls, vocabulary: Vocabulary) -> "LlguidanceBackend":
        return cls(vocabulary, native_tokenizer(vocabulary), LookAhead(vocabulary), llguidance.LLExecutor())

    def compile(self, spec: GrammarSpec) -> Result[LlguidanceGrammar, GrammarError]:
        """Compiles a spec, and computes its first masks: llguidance finds out late that a limit is reached."""
        match spec:
            case JsonSchema():
                return examined_once(spec).and_then(lambda examination: self._compile_schema(spec, examination))
            case JsonObject(serialization=serialization):
                return self.compile(JsonSchema('{"type": "object"}', serialization=serialization))
            case StructuralTag():
                return read_tags(spec).and_then(lambda tags: self._compile_tags(spec, tags))
            case _ if error := refusal(spec):
                return Err(error)
            case Regex(pattern=pattern):
                return self._compile_text(spec, regex_grammar(pattern))
            case Choice(options=options):
                return self._compile_text(spec, choice_grammar(options))
            case Lark(text=text):
                return self._compile_text(spec, text)
        raise ValueError(f"{spec.kind} is not among the kinds of this backend")

    def _compile_schema(self, spec: JsonSchema, examination: Examination) -> Result[LlguidanceGrammar, GrammarError]:
        source = _source({"json_schema": prepared(spec, examination)})
        match self._native(spec, source):
            case Err(error):
                return Err(_of_the_schema(error, examination))
            case Ok(native):
                unenforced = _unenforced(native, examination)
                return Ok(
                    LlguidanceGrammar(
                        self._tokenizer,
                        self._look_ahead,
                        source,
                        native,
                        unenforced=unenforced,
                        narrowed=examination.narrowed,
                    )
                )

    def _compile_tags(self, spec: StructuralTag, tags: Sequence[Tag]) -> Result[LlguidanceGrammar, GrammarError]:
        source = _source({"lark_grammar": tag_grammar(tags)})
        return self._native(spec, source).map(
            lambda native: LlguidanceGrammar(
                self._tokenizer,
                self._look_ahead,
                source,
                native,
                unenforced=_all(tag.placed(_unenforced(native, tag.examination)) for tag in tags),
                narrowed=_all(tag.narrowed for tag in tags),
            )
        )

    def _compile_text(self, spec: GrammarSpec, lark: str) -> Result[LlguidanceGrammar, GrammarError]:
        source = _source({"lark_grammar": lark})
        permitted = permitted_tokens(lark, self._vocabulary) if isinstance(spec, Lark) else None
        return self._native(spec, source).map(
            lambda native: LlguidanceGrammar(self._tokenizer, self._look_ahead, source, native, permitted=permitted)
        )

    def _native(self, spec: GrammarSpec, source: str) -> Result[llguidance.LLMatcher, GrammarError]:
        """A matcher before its first token, if the masks of the text's beginning can be computed."""
        native = build(self._tokenizer, source)
        if native.is_error():
            return Err(compile_error(spec, native.get_error()))
        ahead = native.deep_copy()
        may_be_empty = ahead.is_accepting()
        ahead.compute_bitmask()
        if ahead.is_error() and is_exhausted(ahead) and not may_be_empty:
            return Err(_nothing_fits(spec))
        if not ahead.is_error():
            self._go_ahead(ahead)
        if ahead.is_error() and not is_exhausted(ahead):
            return Err(compile_error(spec, ahead.get_error()))
        return Ok(native)

    def _go_ahead(self, native: llguidance.LLMatcher) -> None:
        """To the first place where there is a choice, and there computes the mask."""
        certain = native.compute_ff_bytes().decode(errors="ignore")
        native.try_consume_tokens(self._tokenizer.greedy_tokenize(certain))
        native.compute_bitmask()

    def fill_batch(
        self, matchers: Sequence[LlguidanceMatcher], bitmask: Bitmask, rows: Sequence[int]
    ) -> Sequence[Status]:
        """Fills rows on llguidance's threads; see `structout.backend.SupportsBatchFill`."""
        live = [(matcher, row) for matcher, row in zip(matchers, rows, strict=True) if not matcher.is_terminated]
        if live:
            self._compute(live, bitmask)
        return [matcher.finish(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]

    def _compute(self, live: Sequence[tuple[LlguidanceMatcher, int]], bitmask: Bitmask) -> None:
        """Has the masks written, and notes which lexers broke. All lexers are held, in an order that all agree on."""
        natives = [(matcher.native, row) for matcher, row in live]
        height, width = bitmask.shape
        with ExitStack() as held:
            for lexer in sorted({matcher.lexer for matcher, _ in live}, key=id):
                held.enter_context(lexer)
            self._executor.unsafe_compute_mask_ptr(natives, address(bitmask), width * bitmask.itemsize, height)
            for matcher, _ in live:
                matcher.lexer.is_broken |= breaks_lexer(matcher.native)


def _source(grammar: Mapping[str, Any]) -> str:
    """What llguidance reads. Every grammar in Lark's syntax costs it a millisecond, so there is no second one unless
    the first cannot have the option."""
    has_option = grammar.get("lark_grammar", "").startswith(NO_FORCING)
    return json.dumps({"grammars": [grammar] if has_option else [grammar, _OPTIONS]})


def _all(findings: Iterable[Sequence[Finding]]) -> tuple[Finding, ...]:
    return tuple(chain.from_iterable(findings))


def _of_the_schema(error: GrammarError, examination: Examination) -> GrammarError:
    """The error about a schema as it was written: that nothing is left between bounds that were moved is no fault of
    the schema."""
    moved = next((finding for finding in examination.narrowed if finding.reason == ROUNDED_INWARD), None)
    if moved is None or error.kind is not ErrorKind.UNSATISFIABLE:
        return error
    return GrammarError(
        kind=ErrorKind.UNSUPPORTED,
        message=f"{moved.keyword!r} {moved.reason}, and then no value is left",
        pointer=moved.pointer,
        keyword=moved.keyword,
        detail=error.detail,
    )


def _nothing_fits(spec: GrammarSpec) -> GrammarError:
    message = f"No token of this model can begin a text of this {WHAT[type(spec)]}."
    return GrammarError(kind=ErrorKind.UNSATISFIABLE, message=message)


def _unenforced(native: llguidance.LLMatcher, examination: Examination) -> tuple[Finding, ...]:
    """What the rules found, and what llguidance warns of besides. It only warns under BEST_EFFORT, else it fails."""
    words = {word for warning in native.get_grammar_warnings() for word in _words_of(warning)} - ALWAYS_FOUND
    warned = find(examination.nodes, [Rule(word, "is not fully enforced") for word in sorted(words)])
    return (*examination.unenforced, *_all(warned.values()))


def _words_of(warning: str) -> Sequence[str]:
    """The keywords that one of llguidance's warnings is about."""
    if warning.startswith("oneOf"):
        return ["oneOf"]
    if warning.startswith("min/maxProperties"):
        return ["maxProperties", "minProperties"]
    return re.findall(r'"([^"]+)"', warning)
