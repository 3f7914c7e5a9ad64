"""What the sampler returns: a token and a flag for each row."""

import enum

import attrs
import torch


class RowFlag(enum.IntEnum):
    """Why a row has no token. Fits a byte; the numbers are stable. Where several are true, the first listed is given.

    OK: it has one. EMPTY_MASK: the mask allows no token of the vocabulary, a dead end of the grammar. The others are
    faults of the model's output. NAN: the logit of an allowed token is NaN. POSITIVE_INF: one is +inf.
    NOTHING_FINITE: all are -inf.
    """

    OK = 0
    EMPTY_MASK = 1
    NAN = 2
    POSITIVE_INF = 3
    NOTHING_FINITE = 4


@attrs.frozen(eq=False)
class Sampled:
    """One step's tokens, on the device of the logits.

    The log-probabilities are those of the masked and tempered distribution: log-softmax, over the tokens that the mask
    allows, of the logits after bias, penalties and temperature, before top-k, top-p and min-p. So an untruncated row's
    are those that its token was drawn with; every alternative listed is one the grammar allows; and a token that the
    grammar forced has 0. A greedy row's are at temperature 1: in the limit it would always say 0. On a row without a
    mask they are the plain log-softmax of those logits.

    Attributes:
        tokens: int64 [n]; -1 on a flagged row.
        flags: uint8 [n], `RowFlag`.
        logprobs: float32 [n], the token's; NaN on flagged rows and on rows that did not ask.
        top_tokens: int64 [n, k], the most likely allowed tokens, most likely first and equals by id; k is the most
            that any row asked for. -1 past what the row asked for or has.
        top_logprobs: float32 [n, k], theirs; -inf where the token is -1.
    """

    tokens: torch.Tensor
    flags: torch.Tensor
    logprobs: torch.Tensor
    top_tokens: torch.Tensor
    top_logprobs: torch.Tensor
