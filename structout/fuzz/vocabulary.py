"""A small vocabulary with everything that real ones have: what the oracles run on unless a real one is given."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt

from structout.vocabulary import TokenKind, Vocabulary

EOS: Final = "<|end|>"
SECOND_EOS: Final = "<|eot|>"
OTHER_CONTROL: Final = "<|start|>"
ADDED: Final = "<tool>"
"""The textual token that was added by hand."""

_STRUCTURE: Final = ('{"', '":', '": ', '",', '", ', '", "', '"}', '"]', '["', "[[", "]]", "}}", "},", "],", ", ", ": ")
_BLANKS: Final = ("  ", "    ", "\n\n", "\n  ", "\t\t", " \n")
_WORDS: Final = (
    "true",
    "false",
    "null",
    "name",
    "type",
    "ab",
    "abc",
    "ba",
    "aa",
    "bb",
    "id",
    "the",
    " the",
    " a",
    "Na",
)
_NUMBERS: Final = ("00", "01", "10", "12", "123", "-1", "-0", "0.", ".0", ".5", "1.", "e+", "1e", "E-", "20", "2024")
_ESCAPES: Final = ('\\"', "\\\\", "\\n", "\\u", "\\u00", '"\\', "\\/", "\\ud83d", "\\ude00")
_OTHER: Final = (
    "é",
    "ü",
    "ñ",
    "漢",
    "字",
    "漢字",
    "😀",
    "a.b",
    ".*",
    "))",
    "((",
    "()",
    "<a>",
    "</",
    "--",
    "::",
    "@",
    "a@",
    "'s",
)
_PARTIAL: Final = (b"a\xc3", b"\xe6\xbc", b"\xf0\x9f", b"\x98\x80", b"\x00\x00")


@cache
def small_vocabulary() -> Vocabulary:
    """A token for each byte, and some 120 more.

    Ids 0 to 255 are the bytes themselves. The others are what tokenizers merge: JSON punctuation across token
    boundaries, white space, words, digits, escapes, whole and partial UTF-8 characters. Then a hole, a textual added
    token, two ends of sequence and another control token, and padding that is no whole number of words.
    """
    merged = [*_STRUCTURE, *_BLANKS, *_WORDS, *_NUMBERS, *_ESCAPES, *_OTHER]
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += dict.fromkeys(text.encode() for text in merged if len(text.encode()) > 1)
    pieces += _PARTIAL
    absent = len(pieces)
    pieces += [b"", ADDED.encode(), b"", b"", b""]
    control = ((absent + 2, EOS), (absent + 3, SECOND_EOS), (absent + 4, OTHER_CONTROL))
    return Vocabulary.from_tokens(
        pieces,
        eos_token_ids=[absent + 2],
        control=control,
        added=[absent + 1],
        padded_size=len(pieces) + 37,
    )


def renumbered(vocabulary: Vocabulary) -> tuple[Vocabulary, npt.NDArray[np.intp]]:
    """The same tokens in the opposite order, with other padding; and their ids there, by their ids here."""
    last = vocabulary.size - 1
    other = Vocabulary.from_tokens(
        reversed(vocabulary.tokens()),
        eos_token_ids=[last - token for token in vocabulary.eos_token_ids],
        control=[(last - token, name) for token, name in vocabulary.names],
        added=[last - token for token in vocabulary.ids(TokenKind.ADDED)],
        padded_size=vocabulary.padded_size + 32,
    )
    return other, last - np.arange(vocabulary.size)


@cache
def byte_vocabulary() -> Vocabulary:
    """A token for each byte, and an end of sequence: what is accepted over it is the language alone."""
    return Vocabulary.from_tokens(
        [*(bytes([byte]) for byte in range(256)), b""], eos_token_ids=[256], control=[(256, EOS)]
    )


VOCABULARIES: Final[Mapping[str, Callable[[], Vocabulary]]] = {"small": small_vocabulary, "bytes": byte_vocabulary}
"""By the names that reports use."""
