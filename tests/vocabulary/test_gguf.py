"""`from_gguf` and `read_metadata` on small files, written by the package `gguf`."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from structout.vocabularies import from_gguf
from structout.vocabularies.gguf_metadata import read_metadata
from structout.vocabulary import TokenKind, VocabularyError

gguf = pytest.importorskip("gguf")

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
GPT2 = [
    ("<|end|>", CONTROL),
    ("a", NORMAL),
    ("Ġa", NORMAL),
    ("Ã", NORMAL),
    ("é<tool>", USER_DEFINED),
    ("[PAD5]", UNUSED),
    ("<|turn|>", NORMAL),
]
LLAMA = [
    ("<unk>", UNKNOWN),
    ("<s>", CONTROL),
    ("</s>", CONTROL),
    ("<0x0A>", BYTE),
    ("<0xFF>", BYTE),
    ("▁a▁", NORMAL),
    ("<0x0B>", NORMAL),
    ("▁▁", USER_DEFINED),
]


def write(file: Path, add: Callable[[Any], None]) -> Path:
    writer = gguf.GGUFWriter(file, "llama")
    add(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return file


def write_tokens(file: Path, model: str, tokens: list[tuple[str, int]], **ends: int) -> Path:
    def add(writer: Any) -> None:
        writer.add_tokenizer_model(model)
        writer.add_token_list([text for text, _ in tokens])
        writer.add_token_types([kind for _, kind in tokens])
        for end, token_id in ends.items():
            writer.add_uint32(f"tokenizer.ggml.{end}_token_id", token_id)

    return write(file, add)


def test_a_byte_level_tokenizer(tmp_path: Path) -> None:
    vocabulary = from_gguf(write_tokens(tmp_path / "m.gguf", "gpt2", GPT2, eos=0, eot=6, eom=0), padded_size=64)
    assert vocabulary.tokens() == [b"", b"a", b" a", b"\xc3", "é<tool>".encode(), b"", b""]
    assert vocabulary.ids(TokenKind.ADDED) == [4]
    assert vocabulary.ids(TokenKind.ABSENT) == [5]
    # The last is typed as normal, yet the file says that it ends a turn.
    assert vocabulary.names == ((0, "<|end|>"), (6, "<|turn|>"))
    assert vocabulary.eos_token_ids == (0, 6)
    assert vocabulary.padded_size == 64


def test_a_sentencepiece_tokenizer(tmp_path: Path) -> None:
    vocabulary = from_gguf(write_tokens(tmp_path / "m.gguf", "llama", LLAMA, eos=2))
    assert vocabulary.tokens() == [b"", b"", b"", b"\n", b"\xff", b" a ", b"<0x0B>", b"  "]
    assert vocabulary.names == ((0, "<unk>"), (1, "<s>"), (2, "</s>"))
    assert vocabulary.ids(TokenKind.ADDED) == [7]
    assert vocabulary.padded_size == 8


def test_the_ends_can_be_given_and_change_no_kind(tmp_path: Path) -> None:
    file = write_tokens(tmp_path / "m.gguf", "gpt2", GPT2)
    vocabulary = from_gguf(file, eos_token_ids=[1])
    assert vocabulary.eos_token_ids == (1,)
    assert vocabulary.kind(1) is TokenKind.TEXT


@pytest.mark.parametrize("ends", [{}, {"eos": 7}, {"eos": 2**32 - 1}])
def test_a_file_that_names_no_end_is_refused(tmp_path: Path, ends: dict[str, int]) -> None:
    with pytest.raises(VocabularyError, match=r"names no end of sequence\. Pass eos_token_ids"):
        from_gguf(write_tokens(tmp_path / "m.gguf", "gpt2", GPT2, **ends))


@pytest.mark.parametrize(
    ("model", "tokens", "message"),
    [
        ("bert", GPT2, "model is 'bert', not one of"),
        ("gpt2", [("<0x0A>", BYTE)], r"no tokens of type \[6\]"),
        ("llama", [("a", 0)], r"no tokens of type \[0\]"),
        ("llama", [("<0xZZ>", BYTE)], "byte token '<0xZZ>' is not written like <0x0A>"),
    ],
)
def test_another_tokenizer_is_refused(tmp_path: Path, model: str, tokens: list[tuple[str, int]], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        from_gguf(write_tokens(tmp_path / "m.gguf", model, tokens), eos_token_ids=[0])


def test_a_file_without_token_types_is_refused(tmp_path: Path) -> None:
    def add(writer: Any) -> None:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(["a"])

    with pytest.raises(VocabularyError, match="no type for each of them"):
        from_gguf(write(tmp_path / "m.gguf", add), eos_token_ids=[0])


VALUES: dict[str, tuple[str, Any]] = {
    "u8": ("add_uint8", 255),
    "i8": ("add_int8", -128),
    "u16": ("add_uint16", 65_535),
    "i16": ("add_int16", -32_768),
    "u32": ("add_uint32", 2**32 - 1),
    "i32": ("add_int32", -(2**31)),
    "u64": ("add_uint64", 2**64 - 1),
    "i64": ("add_int64", -(2**63)),
    "f32": ("add_float32", 0.5),
    "f64": ("add_float64", 0.1),
    "bool": ("add_bool", True),
    "string": ("add_string", "é\x00"),
    "strings": ("add_array", ["", "▁a"]),
    "ints": ("add_array", [1, -2, 3]),
    "floats": ("add_array", [0.5, -1.5]),
    "bools": ("add_array", [True, False]),
}


def write_values(file: Path) -> Path:
    def add(writer: Any) -> None:
        for key, (method, value) in VALUES.items():
            getattr(writer, method)(key, value)

    return write(file, add)


def test_metadata_of_every_type(tmp_path: Path) -> None:
    found = dict(read_metadata(write_values(tmp_path / "m.gguf")))
    assert found.pop("general.architecture") == "llama"
    assert found == {key: value for key, (_, value) in VALUES.items()}


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    content = write_values(tmp_path / "m.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in range(len(content)):
        cut.write_bytes(content[:length])
        with pytest.raises(VocabularyError, match=r"cut\.gguf cannot be read as GGUF"):
            read_metadata(cut)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0), patch=st.binary(min_size=1, max_size=16))
@example(at=16, patch=b"\xff" * 8)
@example(at=24, patch=b"\xff" * 8)
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, at: int, patch: bytes) -> None:
    file = write_tokens(tmp_path / "m.gguf", "llama", LLAMA, eos=2)
    content = bytearray(file.read_bytes())
    at %= len(content)
    content[at : at + len(patch)] = patch
    file.write_bytes(content)
    with contextlib.suppress(VocabularyError):
        from_gguf(file)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"GGML" + bytes(20), "does not start with GGUF"),
        (b"GGUF" + (1).to_bytes(4, "little") + bytes(16), r"version 1 is not among \(2, 3\)"),
        (b"GGUF" + (3).to_bytes(4, "big") + bytes(16), r"version 50331648 is not among \(2, 3\)"),
        (b"", "empty"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(VocabularyError, match=reason):
        from_gguf(file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="No such file"):
        from_gguf(tmp_path / "absent.gguf")
