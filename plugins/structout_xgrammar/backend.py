"""xgrammar bound to a vocabulary. The only module of this package that imports xgrammar, which brings torch along."""

import os
from collections.abc import Sequence
from typing import Final

import attrs
import xgrammar

from structout.backend import Bitmask, CompiledGrammar, Finding, Status
from structout.errors import GrammarError
from structout.forced import LookAhead
from structout.result import Err, Ok, Result
from structout.spec import Escapes, GrammarSpec, Whitespace
from structout.vocabulary import TokenKind, Vocabulary
from structout_xgrammar.errors import grammar_error, schema_error
from structout_xgrammar.linking import link
from structout_xgrammar.matcher import XgrammarMatcher
from structout_xgrammar.sources import EbnfSource, LarkSource, SchemaSource, Source, TagSource
from structout_xgrammar.translation import refused, translate

_CACHE_BYTES: Final = 16 << 20
"""For xgrammar's masks of rules that many grammars share. It cuts the median compile time to a third; four
times as much saves a twentieth of the mean."""

_MIN_BATCH: Final = 24
"""With fewer rows than these a call for each costs less than xgrammar's call for all."""

_SEPARATORS: Final = {Whitespace.ANY: None, Whitespace.SPACED: (", ", ": "), Whitespace.COMPACT: (",", ":")}


def _threads() -> int:
    return max(1, min(4, (os.cpu_count() or 1) // 2))


@attrs.frozen(eq=False)
class XgrammarGrammar:
    """See `structout.backend.CompiledGrammar` and `SupportsSize`."""

    native: xgrammar.CompiledGrammar = attrs.field(repr=False)
    is_text: bytes = attrs.field(repr=False)
    look_ahead: LookAhead = attrs.field(repr=False)
    unenforced: tuple[Finding, ...]
    narrowed: tuple[Finding, ...]

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> XgrammarMatcher:
        """xgrammar rolls back as far as there are tokens, whatever ``max_rollback``."""
        native = xgrammar.GrammarMatcher(self.native, override_stop_tokens=list(stop_token_ids) or None)
        return XgrammarMatcher(native, self.is_text, self.look_ahead, stop_token_ids)

    @property
    def size_bytes(self) -> int:
        return int(self.native.memory_size_bytes)


class XgrammarBackend:
    """See `structout.backend.Backend` and `SupportsBatchFill`.

    Tokens that do not stand for text have no bytes, which makes them special to xgrammar: they match nothing. So do the
    ids between the vocabulary's columns and the end of the last word of a row, whose bits it therefore leaves 0.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        columns = vocabulary.bitmask_width * 32
        self._tokenizer = xgrammar.TokenizerInfo(
            vocabulary.tokens(), vocab_type=xgrammar.VocabType.RAW, vocab_size=columns, stop_token_ids=[]
        )
        self._compiler = xgrammar.GrammarCompiler(
            self._tokenizer, max_threads=_threads(), cache_limit_bytes=_CACHE_BYTES
        )
        self._look_ahead = LookAhead(vocabulary)
        self._is_text = (vocabulary.kinds <= TokenKind.ADDED).tobytes().ljust(columns, b"\0")

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        match translate(spec):
            case Err() as error:
                return error
            case Ok(translation):
                if refusal := refused(spec, translation.unenforced):
                    return Err(refusal)
        return self._compile(translation.source).map(
            lambda native: XgrammarGrammar(
                native, self._is_text, self._look_ahead, translation.unenforced, translation.narrowed
            )
        )

    def _compile(self, source: Source) -> Result[xgrammar.CompiledGrammar, GrammarError]:
        try:
            return Ok(self._native(source))
        except RuntimeError as error:
            if isinstance(source, SchemaSource):
                return Err(schema_error(error, is_simple=source.is_simple))
            return Err(grammar_error(error, source.text))

    def _native(self, source: Source) -> xgrammar.CompiledGrammar:
        """Grammars are compiled from text: from an object xgrammar's cache prints them, and then reads another one."""
        match source:
            case SchemaSource(text, automata, serialization):
                grammar = xgrammar.Grammar.from_json_schema(
                    text,
                    any_whitespace=serialization.whitespace is Whitespace.ANY,
                    separators=_SEPARATORS[serialization.whitespace],
                    strict_mode=False,
                )
                return self._compiler.compile_grammar(link(str(grammar), automata, serialization.escapes))
            case TagSource(text, automata):
                grammar = xgrammar.Grammar.from_structural_tag(text)
                return self._compiler.compile_grammar(link(str(grammar), automata, Escapes.ANY))
            case LarkSource(text):
                return self._compiler.compile_lark(text)
            case EbnfSource(text, root):
                return self._compiler.compile_grammar(text, root_rule_name=root)

    def fill_batch(
        self, matchers: Sequence[XgrammarMatcher], bitmask: Bitmask, rows: Sequence[int]
    ) -> Sequence[Status]:
        going = [(matcher, row) for matcher, row in zip(matchers, rows, strict=True) if not matcher.is_terminated]
        if len(going) < _MIN_BATCH:
            return [matcher.fill(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]
        # One object a call: it holds the call's threads. A sequence that has ended would fail the whole batch.
        xgrammar.BatchGrammarMatcher(_threads()).batch_fill_next_token_bitmask(
            [matcher.native for matcher, _ in going], bitmask, [row for _, row in going]
        )
        for matcher, row in going:
            matcher.clear_stops(bitmask[row])
        return [Status.TERMINATED if matcher.is_terminated else Status.OK for matcher in matchers]
