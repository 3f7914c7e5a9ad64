"""The guard around a matcher: one set of laws, whatever the backend can or cannot do, and whatever it does wrong."""

from typing import Any, ClassVar

import attrs
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from structout import ErrorKind, GrammarError, GrammarFailure, Ok, Status
from structout.backend import BitmaskRow
from structout.constraint import AfterTokens, AtOffset, Constraint
from structout.drafts import fill_drafts
from structout.grammar import Grammar
from tests.fakes import (
    BYTES,
    EOS,
    MATCHER_TYPES,
    ForkTrieMatcher,
    RollbackTrieMatcher,
    TrieMatcher,
    allowed,
    trie_grammar,
)

WIDTH = BYTES.bitmask_width
OPTIONS = ("", "ab", "abcd", "ac", "éab", "b")


def new_row() -> BitmaskRow:
    return np.full(WIDTH, 12345, np.int32)


def start(
    matcher: type[TrieMatcher] = TrieMatcher, *, max_rollback: int = 8, options: tuple[str, ...] = OPTIONS
) -> Constraint:
    return trie_grammar(*options, matcher=matcher).start(max_rollback=max_rollback).unwrap()


def next_tokens(constraint: Constraint) -> set[int]:
    row = new_row()
    assert constraint.fill(row) is Status.OK
    return allowed(row, len(row) * 32)


class ConstraintMachine(RuleBasedStateMachine):
    """A constraint against its own history: after any calls it is what a new one is that was given its tokens."""

    @initialize(matcher=st.sampled_from(MATCHER_TYPES), offset=st.integers(0, 2))
    def starts(self, matcher: type[TrieMatcher], offset: int) -> None:
        self.grammar: Grammar = trie_grammar(*OPTIONS, matcher=matcher)
        self.activation = AtOffset(offset)
        self.constraint = self._fresh([])
        self.tokens: list[int] = []

    def _fresh(self, tokens: list[int]) -> Constraint:
        constraint = self.grammar.start(max_rollback=4, activation=self.activation).unwrap()
        for token in tokens:
            assert constraint.accept(token) is Status.OK
        return constraint

    @rule(data=st.data())
    def accepts_what_its_row_allows(self, data: st.DataObject) -> None:
        row = new_row()
        status = self.constraint.fill(row)
        if status is Status.OK:
            token = data.draw(st.sampled_from(sorted(allowed(row, WIDTH * 32))))
            assert self.constraint.accept(token) is Status.OK
            self.tokens.append(token)

    @rule(token=st.integers(-2, WIDTH * 32 + 2))
    def accepts_any_token_as_its_row_says(self, token: int) -> None:
        row = new_row()
        match self.constraint.fill(row):
            case Status.OK:
                expected = Status.OK if token in allowed(row, WIDTH * 32) else Status.REJECTED
            case Status.FREE:
                expected = Status.OK
            case other:
                expected = other
        if expected is Status.OK and not self.constraint.is_active and not 0 <= token < BYTES.size:
            return  # what a free token is, is the engine's affair
        assert self.constraint.accept(token) is expected
        if expected is Status.OK:
            self.tokens.append(token)

    @rule(tokens=st.integers(0, 6))
    def rolls_back(self, tokens: int) -> None:
        possible = tokens <= min(4, len(self.tokens))
        assert self.constraint.rollback(tokens) is (Status.OK if possible else Status.REJECTED)
        if possible:
            del self.tokens[len(self.tokens) - tokens :]

    @rule(data=st.data(), stay=st.booleans())
    def forks(self, data: st.DataObject, stay: bool) -> None:
        fork = self.constraint.fork().unwrap()
        other, self.constraint = (fork, self.constraint) if stay else (self.constraint, fork)
        row = new_row()
        if other.fill(row) is Status.OK:
            other.accept(data.draw(st.sampled_from(sorted(allowed(row, WIDTH * 32)))))

    @rule(drafts=st.lists(st.sampled_from([-1, EOS, *b"abcd", 257, 258, 259]), max_size=5))
    def verifies_drafts(self, drafts: list[int]) -> None:
        rows = np.zeros((len(drafts) + 1, WIDTH), np.int32)
        accepted, status, _ = fill_drafts(self.constraint, drafts, rows)
        step_by_step = self._fresh(self.tokens)
        row = new_row()
        assert step_by_step.fill(row) is status
        assert (rows[0] == row).all()
        for index, token in enumerate(drafts[:accepted], start=1):
            assert step_by_step.accept(token) is Status.OK
            step_by_step.fill(row)
            assert (rows[index] == row).all()
        if accepted < len(drafts) and not step_by_step.is_terminated:
            rejected = drafts[accepted]
            assert rejected < 0 or step_by_step.accept(rejected) is not Status.OK
        assert (rows[accepted + 1 :] == -1).all()

    @invariant()
    def is_what_its_tokens_make_it(self) -> None:
        if not hasattr(self, "constraint"):
            return
        fresh, row, expected = self._fresh(self.tokens), new_row(), new_row()
        assert self.constraint.fill(row) is fresh.fill(expected)
        assert (row == expected).all()
        assert self.constraint.tokens == tuple(self.tokens)
        assert self.constraint.is_accepting == fresh.is_accepting
        assert self.constraint.is_terminated == fresh.is_terminated
        assert self.constraint.error is None


