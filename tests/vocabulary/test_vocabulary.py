"""Laws of `Vocabulary` on small ones."""

import itertools
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.vocabulary import TokenKind, Vocabulary, VocabularyError, bitmask_width

TEXTUAL = (TokenKind.TEXT, TokenKind.ADDED)


@attrs.frozen
class Parts:
    """Arguments of `Vocabulary.from_tokens`."""

    tokens: tuple[bytes, ...]
    control: dict[int, str]
    added: frozenset[int]
    absent: frozenset[int]
    eos_token_ids: tuple[int, ...]
    padding: int

    def build(self) -> Vocabulary:
        return Vocabulary.from_tokens(
            self.tokens,
            eos_token_ids=self.eos_token_ids,
            control=self.control.items(),
            added=self.added,
            absent=self.absent,
            padded_size=len(self.tokens) + self.padding,
        )


@st.composite
def parts(draw: st.DrawFn) -> Parts:
    tokens = draw(st.lists(st.binary(max_size=3), max_size=8))
    ids = st.integers(0, max(len(tokens) - 1, 0))
    most = min(3, len(tokens))
    few = st.frozensets(ids, max_size=most)
    return Parts(
        tokens=tuple(tokens),
        control=draw(st.dictionaries(ids, st.text(max_size=2), max_size=most)),
        added=draw(few),
        absent=draw(few),
        eos_token_ids=tuple(draw(few)),
        padding=draw(st.integers(0, 3)),
    )


@given(parts())
def test_textual_tokens_keep_their_bytes_and_others_have_none(given: Parts) -> None:
    vocabulary = given.build()
    assert vocabulary.size == len(given.tokens)
    assert vocabulary.tokens() == [vocabulary.token(token_id) for token_id in range(vocabulary.size)]
    for token_id, (piece, kept) in enumerate(zip(given.tokens, vocabulary.tokens(), strict=True)):
        assert kept == (piece if vocabulary.kind(token_id) in TEXTUAL else b"")


@given(parts())
def test_the_kind_of_each_token(given: Parts) -> None:
    vocabulary = given.build()
    for token_id, piece in enumerate(given.tokens):
        meaningless = token_id in given.absent or not piece
        if token_id in given.control or (token_id in given.eos_token_ids and meaningless):
            expected = TokenKind.CONTROL
        elif meaningless:
            expected = TokenKind.ABSENT
        else:
            expected = TokenKind.ADDED if token_id in given.added else TokenKind.TEXT
        assert vocabulary.kind(token_id) is expected


@given(parts())
def test_every_id_is_of_one_kind(given: Parts) -> None:
    vocabulary = given.build()
    by_kind = [vocabulary.ids(kind) for kind in TokenKind]
    assert sorted(itertools.chain(*by_kind)) == list(range(vocabulary.size))
    assert vocabulary.ids(*TEXTUAL) == sorted(by_kind[TokenKind.TEXT] + by_kind[TokenKind.ADDED])


@given(parts(), st.lists(st.integers(-3, 12), max_size=6))
def test_decode_joins_the_bytes_and_knows_no_others(given: Parts, token_ids: list[int]) -> None:
    vocabulary = given.build()
    pieces = dict(enumerate(vocabulary.tokens()))
    assert vocabulary.decode(token_ids) == b"".join(pieces.get(token_id, b"") for token_id in token_ids)


@pytest.mark.parametrize("token_id", [-1, 3, 1000])
def test_an_id_outside_the_vocabulary_is_absent_and_has_no_bytes(token_id: int) -> None:
    vocabulary = Vocabulary.from_tokens([b"a", b"b", b"c"], eos_token_ids=[], padded_size=64)
    assert vocabulary.token(token_id) == b""
    assert vocabulary.kind(token_id) is TokenKind.ABSENT


def _meaning(vocabulary: Vocabulary) -> tuple[object, ...]:
    return (
        vocabulary.tokens(),
        vocabulary.kinds.tolist(),
        vocabulary.names,
        vocabulary.padded_size,
        vocabulary.eos_token_ids,
    )


@given(parts(), parts())
def test_fingerprints_are_equal_exactly_where_everything_is(one: Parts, other: Parts) -> None:
    first, second = one.build(), other.build()
    assert (first.fingerprint == second.fingerprint) == (_meaning(first) == _meaning(second))
    assert one.build().fingerprint == first.fingerprint


BASE = Parts((b"ab", b"c", b"", b"<s>"), {3: "<s>"}, frozenset(), frozenset(), (2,), 0)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": (b"a", b"bc", b"", b"<s>")},
        {"tokens": (b"c", b"ab", b"", b"<s>")},
        {"tokens": (b"ab", b"c", b"", b"<s>", b"")},
        {"control": {3: "<t>"}},
        {"control": {}},
        {"control": {2: "</s>", 3: "<s>"}},
        {"added": frozenset({0})},
        {"absent": frozenset({0})},
        {"eos_token_ids": (3,)},
        {"eos_token_ids": (2, 3)},
        {"padding": 1},
    ],
    ids=str,
)
def test_any_change_changes_the_fingerprint(change: dict[str, Any]) -> None:
    assert attrs.evolve(BASE, **change).build().fingerprint != BASE.build().fingerprint


def test_numpy_integers_are_integers() -> None:
    one: Any = np.int64(1)
    plain = Vocabulary.from_tokens([b"a", b""], eos_token_ids=[1], control=[(1, "</s>")], padded_size=8)
    numpy = Vocabulary.from_tokens([b"a", b""], eos_token_ids=[one], control=[(one, "</s>")], padded_size=8 * one)
    assert numpy.fingerprint == plain.fingerprint


@pytest.mark.parametrize("token_id", [-1, 2])
@pytest.mark.parametrize("argument", ["eos_token_ids", "added", "absent", "control"])
def test_an_id_out_of_range_is_refused(argument: str, token_id: int) -> None:
    ids: list[Any] = [(token_id, "<s>")] if argument == "control" else [token_id]
    arguments: dict[str, Any] = {"eos_token_ids": []} | {argument: ids}
    with pytest.raises(VocabularyError, match=rf"{argument}: {token_id} is not the id of one of the 2 tokens"):
        Vocabulary.from_tokens([b"a", b"b"], **arguments)


def test_logits_narrower_than_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="padded_size 1 is less than the 2 tokens"):
        Vocabulary.from_tokens([b"a", b"b"], eos_token_ids=[], padded_size=1)


def test_nothing_in_it_can_be_changed() -> None:
    vocabulary = BASE.build()
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.kinds[0] = TokenKind.CONTROL
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.offsets[0] = 1
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        vocabulary.padded_size = 99  # type: ignore[misc]


@given(st.integers(0, 10_000))
def test_a_bitmask_row_has_just_enough_words(columns: int) -> None:
    assert 0 <= 32 * bitmask_width(columns) - columns < 32
