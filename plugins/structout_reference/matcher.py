"""A compiled grammar and its matchers. A sequence is a list of charts, one for each token that was accepted."""

from collections.abc import Sequence

import attrs
import numpy as np

from structout.backend import BitmaskRow, Finding, Status
from structout.vocabulary import Vocabulary
from structout_reference.recognizer import Chart, Recognizer
from structout_reference.trie import Trie, advanced, tokens_after


@attrs.frozen(eq=False)
class ReferenceGrammar:
    """Rules ready to match over one vocabulary. It is exact, so it has no findings."""

    recognizer: Recognizer = attrs.field(repr=False)
    vocabulary: Vocabulary
    trie: Trie = attrs.field(repr=False)
    tokens: Sequence[bytes] = attrs.field(repr=False)
    unenforced: tuple[Finding, ...] = ()
    narrowed: tuple[Finding, ...] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> "ReferenceMatcher":
        """A matcher of the empty text. Rollback is unlimited."""
        return ReferenceMatcher(self, frozenset(stop_token_ids), [self.recognizer.first])

    def row(self, chart: Chart) -> BitmaskRow:
        """The text tokens that may follow, remembered with the chart."""
        row = chart.row
        if row is None:
            row = chart.row = self._packed(list(tokens_after(self.recognizer, chart, self.trie)))
        return row

    def _packed(self, tokens: list[int]) -> BitmaskRow:
        bits = np.zeros(self.vocabulary.bitmask_width * 32, np.bool_)
        bits[tokens] = True
        return np.packbits(bits, bitorder="little").view(np.int32)

    def after(self, chart: Chart, token: int) -> Chart | None:
        """The chart after a token; None if it may not follow, or does not stand for text."""
        data = self.tokens[token] if 0 <= token < len(self.tokens) else b""
        return advanced(self.recognizer, chart, data) if data else None


class ReferenceMatcher:
    """The state of one sequence. Charts never change, so going back and copying are operations on a list."""

    def __init__(self, grammar: ReferenceGrammar, stops: frozenset[int], charts: list[Chart]) -> None:
        self._grammar = grammar
        self._stops = stops
        self._charts = charts
        self._terminated = False

    @property
    def is_terminated(self) -> bool:
        return self._terminated

    @property
    def is_accepting(self) -> bool:
        return self._grammar.recognizer.is_complete(self._charts[-1])

    def fill(self, row: BitmaskRow) -> Status:
        if self._terminated:
            return Status.TERMINATED
        np.copyto(row, self._grammar.row(self._charts[-1]))
        self._set_stops(row, self.is_accepting)
        return Status.OK

    def _set_stops(self, row: BitmaskRow, allowed: bool) -> None:
        """Stop tokens are no text, whatever they spell: they are allowed exactly where the text is complete."""
        words = row.view(np.uint32)
        for token in self._stops:
            bit = np.uint32(1 << token % 32)
            words[token // 32] = words[token // 32] | bit if allowed else words[token // 32] & ~bit

    def accept(self, token: int) -> Status:
        if self._terminated:
            return Status.TERMINATED
        if token in self._stops:
            return self._stop()
        chart = self._grammar.after(self._charts[-1], token)
        if chart is None:
            return Status.REJECTED
        self._charts.append(chart)
        return Status.OK

    def _stop(self) -> Status:
        if not self.is_accepting:
            return Status.REJECTED
        self._terminated = True
        return Status.OK

    def rollback(self, tokens: int) -> Status:
        if tokens and self._terminated:
            self._terminated = False
            tokens -= 1
        if tokens:
            del self._charts[-tokens:]
        return Status.OK

    def fork(self) -> "ReferenceMatcher":
        copy = ReferenceMatcher(self._grammar, self._stops, self._charts.copy())
        copy._terminated = self._terminated
        return copy