TestConstraintMachine = ConstraintMachine.TestCase


def test_the_row_holds_the_stop_token_exactly_where_the_text_is_complete() -> None:
    constraint = start(options=("ab", "abcd"))
    assert EOS not in next_tokens(constraint)
    constraint.accept(257)
    assert next_tokens(constraint) == {EOS, ord("c"), 258}
    assert constraint.is_accepting


def test_after_the_end_nothing_is_accepted_and_the_row_is_harmless() -> None:
    constraint, row = start(), new_row()
    assert constraint.accept(EOS) is Status.OK
    assert constraint.is_terminated
    assert constraint.is_accepting
    assert constraint.fill(row) is Status.TERMINATED
    assert (row == -1).all()
    assert constraint.accept(EOS) is Status.TERMINATED
    assert constraint.rollback(1) is Status.OK
    assert not constraint.is_terminated


@pytest.mark.parametrize(("matcher", "replayed"), [(TrieMatcher, 2), (ForkTrieMatcher, 2), (RollbackTrieMatcher, 0)])
def test_a_rollback_that_is_emulated_says_what_it_cost(matcher: type[TrieMatcher], replayed: int) -> None:
    constraint = start(matcher)
    for token in b"abc":
        constraint.accept(token)
    constraint.rollback(1)
    assert constraint.replayed == replayed


@pytest.mark.parametrize(("matcher", "replayed"), [(TrieMatcher, 3), (RollbackTrieMatcher, 3), (ForkTrieMatcher, 0)])
def test_a_fork_that_is_emulated_says_what_it_cost(matcher: type[TrieMatcher], replayed: int) -> None:
    constraint = start(matcher)
    for token in b"abc":
        constraint.accept(token)
    assert constraint.fork().unwrap().replayed == 0
    assert constraint.replayed == replayed


def test_drafts_use_the_rollback_of_a_matcher_that_cannot_fork() -> None:
    constraint = start(RollbackTrieMatcher)
    assert fill_drafts(constraint, list(b"abcd"), np.zeros((5, WIDTH), np.int32)) == (4, Status.OK, Status.OK)
    assert (constraint.replayed, constraint.tokens) == (0, ())


def test_an_empty_row_is_a_dead_end() -> None:
    class NothingFollows(TrieMatcher):
        def fill(self, row: BitmaskRow) -> Status:
            row.fill(0)
            return Status.OK

    constraint, row = start(NothingFollows), new_row()
    assert constraint.fill(row) is Status.DEAD_END
    assert (row == -1).all()
    error = constraint.error_for(Status.DEAD_END)
    assert error.kind is ErrorKind.DEAD_END
    assert error.backend == "trie"


@given(token=st.integers(0, 32 * WIDTH - 1))
def test_a_row_of_one_token_is_none(token: int) -> None:
    class OneFollows(TrieMatcher):
        def fill(self, row: BitmaskRow) -> Status:
            row[:] = np.packbits(np.arange(32 * WIDTH) == token, bitorder="little").view(np.int32)
            return Status.OK

    assert next_tokens(start(OneFollows)) == {token}


class Raises(TrieMatcher):
    """Raises in every call, once it was started."""

    asked = 0

    def fill(self, row: BitmaskRow) -> Status:
        raise RuntimeError("secret")

    def accept(self, token: int) -> Status:
        raise SystemExit(3)

    @property
    def is_accepting(self) -> bool:
        Raises.asked += 1
        if Raises.asked % 2:  # the first time is the core's check that it is a matcher
            return False
        raise ZeroDivisionError

    def fork(self) -> "Raises":
        raise RuntimeError("secret")


class GivesUp(TrieMatcher):
    """Fails with what ``said`` says."""

    said: ClassVar[Any] = None

    def fill(self, row: BitmaskRow) -> Status:
        raise GrammarFailure(self.said)


def test_a_matcher_that_gives_up_says_what_the_caller_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    said = GrammarError(kind=ErrorKind.TOO_COMPLEX, message="there is too much of it", backend="somebody else")
    monkeypatch.setattr(GivesUp, "said", said)
    constraint = start(GivesUp)
    assert constraint.fill(new_row()) is Status.FAILED
    assert constraint.error == attrs.evolve(said, backend="trie", distribution="trie 1.0")


@pytest.mark.parametrize("said", ["secret", None, ErrorKind.TOO_COMPLEX])
def test_one_that_says_something_else_has_failed(monkeypatch: pytest.MonkeyPatch, said: object) -> None:
    monkeypatch.setattr(GivesUp, "said", said)
    constraint = start(GivesUp)
    assert constraint.fill(new_row()) is Status.FAILED
    assert constraint.error is not None
    assert constraint.error.kind is ErrorKind.BACKEND_FAILURE
    assert "secret" not in str(constraint.error.to_json())


