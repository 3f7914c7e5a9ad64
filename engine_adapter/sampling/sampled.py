"""What the sampler returns: a token and a flag for each row."""

import enum
import functools
import struct
from array import array
from typing import Final, Protocol

import attrs
import numpy as np
import numpy.typing as npt
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


class Sampled(Protocol):
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

    @property
    def tokens(self) -> torch.Tensor: ...
    @property
    def flags(self) -> torch.Tensor: ...
    @property
    def logprobs(self) -> torch.Tensor: ...
    @property
    def top_tokens(self) -> torch.Tensor: ...
    @property
    def top_logprobs(self) -> torch.Tensor: ...

    def on_host(self) -> list[tuple[int, float, int]]:
        """Token, log-probability and flag of each row. Waits for the device."""
        ...


@attrs.frozen(eq=False)
class SampledTensors:
    """A `Sampled` on any device."""

    tokens: torch.Tensor
    flags: torch.Tensor
    logprobs: torch.Tensor
    top_tokens: torch.Tensor
    top_logprobs: torch.Tensor

    def on_host(self) -> list[tuple[int, float, int]]:
        return list(zip(self.tokens.tolist(), self.logprobs.tolist(), self.flags.tolist(), strict=True))


SAMPLED_ROW: Final = np.dtype([("token", np.int64), ("logprob", np.float32), ("flag", np.uint8)], align=True)
"""What `SampledRows` has of each row."""
_ROW: Final = struct.Struct("qfBxxx")
"""The same in Python, as quick to read beside a forward pass as NumPy's is slow to make."""
_NO_TOP: Final = (np.empty((0, 0), np.int64), np.empty((0, 0), np.float32))


@attrs.define(eq=False)
class SampledRows:
    """A `Sampled` on the host. Whoever reads it there never waits for its tensors to be made.

    Attributes:
        rows: the memory of `SAMPLED_ROW` [n].
        top: int64 [n, k] and float32 [n, k]; [0, 0] where no row asked for any.
    """

    rows: "array[int]"
    top: tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]] = _NO_TOP

    @classmethod
    def empty(cls, count: int, alternatives: int) -> "SampledRows":
        """To be written by whoever has its `memory`."""
        rows = array("b", bytes(count * _ROW.size))
        if not alternatives:
            return cls(rows)
        shape = (count, alternatives)
        return cls(rows, (np.empty(shape, np.int64), np.empty(shape, np.float32)))

    def memory(self) -> tuple[int, int, int, int]:
        """The address of the rows, k, and the addresses of the two arrays of ``top``; 0 for what is not there."""
        address = self.rows.buffer_info()[0]
        if self.top is _NO_TOP:
            return address, 0, 0, 0
        tokens, logprobs = self.top
        return address, tokens.shape[1], tokens.ctypes.data, logprobs.ctypes.data

    @functools.cached_property
    def _table(self) -> npt.NDArray[np.void]:
        return np.asarray(self.rows).view(SAMPLED_ROW)

    @functools.cached_property
    def tokens(self) -> torch.Tensor:
        return torch.from_numpy(self._table["token"])

    @functools.cached_property
    def flags(self) -> torch.Tensor:
        return torch.from_numpy(self._table["flag"])

    @functools.cached_property
    def logprobs(self) -> torch.Tensor:
        return torch.from_numpy(self._table["logprob"])

    @functools.cached_property
    def top_tokens(self) -> torch.Tensor:
        return torch.from_numpy(self.top[0].reshape(len(self._table), self.top[0].shape[1]))

    @functools.cached_property
    def top_logprobs(self) -> torch.Tensor:
        return torch.from_numpy(self.top[1].reshape(len(self._table), self.top[1].shape[1]))

    def on_host(self) -> list[tuple[int, float, int]]:
        return list(_ROW.iter_unpack(self.rows))
