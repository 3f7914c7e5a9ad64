"""The alphabets in which tokenizers write bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.vocabularies.spelling import byte_level, fallback_byte, spaced


def bytes_to_unicode() -> dict[int, str]:
    """GPT-2's alphabet as its encoder states it."""
    visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + place) for place, byte in enumerate(hidden)}


ALPHABET = bytes_to_unicode()


@given(st.binary())
def test_byte_level_undoes_the_alphabet(data: bytes) -> None:
    assert byte_level("".join(ALPHABET[byte] for byte in data)) == data


@given(st.text(), st.characters(exclude_characters=ALPHABET.values(), exclude_categories=["Cs"]), st.text())
def test_byte_level_leaves_a_token_outside_the_alphabet_as_it_is(before: str, outside: str, after: str) -> None:
    token = before + outside + after
    assert byte_level(token) == token.encode()


@given(st.text())
def test_byte_level_reads_tokens_as_the_decoder_of_tokenizers_does(token: str) -> None:
    decoders = pytest.importorskip("tokenizers.decoders")
    assert byte_level(token).decode(errors="replace") == decoders.ByteLevel().decode([token])


@given(st.text())
def test_the_marker_is_a_space_and_everything_else_is_itself(token: str) -> None:
    assert spaced(token) == token.encode().replace("▁".encode(), b" ")
    assert spaced(token, "_") == token.encode().replace(b"_", b" ")


def test_there_are_256_fallback_bytes() -> None:
    assert [fallback_byte(f"<0x{byte:02X}>") for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert fallback_byte("<0x0a>") == b"\n"


@pytest.mark.parametrize(
    "token", ["", "a", "<0x0A", "0x0A>", "<0xA>", "<0x0G>", "<0x+A>", "<0x0A> ", "<0x0A>\n", "<0x٠A>"]
)
def test_other_tokens_are_no_fallback_bytes(token: str) -> None:
    assert fallback_byte(token) is None
