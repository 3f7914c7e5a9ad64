"""`from_huggingface` on small tokenizers of both families, and on those it refuses."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.vocabularies import from_huggingface
from structout.vocabulary import TokenKind, VocabularyError

pytest.importorskip("tokenizers")

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

SPACE = decoders.Replace("▁", " ")


def byte_level_tokenizer() -> Tokenizer:
    """GPT-2's kind: every byte, one merge, and added tokens at the end."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids = {character: token_id for token_id, character in enumerate(alphabet)} | {"Ġt": 256}
    tokenizer = Tokenizer(models.BPE(ids, [("Ġ", "t")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    # Its characters are in the alphabet, where they would stand for other bytes.
    tokenizer.add_tokens([AddedToken("ÀÉ", special=False)])
    return tokenizer


def byte_fallback_tokenizer(prefix: str = "▁") -> Tokenizer:
    """Llama 2's kind: three special tokens, every byte, and a few characters."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "t", "h", "▁t", "▁th", "日"]
    model = models.BPE(
        {text: token_id for token_id, text in enumerate(texts)},
        [("▁", "t"), ("▁t", "h")],
        unk_token="<unk>",
        fuse_unk=True,
        byte_fallback=True,
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(prefix), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [SPACE, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
    )
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.add_tokens([AddedToken("[tool]", special=False, normalized=False)])
    return tokenizer


def unigram_tokenizer() -> Tokenizer:
    """T5's kind: no bytes, so that most characters are unknown."""
    model = models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -1.0), ("a", -1.0), ("▁a", -1.0)], 2)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>"])
    return tokenizer


