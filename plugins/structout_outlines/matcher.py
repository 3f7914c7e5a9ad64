"""A compiled grammar and its matchers: walks over an index of states that all sequences share."""

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
from outlines_core import Index

from structout.backend import BitmaskRow, Finding, Status
from structout.errors import GrammarError
from structout.result import Result
from structout.vocabulary import Vocabulary, bitmask_width
from structout_outlines.saving import packed, unpacked


@attrs.define(eq=False)
class OutlinesGrammar:
    """An index of a pattern that ends with the end marker, and the rows of the states that have been filled.

    The rows need no bound of their own: states times tokens has one (`structout_outlines.automaton`), and a row takes
    an eighth of a byte for each.

    Attributes:
        index: transitions by state and token.
        first: the state of the empty text.
        vocabulary: fingerprint of the vocabulary.
        padded_size: columns of the logits.
        unenforced, narrowed: see `structout.backend.CompiledGrammar`.
        size_bytes: about what the index holds.
    """

    index: Index
    first: int
    vocabulary: str
    padded_size: int
    unenforced: tuple[Finding, ...]
    narrowed: tuple[Finding, ...]
    size_bytes: int
    _rows: dict[int, BitmaskRow] = attrs.field(init=False, factory=dict, repr=False)

    @property
    def end(self) -> int:
        """Token id of the end marker: the first that is none of the model's."""
        return self.padded_size

    def serialize(self) -> bytes:
        """What `deserialize` reads."""
        _, (index,) = self.index.__reduce__()
        said = {
            "first": self.first,
            "size_bytes": self.size_bytes,
            "unenforced": [attrs.asdict(finding) for finding in self.unenforced],
            "narrowed": [attrs.asdict(finding) for finding in self.narrowed],
        }
        return packed(bytes(index), said, vocabulary=self.vocabulary)

    @classmethod
    def deserialize(cls, data: bytes, vocabulary: Vocabulary) -> "Result[OutlinesGrammar, GrammarError]":
        """The grammar that was serialized, for the same vocabulary."""
        return unpacked(data, vocabulary=vocabulary.fingerprint).map(
            lambda parts: cls._read(*parts, vocabulary=vocabulary)
        )

    @classmethod
    def _read(cls, index: bytes, said: dict[str, Any], *, vocabulary: Vocabulary) -> "OutlinesGrammar":
        return cls(
            index=Index.from_binary(index),
            first=said["first"],
            vocabulary=vocabulary.fingerprint,
            padded_size=vocabulary.padded_size,
            unenforced=tuple(Finding(**finding) for finding in said["unenforced"]),
            narrowed=tuple(Finding(**finding) for finding in said["narrowed"]),
            size_bytes=said["size_bytes"],
        )

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> "OutlinesMatcher":
        """A matcher in the first state. Rollback is unlimited: it keeps one integer a token."""
        return OutlinesMatcher(self, frozenset(stop_token_ids), [self.first])

    def row(self, state: int) -> BitmaskRow:
        """The text tokens that the index allows; kept, since the library lists them as Python integers."""
        known = self._rows.get(state)
        if known is None:
            allowed = self.index.get_allowed_tokens(state) or ()
            tokens = np.fromiter(allowed, np.int64, len(allowed))
            bits = np.zeros(bitmask_width(self.padded_size) * 32, np.bool_)
            bits[tokens[tokens < self.padded_size]] = True
            known = self._rows[state] = np.packbits(bits, bitorder="little").view(np.int32)
        return known

    def is_complete(self, state: int) -> bool:
        """Whether the end marker may follow, and ends the pattern.

        Where it only may follow, a dot or the like took it for text.
        """
        behind = self.index.get_next_state(state, self.end)
        return behind is not None and self.index.is_final_state(behind)


def _stop_bits(stop_ids: frozenset[int]) -> tuple[tuple[int, int], ...]:
    """The word and the bit, as an int32, of each stop token."""
    return tuple((token >> 5, 1 << bit if (bit := token & 31) < 31 else -(1 << 31)) for token in stop_ids)


class OutlinesMatcher:
    """The state of one sequence: the states it went through, so that rollback only drops the last ones.

    Stop tokens never reach the index: where they end the text is decided here.
    """

    __slots__ = ("_grammar", "_states", "_stop_bits", "_stop_ids", "_terminated")

    def __init__(self, grammar: OutlinesGrammar, stop_ids: frozenset[int], states: list[int]) -> None:
        self._grammar = grammar
        self._stop_ids = stop_ids
        self._stop_bits = _stop_bits(stop_ids)
        self._states = states
        self._terminated = False

    @property
    def is_terminated(self) -> bool:
        return self._terminated

    @property
    def is_accepting(self) -> bool:
        return self._grammar.is_complete(self._states[-1])

    def fill(self, row: BitmaskRow) -> Status:
        if self._terminated:
            return Status.TERMINATED
        state = self._states[-1]
        np.copyto(row, self._grammar.row(state))
        if self._grammar.is_complete(state):
            for word, bit in self._stop_bits:
                row[word] |= bit
        else:
            for word, bit in self._stop_bits:
                row[word] &= ~bit
        return Status.OK

    def accept(self, token: int) -> Status:
        if self._terminated:
            return Status.TERMINATED
        if token in self._stop_ids:
            self._terminated = self.is_accepting
            return Status.OK if self._terminated else Status.REJECTED
        state = self._grammar.index.get_next_state(self._states[-1], token)
        if state is None or token >= self._grammar.padded_size:
            return Status.REJECTED
        self._states.append(state)
        return Status.OK

    def rollback(self, tokens: int) -> Status:
        if tokens and self._terminated:
            self._terminated = False
            tokens -= 1
        if tokens:
            del self._states[-tokens:]
        return Status.OK

    def fork(self) -> "OutlinesMatcher":
        copy = OutlinesMatcher(self._grammar, self._stop_ids, self._states.copy())
        copy._terminated = self._terminated
        return copy
