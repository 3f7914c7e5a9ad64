"""`from_tiktoken` on small encodings and files."""

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.vocabularies import from_tiktoken
from structout.vocabulary import TokenKind, VocabularyError

RANKS = {bytes([byte]): byte for byte in range(256)} | {b"ab": 256, "é".encode(): 257}
# A hole at 258 and 260.
SPECIAL = {"<|end|>": 259, "<|turn|>": 261}


def ranks_file(folder: Path, ranks: Mapping[bytes, int]) -> Path:
    file = folder / "tokenizer.model"
    file.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items()))
    return file


def test_a_file_and_its_special_tokens(tmp_path: Path) -> None:
    vocabulary = from_tiktoken(
        ranks_file(tmp_path, RANKS), special_tokens=SPECIAL, eos_token_ids=[259, 261], padded_size=264
    )
    assert vocabulary.tokens() == [*RANKS, b"", b"", b"", b""]
    assert vocabulary.names == ((259, "<|end|>"), (261, "<|turn|>"))
    assert vocabulary.ids(TokenKind.CONTROL) == [259, 261]
    assert vocabulary.ids(TokenKind.ABSENT) == [258, 260]
    assert vocabulary.eos_token_ids == (259, 261)
    assert vocabulary.padded_size == 264


def test_an_encoding_is_the_same_as_its_file(tmp_path: Path) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    own = {"<|end|>": 259}
    encoding = tiktoken.Encoding("small", pat_str=r"\S+|\s+", mergeable_ranks=RANKS, special_tokens=own)
    from_encoding = from_tiktoken(encoding, special_tokens={"<|turn|>": 261}, eos_token_ids=[259])
    from_file = from_tiktoken(ranks_file(tmp_path, RANKS), special_tokens=SPECIAL, eos_token_ids=[259])
    assert from_encoding.fingerprint == from_file.fingerprint


@given(st.text())
def test_decoding_undoes_encoding(text: str) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding("small", pat_str=r"\S+|\s+", mergeable_ranks=RANKS, special_tokens=SPECIAL)
    vocabulary = from_tiktoken(encoding, eos_token_ids=[259])
    assert vocabulary.decode(encoding.encode_ordinary(text)) == text.encode()


@pytest.mark.parametrize(
    "content",
    [b"\x00\x01binary", b"YQ== 0 b", b"YQ==\n", b"YQ== zero\n", b"Y 0\n", b"YW?I= 0\n"],
    ids=["binary", "odd", "no rank", "rank in words", "cut base64", "no base64"],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tokenizer.model"
    file.write_bytes(content)
    with pytest.raises(VocabularyError, match=r"tokenizer\.model cannot be read as a tiktoken file"):
        from_tiktoken(file, eos_token_ids=[])


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="No such file"):
        from_tiktoken(str(tmp_path / "absent.tiktoken"), eos_token_ids=[])


@pytest.mark.parametrize(
    ("ranks", "special", "message"),
    [
        ({b"a": 0, b"b": 0}, {}, "two tokens the same rank"),
        ({b"a": 0, b"b": 1}, {"<|end|>": 1}, r"special tokens \['<\|end\|>'\] share ids"),
        ({b"a": 0}, {"<|end|>": 1, "<|turn|>": 1}, "share ids"),
        ({b"a": 0}, {"<|end|>": -1}, "negative id"),
    ],
)
def test_ids_that_cannot_be_are_refused(
    tmp_path: Path, ranks: Mapping[bytes, int], special: Mapping[str, int], message: str
) -> None:
    with pytest.raises(VocabularyError, match=message):
        from_tiktoken(ranks_file(tmp_path, ranks), special_tokens=special, eos_token_ids=[])


def test_the_end_of_a_file_without_special_tokens_is_out_of_range(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="eos_token_ids: 259 is not the id of one of the 258 tokens"):
        from_tiktoken(ranks_file(tmp_path, RANKS), eos_token_ids=[259])
