"""What a request's own parameters take from what its grammar allows."""

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from engine_adapter.vllm.grammar import ConstraintGrammar, started
from structout import ErrorKind, GrammarError
from structout.errors import Fault
from tests.fakes import BYTES, EOS, ForkTrieMatcher, allowed, trie_grammar
from tests.vllm.support import Params, bitmask

OPTIONS = ("abba", "acca", "b")
AB = 257
"""The token for both letters."""

TOKENS = [*b"abcx", AB, EOS]
WALKS = [b"", b"a", b"ab", b"abb", b"abba", b"ac", b"b"]

tokens = st.sampled_from(TOKENS)
words = st.lists(tokens, min_size=1, max_size=3)
limits = st.tuples(st.none() | st.lists(tokens, min_size=1), st.lists(words, max_size=3))


def grammar(
    allowed_token_ids: list[int] | None = None,
    bad_words: list[list[int]] | None = None,
    said: Sequence[int] = (),
    told: dict[str, GrammarError] | None = None,
) -> ConstraintGrammar:
    compiled = trie_grammar(*OPTIONS, matcher=ForkTrieMatcher)
    params = Params(all_stop_token_ids={EOS}, allowed_token_ids=allowed_token_ids, bad_words_token_ids=bad_words)
    refused = ({} if told is None else told).__setitem__
    return started(compiled, params, max_drafts=8, refused=refused, said=said).unwrap()


def row_of(grammar: ConstraintGrammar) -> set[int]:
    rows = bitmask(1, BYTES.bitmask_width)
    grammar.fill_bitmask(rows, 0)
    return allowed(rows.numpy()[0], BYTES.padded_size)


def left(given: set[int], allowed: list[int] | None, bad_words: list[list[int]], past: list[int]) -> set[int]:
    """What vLLM's samplers leave of a row."""
    kept = given if allowed is None else given & set(allowed)
    for *before, last in bad_words:
        if len(before) <= len(past) and past[len(past) - len(before) :] == before:
            kept = kept - {last}
    return kept


@given(limits, st.sampled_from(WALKS), st.lists(tokens, max_size=3))
def test_a_row_that_they_leave_nothing_of_is_flagged_and_no_other(
    limits: tuple[list[int] | None, list[list[int]]], walk: bytes, reasoned: list[int]
) -> None:
    """Also where a bad word has begun before the grammar did."""
    said, told = list(reasoned), dict[str, GrammarError]()
    limited, plain = grammar(*limits, said, told), grammar()
    for token in walk:
        row_of(limited)
        if not limited.accept_tokens("id", [token]):
            return  # it was flagged before
        plain.accept_tokens("id", [token])
        said.append(token)
    given_row = row_of(plain)
    kept = left(given_row, *limits, said)
    assert row_of(limited) == (given_row if kept else set(range(BYTES.padded_size)))
    assert limited.accept_tokens("id", [min(given_row)]) is bool(kept)
    assert bool(told) is not bool(kept)


@given(limits, st.lists(tokens, max_size=4), st.lists(tokens, max_size=3))
@example((None, [[ord("x"), ord("a"), ord("b")]]), [ord("a"), ord("b"), ord("b")], [ord("x")])
def test_drafts_end_where_a_token_is_withheld(
    limits: tuple[list[int] | None, list[list[int]]], drafts: list[int], reasoned: list[int]
) -> None:
    limited, plain = grammar(*limits, reasoned), grammar()
    expected: list[int] = []
    for token in plain.validate_tokens(drafts):
        if token not in left({token}, *limits, [*reasoned, *expected]):
            break
        expected.append(token)
    assert limited.validate_tokens(drafts) == expected


@pytest.mark.parametrize(
    ("allowed_token_ids", "bad_words", "named"),
    [
        ([ord("x")], None, "allowed_token_ids forbid"),
        (None, [[ord("a")], [ord("b")], [AB]], "bad_words forbid"),
        ([ord("a")], [[ord("a")]], "allowed_token_ids and bad_words forbid"),
    ],
)
def test_the_caller_is_told_what_forbids_it(allowed_token_ids: Any, bad_words: Any, named: str) -> None:
    told = dict[str, GrammarError]()
    limited = grammar(allowed_token_ids, bad_words, told=told)
    row_of(limited)
    assert not limited.accept_tokens("id", [ord("a")])
    assert named in told["id"].message
    assert (told["id"].kind, told["id"].fault) == (ErrorKind.DEAD_END, Fault.CALLER)
    assert told["id"].consequence.http_status == 400


def test_after_the_end_nothing_is_withheld() -> None:
    limited = grammar([ord("b"), EOS])
    assert limited.accept_tokens("id", [ord("b"), EOS])
    assert len(row_of(limited)) == BYTES.padded_size
    assert limited.accept_tokens("id", [ord("x")])


def test_a_row_is_as_wide_as_the_vocabulary() -> None:
    limited = grammar([0, BYTES.padded_size - 1])
    row = np.zeros((1, BYTES.bitmask_width), np.int32)
    row[0, -1] = np.int32(-(2**31))
    assert limited._withheld is not None
    assert limited._withheld.empties(row[0], limited.constraint) is None