def with_decoder(decoder: decoders.Decoder | None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


class TestByteLevel:
    TOKENIZER = byte_level_tokenizer()
    VOCABULARY = from_huggingface(TOKENIZER, eos_token_ids=[257], padded_size=320)

    @given(st.text() | st.lists(st.sampled_from(["ÀÉ", "À", " t", " "])).map("".join))
    def test_decoding_undoes_encoding(self, text: str) -> None:
        assert self.VOCABULARY.decode(self.TOKENIZER.encode(text).ids) == text.encode()

    def test_every_token(self) -> None:
        assert Counter(self.VOCABULARY.tokens()[:256]) == Counter(bytes([byte]) for byte in range(256))
        assert self.VOCABULARY.tokens()[256:] == [b" t", b"", "ÀÉ".encode()]
        assert self.VOCABULARY.ids(TokenKind.ADDED) == [258]
        assert self.VOCABULARY.names == ((257, "<|end|>"),)
        assert (self.VOCABULARY.padded_size, self.VOCABULARY.eos_token_ids) == (320, (257,))

    def test_a_hole_in_the_ids_is_absent(self) -> None:
        tokenizer = Tokenizer(models.BPE({"a": 0, "b": 2}, []))
        tokenizer.decoder = decoders.ByteLevel()
        vocabulary = from_huggingface(tokenizer, eos_token_ids=[])
        assert vocabulary.tokens() == [b"a", b"", b"b"]
        assert vocabulary.ids(TokenKind.ABSENT) == [1]


class TestByteFallback:
    TOKENIZER = byte_fallback_tokenizer()
    VOCABULARY = from_huggingface(TOKENIZER, eos_token_ids=[2])

    @given(st.text(min_size=1))
    def test_decoding_undoes_encoding_but_for_the_prefix_and_the_marker(self, text: str) -> None:
        decoded = self.VOCABULARY.decode(self.TOKENIZER.encode(text).ids)
        assert decoded == (" " + text).replace("▁", " ").encode()

    def test_every_token(self) -> None:
        every_byte = [bytes([byte]) for byte in range(256)]
        rest = [b" ", b"t", b"h", b" t", b" th", "日".encode(), b"[tool]"]
        assert self.VOCABULARY.tokens() == [b"", b"", b"", *every_byte, *rest]
        assert self.VOCABULARY.names == ((0, "<unk>"), (1, "<s>"), (2, "</s>"))
        assert self.VOCABULARY.ids(TokenKind.ADDED) == [265]

    def test_without_byte_fallback_in_the_decoder_a_byte_token_is_text(self) -> None:
        tokenizer = byte_fallback_tokenizer()
        tokenizer.decoder = SPACE
        assert from_huggingface(tokenizer, eos_token_ids=[2]).token(3 + 0x0A) == b"<0x0A>"


@given(st.text(alphabet=" a", min_size=1))
def test_unigram_and_metaspace(text: str) -> None:
    tokenizer = unigram_tokenizer()
    vocabulary = from_huggingface(tokenizer, eos_token_ids=[1])
    assert vocabulary.names == ((0, "<pad>"), (1, "</s>"), (2, "<unk>"))
    assert vocabulary.tokens() == [b"", b"", b"", b" ", b"a", b" a"]
    prefix = "" if text.startswith(" ") else " "
    assert vocabulary.decode(tokenizer.encode(text).ids) == (prefix + text).encode()


class DecoderInPython:
    """What `tokenizers` takes as a custom decoder."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return tokens


@pytest.mark.parametrize(
    ("decoder", "step"),
    [
        (None, "{}"),
        (decoders.WordPiece(), '"WordPiece"'),
        (decoders.BPEDecoder(), '"BPEDecoder"'),
        (decoders.ByteFallback(), '"ByteFallback"'),
        (decoders.Sequence([SPACE, decoders.ByteLevel()]), '"ByteLevel"'),
        (decoders.Sequence([SPACE, decoders.Fuse(), decoders.ByteFallback()]), '"ByteFallback"'),
        (decoders.Sequence([SPACE, decoders.Strip(" ", 1, 0), decoders.Fuse()]), '"Strip"'),
        (decoders.Sequence([SPACE, decoders.Fuse(), decoders.Strip(" ", 0, 1)]), '"Strip"'),
        (decoders.Replace("▁", "_"), '"Replace"'),
        (decoders.Replace("ab", " "), '"Replace"'),
    ],
)
def test_another_decoder_is_refused(decoder: decoders.Decoder | None, step: str) -> None:
    with pytest.raises(VocabularyError, match="decoder is neither byte-level nor like SentencePiece's") as refusal:
        from_huggingface(with_decoder(decoder), eos_token_ids=[0])
    assert step in str(refusal.value)


def test_a_decoder_in_python_is_refused() -> None:
    with pytest.raises(VocabularyError, match="decoder cannot be read"):
        from_huggingface(with_decoder(decoders.Decoder.custom(DecoderInPython())), eos_token_ids=[0])


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (models.WordLevel({"a": 0}, "a"), "WordLevel"),
        (models.WordPiece({"a": 0}, unk_token="a"), "WordPiece"),
        (models.BPE({"a</w>": 0}, [], end_of_word_suffix="</w>"), "BPE with a prefix or suffix"),
        (models.BPE({"##a": 0}, [], continuing_subword_prefix="##"), "BPE with a prefix or suffix"),
    ],
)
def test_another_model_is_refused(model: models.Model, what: str) -> None:
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.ByteLevel()
    with pytest.raises(VocabularyError, match=f"the tokenizer's model is {what}"):
        from_huggingface(tokenizer, eos_token_ids=[0])


def test_what_is_no_fast_tokenizer_is_refused() -> None:
    not_fast: Any = object()
    with pytest.raises(VocabularyError, match=r"object is not a fast tokenizer\. Load it with AutoTokenizer"):
        from_huggingface(not_fast)


def test_without_the_package_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = byte_level_tokenizer()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(VocabularyError, match="package tokenizers cannot be imported"):
        from_huggingface(tokenizer, eos_token_ids=[0])


def test_a_tokenizer_that_names_no_end_is_refused() -> None:
    with pytest.raises(VocabularyError, match=r"names no end of sequence\. Pass eos_token_ids"):
        from_huggingface(byte_level_tokenizer())


def save_for_transformers(folder: Path) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=byte_fallback_tokenizer(), eos_token="</s>", extra_special_tokens={"eot_token": "<|turn|>"}
    )
    tokenizer.save_pretrained(folder)


def load_from_transformers(folder: Path) -> Any:
    return pytest.importorskip("transformers").AutoTokenizer.from_pretrained(folder)


def test_the_ends_are_those_of_the_tokenizer_and_of_its_folder(tmp_path: Path) -> None:
    save_for_transformers(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
    vocabulary = from_huggingface(load_from_transformers(tmp_path))
    assert vocabulary.eos_token_ids == (2, 266, 1)
    assert vocabulary.names == ((0, "<unk>"), (1, "<s>"), (2, "</s>"), (266, "<|turn|>"))
    assert from_huggingface(load_from_transformers(tmp_path), eos_token_ids=[1]).eos_token_ids == (1,)


@pytest.mark.parametrize(
    ("config", "ends"), [({"eos_token_id": 1}, (2, 266, 1)), ({"eos_token_id": None}, (2, 266)), ({}, (2, 266))]
)
def test_a_folder_may_name_one_end_or_none(
    tmp_path: Path, config: dict[str, int | None], ends: tuple[int, ...]
) -> None:
    save_for_transformers(tmp_path)
    (tmp_path / "generation_config.json").write_text(json.dumps(config))
    assert from_huggingface(load_from_transformers(tmp_path)).eos_token_ids == ends


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"generation_config\.json cannot be read: .* Repair it"),
        ('{"eos_token_id": "</s>"}', r"eos_token_id in .* is '</s>'\. Repair it"),
        ('{"eos_token_id": [1, null]}', r"eos_token_id in .* is \[1, None\]\. Repair it"),
    ],
)
def test_a_damaged_generation_config_is_refused(tmp_path: Path, content: str, message: str) -> None:
    save_for_transformers(tmp_path)
    (tmp_path / "generation_config.json").write_text(content)
    with pytest.raises(VocabularyError, match=message):
        from_huggingface(load_from_transformers(tmp_path))
