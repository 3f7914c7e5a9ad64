"""Unpacking a bitmask on the host and by shifts."""

import numpy as np
import numpy.typing as npt
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from engine_adapter.sampling.bits import fitted, set_bits, unpack_row
from engine_adapter.sampling.torch_sampler import unpack_rows

masks = hnp.arrays(np.int32, st.tuples(st.integers(1, 3), st.integers(1, 4)))


@given(words=masks, vocabulary=st.integers(1, 150))
def test_bit_i_of_word_w_is_token_32w_plus_i(words: npt.NDArray[np.int32], vocabulary: int) -> None:
    width = 32 * words.shape[1]
    expected = [
        [token < width and bool(int(row[token // 32]) & (1 << token % 32)) for token in range(vocabulary)]
        for row in words
    ]
    assert [unpack_row(row, vocabulary).tolist() for row in words] == expected
    assert unpack_rows(torch.from_numpy(words), vocabulary).tolist() == expected


@given(words=masks, vocabulary=st.integers(1, 150))
def test_rows_that_fit_have_the_vocabulary_s_bits_only(words: npt.NDArray[np.int32], vocabulary: int) -> None:
    kept = words.copy()
    rows = fitted(words, vocabulary)
    assert [unpack_row(row, vocabulary).tolist() for row in rows] == [
        unpack_row(row, vocabulary).tolist() for row in kept
    ]
    assert not any(unpack_row(row, 200)[vocabulary:].any() for row in rows)
    assert rows.shape[1] <= -(-vocabulary // 32)
    assert (words == kept).all()


@given(words=masks)
def test_set_bits_are_found_in_order(words: npt.NDArray[np.int32]) -> None:
    bits = [np.flatnonzero(unpack_row(row, 32 * len(row))) for row in words]
    assert [set_bits(row).tolist() for row in words] == [each.tolist() for each in bits]
