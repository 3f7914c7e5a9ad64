"""Round trips and censuses on real vocabularies: SmolLM2 from GGUF and by transformers, Llama 3 from tiktoken."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structout.vocabularies import from_gguf, from_huggingface, from_tiktoken
from structout.vocabulary import TokenKind, Vocabulary
from tests.vocabulary.conftest import LLAMA3_ENDS, LLAMA3_SPECIAL

if TYPE_CHECKING:
    import tiktoken

TEXTS = (
    "The quick brown fox jumps over 13 lazy dogs.",
    '{"name": "Zoë", "tags": ["a\\n", "\\u00e9"], "n": -1.5e10}',
    "Grüße, naïve café, İstanbul, ǅ, ﬁne",
    "Быстрая коричневая лиса; Здравствуй, мир!",
    "敏捷的棕色狐狸。こんにちは、世界！ 안녕하세요 세계",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया สวัสดีชาวโลก",
    "👩‍👩‍👧‍👦🏳️‍🌈 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 🇪🇺 e\u0301 \u200b\ufeff\u2028",
    "def f(x):\n\tif x:\r\n        return  x   \n\n\n",
    "\x00\x01\x7f\x80\xad\xa0",
    " ▁ Ġ Ċ <0x0A> </s> [INST] ",
    " " * 100 + "\n" * 50,
    "",
)

# SmolLM2 was trained without tokens for these bytes; its tokenizer drops them from a text without a word.
SMOLLM2_MISSING = bytes([0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0, 0xC1, 0xF1, 0xF2, *range(0xF5, 0x100)])


def census(vocabulary: Vocabulary) -> dict[TokenKind, int]:
    return {TokenKind(kind): count for kind, count in Counter(vocabulary.kinds.tolist()).items()}


def missing_bytes(vocabulary: Vocabulary) -> bytes:
    """Bytes that are no token of their own."""
    tokens = set(vocabulary.tokens())
    return bytes(byte for byte in range(256) if bytes([byte]) not in tokens)


@pytest.mark.model
class TestSmolLM2:
    def test_census(self, smollm2: Vocabulary) -> None:
        assert census(smollm2) == {TokenKind.TEXT: 49_135, TokenKind.CONTROL: 17}
        assert smollm2.padded_size == 49_152
        assert smollm2.eos_token_ids == (2,)
        assert missing_bytes(smollm2) == SMOLLM2_MISSING

    def test_special_tokens_have_names_and_no_bytes(self, smollm2: Vocabulary) -> None:
        names = dict(smollm2.names)
        assert sorted(names) == list(range(17))
        assert (names[1], names[2], names[3], names[11]) == (
            "<|im_start|>",
            "<|im_end|>",
            "<repo_name>",
            "<jupyter_start>",
        )
        assert smollm2.decode(names) == b""

    def test_gguf_and_transformers_agree(self, smollm2: Vocabulary, smollm2_tokenizer: Any) -> None:
        assert from_huggingface(smollm2_tokenizer).fingerprint == smollm2.fingerprint

    def test_fingerprint_is_the_same_at_each_load(self, smollm2: Vocabulary, smollm2_file: Path) -> None:
        assert from_gguf(smollm2_file).fingerprint == smollm2.fingerprint

    def test_each_token_is_what_the_tokenizer_decodes(self, smollm2: Vocabulary, smollm2_tokenizer: Any) -> None:
        decode = smollm2_tokenizer.backend_tokenizer.decode
        for token_id in smollm2.ids(TokenKind.TEXT):
            # A token that ends inside a character is decoded to U+FFFD on both sides.
            assert smollm2.token(token_id).decode(errors="replace") == decode([token_id])

    @pytest.mark.parametrize("text", TEXTS)
    def test_decoding_undoes_encoding(self, smollm2: Vocabulary, smollm2_tokenizer: Any, text: str) -> None:
        token_ids = smollm2_tokenizer.encode(text, add_special_tokens=False)
        assert smollm2.decode(token_ids) == text.encode()

    @settings(max_examples=300)
    @given(text=st.text())
    def test_decoding_undoes_encoding_of_any_text(self, smollm2: Vocabulary, smollm2_tokenizer: Any, text: str) -> None:
        token_ids = smollm2_tokenizer.encode(text, add_special_tokens=False)
        assert smollm2.decode(token_ids) == text.encode().translate(None, SMOLLM2_MISSING)

    def test_a_special_token_in_a_text_is_no_text(self, smollm2: Vocabulary, smollm2_tokenizer: Any) -> None:
        token_ids = smollm2_tokenizer.encode("a<|im_start|>b", add_special_tokens=False)
        assert smollm2.decode(token_ids) == b"ab"


class TestLlama3:
    def test_census(self, llama3: Vocabulary) -> None:
        assert census(llama3) == {TokenKind.TEXT: 128_000, TokenKind.CONTROL: 256}
        assert llama3.padded_size == 128_256
        assert missing_bytes(llama3) == b""
        assert dict(llama3.names)[128_009] == "<|eot_id|>"
        assert llama3.decode(LLAMA3_SPECIAL.values()) == b""

    def test_an_encoding_is_the_same_as_its_file(
        self, llama3: Vocabulary, llama3_encoding: "tiktoken.Encoding"
    ) -> None:
        loaded = from_tiktoken(llama3_encoding, eos_token_ids=LLAMA3_ENDS)
        assert loaded.fingerprint == llama3.fingerprint

    def test_each_token_is_what_the_tokenizer_decodes(
        self, llama3: Vocabulary, llama3_encoding: "tiktoken.Encoding"
    ) -> None:
        expected = [llama3_encoding.decode_single_token_bytes(token_id) for token_id in range(128_000)]
        assert llama3.tokens()[:128_000] == expected

    @pytest.mark.parametrize("text", TEXTS)
    def test_decoding_undoes_encoding(
        self, llama3: Vocabulary, llama3_encoding: "tiktoken.Encoding", text: str
    ) -> None:
        assert llama3.decode(llama3_encoding.encode_ordinary(text)) == text.encode()

    @settings(max_examples=300)
    @given(text=st.text())
    def test_decoding_undoes_encoding_of_any_text(
        self, llama3: Vocabulary, llama3_encoding: "tiktoken.Encoding", text: str
    ) -> None:
        assert llama3.decode(llama3_encoding.encode_ordinary(text)) == text.encode()


def test_importing_the_loaders_loads_no_tokenizer() -> None:
    heavy = ("gguf", "sentencepiece", "tiktoken", "tokenizers", "torch", "transformers")
    code = f"import sys, structout.vocabularies; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
