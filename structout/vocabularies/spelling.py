"""The two ways in which tokenizers spell bytes as text."""

import re
from typing import Final

SPACE_MARKER: Final = "▁"
"""What SentencePiece writes for a space (U+2581)."""

# Bytes that the GPT-2 alphabet writes as the Latin-1 character of the same number.
_VISIBLE: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
# The others, ascending, are the characters from U+0100 on. The characters that they would be stand for nothing:
# they are sent beyond Latin-1, where encoding fails.
_HIDDEN: Final = tuple(byte for byte in range(0x100) if byte not in _VISIBLE)
_BYTE_OF: Final = dict.fromkeys(_HIDDEN, 0xFFFF) | {0x100 + place: byte for place, byte in enumerate(_HIDDEN)}

_BYTE_TOKEN: Final = re.compile("<0x([0-9A-Fa-f]{2})>")


def byte_level(token: str) -> bytes:
    """The bytes of a token in the GPT-2 alphabet, which has one printable character for each byte.

    Source of the alphabet: ``bytes_to_unicode`` in the encoder released with GPT-2. A token that is not written in it
    stands for itself in UTF-8, as it does for the decoder of `tokenizers`.
    """
    try:
        return token.translate(_BYTE_OF).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def spaced(token: str, marker: str = SPACE_MARKER) -> bytes:
    """The bytes of a SentencePiece token: UTF-8, with ``marker`` standing for a space wherever it is."""
    return token.replace(marker, " ").encode()


def fallback_byte(token: str) -> bytes | None:
    """The byte that a token such as ``<0x0A>`` stands for in a tokenizer with byte fallback; None for other tokens."""
    match = _BYTE_TOKEN.fullmatch(token)
    return bytes.fromhex(match[1]) if match else None
