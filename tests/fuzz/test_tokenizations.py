"""Every tokenization of a text is one: its tokens say the text, and they exist."""

import random

from hypothesis import given
from hypothesis import strategies as st

from structout.fuzz import tokenizations
from structout.fuzz.tokenizations import as_bytes, greedy, random_split
from structout.fuzz.vocabulary import byte_vocabulary, small_vocabulary
from structout.vocabulary import TokenKind, Vocabulary

texts = st.binary(max_size=12) | st.lists(st.sampled_from(small_vocabulary().tokens()), max_size=6).map(b"".join)
seeds = st.integers(0, 2**32)


@given(texts, seeds, st.sampled_from([small_vocabulary(), byte_vocabulary()]))
def test_they_say_the_text(data: bytes, seed: int, vocabulary: Vocabulary) -> None:
    found = dict(tokenizations(vocabulary, data, random.Random(seed)))
    assert next(iter(found)) == "bytes"
    assert len({tuple(tokens) for tokens in found.values()}) == len(found)
    for tokens in found.values():
        assert vocabulary.decode(tokens) == data
        assert all(vocabulary.kind(token) in (TokenKind.TEXT, TokenKind.ADDED) for token in tokens)


@given(texts)
def test_bytes_are_the_longest_and_greedy_takes_the_longest_token_first(data: bytes) -> None:
    known = small_vocabulary()
    single, longest = as_bytes(known, data), greedy(known, data)
    assert single is not None
    assert longest is not None
    assert single == list(data)
    if data:
        first = known.token(longest[0])
        assert not any(data.startswith(token) for token in known.tokens() if len(token) > len(first))


def test_splits_differ_and_a_seed_decides_them() -> None:
    data = b'{"name": "abc", "type": [[12, 2024]]}'
    one, other = (random_split(small_vocabulary(), data, random.Random(seed)) for seed in (1, 2))
    assert one != other
    assert one == random_split(small_vocabulary(), data, random.Random(1))


def test_a_text_that_has_no_tokens_has_no_tokenization() -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"ab", b"bc", b""], eos_token_ids=[3])
    assert as_bytes(vocabulary, b"ab") is None
    assert greedy(vocabulary, b"abc") is None
    assert list(tokenizations(vocabulary, b"c", random.Random(0))) == []
    assert dict(tokenizations(vocabulary, b"aab", random.Random(0)))["greedy"] == [0, 1]
