"""The tokens that are certain are those of the whole text, however it goes on; for four ways of cutting texts."""

import json
from functools import cache
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.vocabularies import CanonicalTokens, from_huggingface
from tests.vocabulary.test_huggingface import byte_fallback_tokenizer, unigram_tokenizer

pytest.importorskip("tokenizers")

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

# The expressions that models' own tokenizer files have.
LLAMA_3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
O200K: Final = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CUTS: Final = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "llama3": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
    "o200k": pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(O200K), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    ),
}
WORDS: Final = ("name", "names", "value", "it's", "we're", "Ab", "ID", "id", "é", "中文", "12", "2025", "true", "null")
SIGNS: Final = (
    '"',
    '": ',
    '", "',
    '":"',
    "{",
    "}",
    "[",
    "]",
    ", ",
    "\n",
    "  ",
    " \n",
    "\\",
    "'",
    "/",
    "<tool",
    "_call>",
)


@cache
def trained(cuts: str) -> CanonicalTokens:
    """A tokenizer with a few hundred merges, of JSON and of what is between its signs."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = CUTS[cuts]
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    pairs = [(word, other) for word in WORDS for other in WORDS]
    texts = [json.dumps({word: [other, 2025], "it's": {other: None}}, indent=2) for word, other in pairs]
    texts += [json.dumps({word: other, other: "\\n"}) for word, other in pairs]
    tokenizer.train_from_iterator([*texts, *['":"', '","', "}}", "''s  \n \n", "aab", "  \n"] * 9], trainer)
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False)])
    return CanonicalTokens(tokenizer, from_huggingface(tokenizer, eos_token_ids=[tokenizer.get_vocab()["<|end|>"]]))


def texts() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(WORDS + SIGNS) | st.text(max_size=2), max_size=12).map("".join)


@pytest.mark.parametrize("cuts", CUTS)
@given(text=texts(), data=st.data())
def test_certain_tokens_are_those_of_the_whole_text(cuts: str, text: str, data: st.DataObject) -> None:
    certain = trained(cuts)
    whole = certain.encode(text)
    if (spelled := b"".join(map(certain.bytes_of, whole))) != text.encode():
        return  # a special token is in it
    known = data.draw(st.integers(0, len(whole)), label="tokens there before")
    start = len(b"".join(map(certain.bytes_of, whole[:known])))
    end = data.draw(st.integers(start, len(spelled)), label="bytes known")
    found = certain.after(whole[:known], spelled[start:end])
    assert list(found) == whole[known : known + len(found)]


@pytest.mark.parametrize("cuts", CUTS)
def test_a_key_is_certain_but_for_what_its_end_may_join(cuts: str) -> None:
    certain = trained(cuts)
    found = certain.after(certain.encode('{"value": null'), b', "name": ')
    assert b"".join(map(certain.bytes_of, found)) == b', "name":'


def test_nothing_is_certain_behind_tokens_that_are_not_canonical() -> None:
    certain = trained("gpt2")
    [n, a, m, e] = [certain.encode(letter)[0] for letter in "name"]
    assert certain.after([n, a, m, e], b's": 1') == ()


@pytest.mark.parametrize("tokenizer", [byte_fallback_tokenizer(), unigram_tokenizer()])
def test_a_tokenizer_without_pieces_or_bytes_makes_nothing_certain(tokenizer: Tokenizer) -> None:
    certain = CanonicalTokens(tokenizer, from_huggingface(tokenizer, eos_token_ids=[1]))
    assert not certain.is_usable
    assert certain.after((), b'{"name": 1}') == ()


def test_a_text_that_spells_a_special_token_has_no_certain_ones() -> None:
    assert trained("gpt2").after((), b'"name": <|end|>, "id": ') == ()
    assert trained("gpt2").after((), b'"name": <|end|') != ()
