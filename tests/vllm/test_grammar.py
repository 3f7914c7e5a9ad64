"""A constraint behind vLLM's interface."""

import hypothesis.strategies as st
from hypothesis import given

from engine_adapter.vllm.grammar import ConstraintGrammar, started
from structout import ErrorKind, GrammarError
from structout.backend import Matcher, Status
from tests.fakes import BYTES, EOS, ForkTrieMatcher, RollbackTrieMatcher, TrieMatcher, allowed, trie_grammar
from tests.vllm.support import RUBBISH, Params, bitmask

OPTIONS = ("abba", "acca", "b")
AB = 257
"""The token for both letters."""


class Failing(TrieMatcher):
    """Fails in whatever it is asked."""

    def fill(self, row: object) -> Status:
        raise RuntimeError("no")

    def accept(self, token: int) -> Status:
        raise RuntimeError("no")


class DeadEnd(TrieMatcher):
    """Finds that nothing can follow, and refuses whatever comes all the same."""

    def fill(self, row: object) -> Status:
        return Status.DEAD_END

    def accept(self, token: int) -> Status:
        return Status.REJECTED


class Told:
    """Who is told of refusals."""

    def __init__(self) -> None:
        self.causes: list[tuple[str, GrammarError]] = []

    def __call__(self, request_id: str, error: GrammarError) -> None:
        self.causes.append((request_id, error))


def grammar(matcher: type[Matcher] = ForkTrieMatcher, told: Told | None = None) -> ConstraintGrammar:
    compiled = trie_grammar(*OPTIONS, matcher=matcher)
    params = Params(all_stop_token_ids={EOS})
    return started(compiled, params, max_drafts=8, refused=told or Told()).unwrap()


def row_of(grammar: ConstraintGrammar) -> set[int]:
    rows = bitmask(3, BYTES.bitmask_width)
    grammar.fill_bitmask(rows, 1)
    assert (rows.numpy()[[0, 2]] == RUBBISH).all()
    return allowed(rows.numpy()[1], BYTES.padded_size)


def test_a_row_is_filled_in_its_place() -> None:
    assert row_of(grammar()) == {ord("a"), ord("b"), AB}


@given(st.sampled_from([TrieMatcher, RollbackTrieMatcher, ForkTrieMatcher]), st.lists(st.sampled_from([*b"abc", EOS])))
def test_trials_leave_no_trace(matcher: type[Matcher], drafts: list[int]) -> None:
    """However the matcher does it: drafts are judged as accepting them would, and taken back."""
    tried, other = grammar(matcher), grammar(matcher)
    valid = tried.validate_tokens(drafts)
    assert valid == drafts[: len(valid)]
    assert all(other.accept_tokens("id", [token]) for token in valid)
    assert len(valid) == len(drafts) or other.is_terminated() or not other.accept_tokens("id", [drafts[len(valid)]])
    assert tried.accept_tokens("id", valid)
    tried.rollback(len(valid))
    assert row_of(tried) == row_of(grammar(matcher))


def test_a_refused_token_says_why() -> None:
    told = Told()
    refusing = grammar(told=told)
    assert not refusing.accept_tokens("id", [ord("a"), ord("z")])
    ((request_id, error),) = told.causes
    assert (request_id, error.kind) == ("id", ErrorKind.REJECTED_TOKEN)


def test_a_dead_end_is_remembered_until_its_token_is_refused() -> None:
    told = Told()
    dead = grammar(DeadEnd, told)
    assert len(row_of(dead)) == BYTES.padded_size  # all ones: no NaN comes of it
    assert not dead.accept_tokens("id", [ord("a")])
    assert [error.kind for _, error in told.causes] == [ErrorKind.DEAD_END]


def test_a_backend_that_fails_ends_its_sequence_with_that() -> None:
    told = Told()
    failing = grammar(Failing, told)
    assert len(row_of(failing)) == BYTES.padded_size
    assert failing.validate_tokens([ord("a")]) == []
    assert not failing.accept_tokens("id", [ord("a")])
    assert [error.kind for _, error in told.causes] == [ErrorKind.BACKEND_FAILURE]


def test_after_the_end_whatever_comes_is_taken() -> None:
    ended = grammar()
    assert ended.accept_tokens("id", [ord("b"), EOS])
    assert ended.is_terminated()
    assert ended.accept_tokens("id", [ord("z")])
    assert len(row_of(ended)) == BYTES.padded_size


def test_a_rollback_that_cannot_be_done_ends_the_sequence() -> None:
    told = Told()
    rolled = grammar(told=told)
    rolled.rollback(3)
    assert not rolled.accept_tokens("id", [ord("a")])
    assert [error.kind for _, error in told.causes] == [ErrorKind.BACKEND_FAILURE]


def test_it_can_begin_again() -> None:
    again = grammar()
    assert again.accept_tokens("id", [ord("b"), EOS])
    again.reset()
    assert not again.is_terminated()
    assert row_of(again) == row_of(grammar())