class ReturnsNonsense(TrieMatcher):
    """Returns what is no status; False equals 0 and so `Status.OK`, and still must not pass for it."""

    def fill(self, row: BitmaskRow) -> Status:
        return None  # type: ignore[return-value]

    def accept(self, token: int) -> Status:
        return False  # type: ignore[return-value]


@pytest.mark.parametrize("matcher", [Raises, ReturnsNonsense])
def test_whatever_a_matcher_does_wrong_is_one_failure_that_names_it(matcher: type[TrieMatcher]) -> None:
    Raises.asked = 0
    constraint, row = start(matcher), new_row()
    assert constraint.fill(row) is Status.FAILED
    assert (row == -1).all()
    assert constraint.error is not None
    assert constraint.error.kind is ErrorKind.BACKEND_FAILURE
    assert (constraint.error.backend, constraint.error.distribution) == ("trie", "trie 1.0")
    assert "secret" not in str(constraint.error.to_json())
    assert constraint.accept(97) is Status.FAILED
    assert constraint.rollback(0) is Status.FAILED
    Raises.asked = 0
    accepting = start(matcher)
    assert accepting.accept(97) is Status.FAILED


def test_a_property_or_fork_that_raises_is_contained() -> None:
    Raises.asked = 0
    constraint = start(Raises)
    assert constraint.is_accepting is False
    assert constraint.error is not None
    Raises.asked = 0
    forked = start(Raises).fork()
    assert not isinstance(forked, Ok)
    assert forked.error.kind is ErrorKind.BACKEND_FAILURE


def test_a_matcher_whose_properties_raise_at_once_is_not_started() -> None:
    Raises.asked = 1
    refused = trie_grammar("a", matcher=Raises).start()
    assert not isinstance(refused, Ok)
    assert refused.error.kind is ErrorKind.BACKEND_FAILURE


@attrs.define(eq=False)
class FailsAhead(RollbackTrieMatcher):
    """Fails on the token ``c`` in whatever it is asked."""

    def accept(self, token: int) -> Status:
        if token == ord("c"):
            raise RuntimeError("secret")
        return RollbackTrieMatcher.accept(self, token)


def test_a_failure_among_drafts_leaves_the_state_as_it_was() -> None:
    constraint = start(FailsAhead)
    constraint.accept(ord("a"))
    rows = np.zeros((4, WIDTH), np.int32)
    assert fill_drafts(constraint, list(b"bcd"), rows) == (1, Status.OK, Status.OK)
    assert constraint.error is None
    assert constraint.tokens == (ord("a"),)
    assert next_tokens(constraint) == {ord("b"), ord("c")}


MISSHAPEN = {
    "too long": np.zeros(WIDTH + 1, np.int32),
    "too short": np.zeros(WIDTH - 1, np.int32),
    "64 bits": np.zeros(WIDTH, np.int64),
    "no integers": np.zeros(WIDTH, np.float32),
    "unsigned": np.zeros(WIDTH, np.uint32),
    "another byte order": np.zeros(WIDTH, np.dtype(np.int32).newbyteorder()),
    "a matrix": np.zeros((1, WIDTH), np.int32),
    "not aligned": np.frombuffer(bytearray(4 * WIDTH + 1), np.int32, WIDTH, 1),
    "not writable": np.frombuffer(bytes(4 * WIDTH), np.int32),
    "not contiguous": np.zeros(2 * WIDTH, np.int32)[::2],
}


@pytest.mark.parametrize("row", MISSHAPEN.values(), ids=MISSHAPEN)
def test_a_row_that_native_code_would_write_beyond_is_refused(row: BitmaskRow) -> None:
    with pytest.raises(ValueError, match="a bitmask row is"):
        start().fill(row)


@given(before=st.lists(st.sampled_from([97, 98, 99]), max_size=6))
def test_a_grammar_starts_behind_the_first_marker(before: list[int]) -> None:
    marker = (98, 99)
    constraint = trie_grammar("ab").start(activation=AfterTokens(marker), max_rollback=9).unwrap()
    row = new_row()
    for count, token in enumerate(before):
        seen = any(tuple(before[i : i + 2]) == marker for i in range(count - 1))
        if seen:
            break
        assert constraint.fill(row) is Status.FREE
        assert (row == -1).all()
        assert not constraint.is_accepting
        assert constraint.accept(token) is Status.OK
    found = any(constraint.tokens[i : i + 2] == marker for i in range(len(constraint.tokens)))
    assert constraint.is_active == found
    if found:
        assert next_tokens(constraint) == {ord("a"), 257}
        assert constraint.rollback(1) is Status.OK
        assert not constraint.is_active, "what activated it was taken back"


def test_stop_ids_outside_the_model_are_refused() -> None:
    refused = trie_grammar("a").start(stop_token_ids=[288])
    assert not isinstance(refused, Ok)
    assert refused.error.kind is ErrorKind.INVALID_SPEC
