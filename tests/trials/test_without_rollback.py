"""A real backend that has neither rollback nor fork, and knows one end of sequence, behind the same protocols.

maskforge hands its mask out as bytes, binds one EOS to the vocabulary and cannot go back. What that asked of the waist:
a row is plain memory that anybody can copy into; stop tokens are a matcher's own affair; the core replays.
"""

from collections.abc import Sequence
from typing import Any

import attrs
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from structout import BackendInfo, Err, ErrorKind, Finding, GrammarError, JsonSchema, Ok, Result, Status, Vocabulary
from structout.backend import BitmaskRow, CompiledGrammar, Matcher, SupportsFork, SupportsRollback
from structout.constraint import Constraint
from structout.drafts import fill_drafts
from structout.grammar import BoundBackend
from structout.spec import GrammarSpec
from tests.fakes import BYTES, EOS

maskforge = pytest.importorskip("maskforge")

SCHEMA = """{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", "é"]}},
             "required": ["a"], "additionalProperties": false}"""
WIDTH = BYTES.bitmask_width


@attrs.define(eq=False)
class MaskforgeMatcher:
    """A session, and the stop tokens that it does not know."""

    session: Any
    native_eos: int
    stops: frozenset[int]
    is_terminated: bool = False

    def fill(self, row: BitmaskRow) -> Status:
        if self.is_terminated:
            return Status.TERMINATED
        mask = bytearray(4 * self.session.mask_word_count)
        self.session.write_mask(mask)
        row.fill(0)
        row[: len(mask) // 4] = np.frombuffer(mask, np.int32)
        bits = row.view(np.uint32)
        bits[self.native_eos // 32] &= ~np.uint32(1 << self.native_eos % 32)
        for stop in self.stops:
            bit = np.uint32(1 << stop % 32)
            bits[stop // 32] = bits[stop // 32] | bit if self.is_accepting else bits[stop // 32] & ~bit
        return Status.OK

    def accept(self, token: int) -> Status:
        if self.is_terminated:
            return Status.TERMINATED
        if token in self.stops:
            self.is_terminated = self.is_accepting
            return Status.OK if self.is_terminated else Status.REJECTED
        if token == self.native_eos:
            return Status.REJECTED
        try:
            self.session.advance(token)
        except Exception as exc:
            if exc.args[:1] == ("IllegalToken",):
                return Status.REJECTED
            raise
        return Status.OK

    @property
    def is_accepting(self) -> bool:
        return bool(self.session.is_accepting)


@attrs.frozen(eq=False)
class MaskforgeGrammar:
    bound: Any
    native_eos: int
    unenforced: Sequence[Finding] = ()
    narrowed: Sequence[Finding] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        return MaskforgeMatcher(self.bound.start_session(), self.native_eos, frozenset(stop_token_ids))


class MaskforgeBackend:
    def __init__(self, vocabulary: Vocabulary) -> None:
        [self.eos, *_] = vocabulary.eos_token_ids
        tokens = [token or None for token in vocabulary.tokens()]
        self.vocabulary = maskforge.Vocabulary.from_id_ordered_tokens(tokens, eos_token_id=self.eos)
        self.compiler = maskforge.Compiler()

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, JsonSchema)
        try:
            return Ok(MaskforgeGrammar(self.compiler.compile(spec.schema()).bind(self.vocabulary), self.eos))
        except Exception as exc:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="refused", detail=str(exc)))


@pytest.fixture(scope="module")
def bound() -> BoundBackend:
    info = BackendInfo(id="maskforge", create=MaskforgeBackend, spec_kinds=frozenset({"json_schema"}))
    return BoundBackend.create(info, None, BYTES).unwrap()


def start(bound: BoundBackend, text: bytes = b"", *, stops: Sequence[int] = (EOS,)) -> Constraint:
    grammar = bound.compile(JsonSchema(SCHEMA)).unwrap()
    constraint = grammar.start(stop_token_ids=stops, max_rollback=64).unwrap()
    for token in text:
        assert constraint.accept(token) is Status.OK
    return constraint


def filled(constraint: Constraint) -> BitmaskRow:
    row = np.full(WIDTH, 77, np.int32)
    assert constraint.fill(row) is Status.OK
    return row


TEXT = b'{"a": -12, "b": "x"}'


def test_it_has_neither_ability(bound: BoundBackend) -> None:
    matcher = start(bound).matcher
    assert not isinstance(matcher, SupportsRollback | SupportsFork)


@settings(max_examples=40)
@given(length=st.integers(0, len(TEXT)), data=st.data())
def test_rollback_fork_and_drafts_are_emulated_and_say_what_they_cost(
    bound: BoundBackend, length: int, data: st.DataObject
) -> None:
    constraint = start(bound, TEXT[:length])
    before = filled(constraint)
    fork = constraint.fork().unwrap()
    assert constraint.replayed == length
    assert (filled(fork) == before).all()
    drafts = [*TEXT[length : length + 3], ord("?"), -1]
    rows = np.zeros((len(drafts) + 1, WIDTH), np.int32)
    assert fill_drafts(constraint, drafts, rows) == (len(TEXT[length : length + 3]), Status.OK, Status.OK)
    assert constraint.replayed == 2 * length
    assert (filled(constraint) == before).all()
    undone = data.draw(st.integers(0, length))
    assert constraint.rollback(undone) is Status.OK
    assert constraint.replayed == 2 * length + (length - undone if undone else 0)
    assert (filled(constraint) == filled(start(bound, TEXT[: length - undone]))).all()


def test_stop_tokens_are_the_sequences_own(bound: BoundBackend) -> None:
    stop = ord("!")
    constraint = start(bound, TEXT, stops=[stop])
    assert constraint.is_accepting
    row = filled(constraint).view(np.uint32)
    assert row[stop // 32] >> stop % 32 & 1
    assert not row[EOS // 32] >> EOS % 32 & 1
    assert constraint.accept(EOS) is Status.REJECTED
    assert constraint.accept(stop) is Status.OK
    assert constraint.is_terminated
    assert constraint.rollback(1) is Status.OK
    assert (filled(constraint).view(np.uint32) == row).all()
