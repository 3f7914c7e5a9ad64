"""Bitmask words to tokens, on the host: bit ``i`` of int32 word ``w`` is token ``32 * w + i``."""

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int32]


def unpack_row(words: Words, vocabulary: int) -> npt.NDArray[np.bool_]:
    """One row on the host: int32 [words] to bool [vocabulary].

    Bits from ``vocabulary`` on are dropped; tokens past the last word are False.
    """
    return np.unpackbits(_octets(words), count=vocabulary, bitorder="little").view(np.bool_)


def fitted(words: Words, vocabulary: int) -> Words:
    """Rows without what is past the vocabulary: int32 [n, words] to [n, at most ceil(vocabulary / 32)].

    The argument itself, or a view of it, where there is nothing to clear.
    """
    full, rest = divmod(vocabulary, 32)
    if rest == 0 or words.shape[1] <= full:
        return words[:, : full + (rest > 0)]
    cleared = words[:, : full + 1].copy()
    cleared[:, full] &= (1 << rest) - 1
    return cleared


def set_bits(words: Words) -> npt.NDArray[np.int64]:
    """Where the set bits of a row are, in order: int32 [words] to int64 [tokens]. Quick if few words have any."""
    at_words = np.flatnonzero(words)
    bits = np.flatnonzero(np.unpackbits(_octets(words[at_words]), bitorder="little").view(np.bool_))
    tokens: npt.NDArray[np.int64] = (at_words[bits >> 5] << 5) + (bits & 31)
    return tokens


def _octets(words: Words) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(words, dtype="<i4").view(np.uint8)
