"""Stop tokens that a sequence is not to end with: any, before it has its least number of tokens; the model's own, where
they are to be ignored."""

import numpy as np
import torch

from engine_adapter.embedded.request import Sequence
from structout.backend import BitmaskRow


def withhold_stops(sequence: Sequence, logits: torch.Tensor, bitmask_row: BitmaskRow | None) -> None:
    """Changes a row of logits so that the sequence does not end with a token that it withholds.

    A grammar that allows nothing else has the last word: then the row stays as it is.

    Args:
        sequence: whose next token the row decides.
        logits: floating point [logit_width], the caller's own to change.
        bitmask_row: int32 [bitmask width]; None where no grammar constrains the token.
    """
    if not sequence.withheld:
        return
    stops = np.fromiter(sequence.withheld, np.int64)
    if bitmask_row is not None:
        words = bitmask_row.view(np.uint32).copy()
        np.bitwise_and.at(words, stops >> 5, ~(np.uint32(1) << (stops & 31).astype(np.uint32)))
        if not words.any():
            return
    logits[torch.from_numpy(stops)] = -torch.inf
