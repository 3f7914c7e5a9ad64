"""Bitmask words to booleans: bit ``i`` of int32 word ``w`` is token ``32 * w + i``."""

import numpy as np
import numpy.typing as npt
import torch


def unpack_row(words: npt.NDArray[np.int32], vocabulary: int) -> npt.NDArray[np.bool_]:
    """One row on the host: int32 [words] to bool [vocabulary].

    Bits from ``vocabulary`` on are dropped; tokens past the last word are False.
    """
    octets = np.ascontiguousarray(words, dtype="<i4").view(np.uint8)
    return np.unpackbits(octets, count=vocabulary, bitorder="little").view(np.bool_)


def unpack_rows(words: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Rows on any device, by shifts: int32 [n, words] to bool [n, vocabulary]; the ends as in `unpack_row`."""
    shifts = torch.arange(32, dtype=torch.int32, device=words.device)
    bits = ((words.unsqueeze(-1) >> shifts) & 1).bool().flatten(1)[:, :vocabulary]
    return torch.nn.functional.pad(bits, (0, vocabulary - bits.shape[1]))
