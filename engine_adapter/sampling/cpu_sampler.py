"""The sampler on the CPU: one row at a time in numpy, whose sort and argmax are many times faster there than torch's.

A row whose mask allows few tokens is gathered and never looks at the rest of the vocabulary.
"""

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.bits import unpack_row
from engine_adapter.sampling.sampled import RowFlag, Sampled

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.int32]

_SPARSE: Final = 8  # rows that allow less than one token in so many are gathered
_BLOCK: Final = 1024  # weights summed at once in the inverse CDF


class _Settings(NamedTuple):
    """One row of `SamplingRows` as plain numbers."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    logprobs: int
    uniform: float


class _Candidates(NamedTuple):
    """Logits in the order of token ids: of the allowed tokens only, or (``ids`` None) of all, the others -inf."""

    logits: Floats
    ids: Indices | None

    def token(self, index: int) -> int:
        return index if self.ids is None else int(self.ids[index])


class _Output(NamedTuple):
    """The arrays of a `Sampled`, while they are written."""

    tokens: npt.NDArray[np.int64]
    flags: npt.NDArray[np.uint8]
    logprobs: Floats
    top_tokens: npt.NDArray[np.int64]
    top_logprobs: Floats

    @classmethod
    def blank(cls, rows: int, alternatives: int) -> "_Output":
        return cls(
            tokens=np.full(rows, -1),
            flags=np.zeros(rows, dtype=np.uint8),
            logprobs=np.full(rows, np.nan, dtype=np.float32),
            top_tokens=np.full((rows, alternatives), -1),
            top_logprobs=np.full((rows, alternatives), -np.inf, dtype=np.float32),
        )


def sample_rows(logits: torch.Tensor, rows: SamplingRows, bitmask: Mask, row_map: npt.NDArray[np.int64]) -> Sampled:
    """`engine_adapter.sampling.sampler.sample` for logits [n, V] on the CPU."""
    out = _Output.blank(len(rows), rows.alternatives)
    columns = (rows.temperature, rows.top_k, rows.top_p, rows.min_p, rows.logprobs, rows.uniforms)
    # The subtraction and the division may reach -inf, a weight of 0, which is what is meant.
    with np.errstate(over="ignore", under="ignore"):
        for row, settings in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            mask = None if row_map[row] < 0 else bitmask[row_map[row]]
            _sample_row(logits[row], mask, _Settings(*settings), out, row)
    return Sampled(*(torch.from_numpy(array) for array in out))


def _best_if_allowed(logits: torch.Tensor, mask: Mask | None) -> int | None:
    """The first of the largest logits, if the mask allows it: then masking would not change it, and is not done."""
    values = logits.float().numpy()
    token = int(values.argmax())
    if not np.isfinite(values[token]):
        return None
    word, bit = divmod(token, 32)
    allowed = mask is None or (word < len(mask) and int(mask[word]) >> bit & 1)
    return token if allowed else None


def _candidates(logits: torch.Tensor, mask: Mask | None) -> _Candidates:
    if mask is None:
        return _Candidates(logits.float().numpy(), None)
    allowed = unpack_row(mask, len(logits))
    count = np.count_nonzero(allowed)
    if count * _SPARSE < len(logits) or count == 0:
        ids = np.flatnonzero(allowed)
        return _Candidates(logits[torch.from_numpy(ids)].float().numpy(), ids)
    masked = logits.to(torch.float32, copy=True).numpy()
    np.copyto(masked, -np.inf, where=~allowed)
    return _Candidates(masked, None)


def _sample_row(logits: torch.Tensor, mask: Mask | None, settings: _Settings, out: _Output, row: int) -> None:
    if settings.temperature == 0.0 and settings.logprobs < 0 and (token := _best_if_allowed(logits, mask)) is not None:
        out.tokens[row] = token
        return
    candidates = _candidates(logits, mask)
    if flag := _flag(candidates.logits):
        out.flags[row] = flag
        return
    index = _choose(candidates.logits, settings)
    out.tokens[row] = candidates.token(index)
    if settings.logprobs >= 0:
        _report(candidates, index, settings.logprobs, out, row)


def _flag(logits: Floats) -> RowFlag:
    if not len(logits):
        return RowFlag.EMPTY_MASK
    best = logits.max()  # NaN if any is
    if np.isfinite(best):
        return RowFlag.OK
    if np.isnan(best):
        return RowFlag.NAN
    return RowFlag.POSITIVE_INF if best > 0 else RowFlag.NOTHING_FINITE


def _choose(logits: Floats, settings: _Settings) -> int:
    """The index of the row's choice. ``logits`` have a finite maximum and no NaN."""
    if settings.temperature == 0.0:
        return int(logits.argmax())
    if not 0 < settings.top_k < len(logits):
        return _draw(logits, settings)
    cut = len(logits) - settings.top_k
    kept = np.flatnonzero(logits >= np.partition(logits, cut)[cut])
    return int(kept[_draw(logits[kept], settings)])


def _draw(logits: Floats, settings: _Settings) -> int:
    """Top-p and min-p, then the inverse CDF. Top-k is done; the largest logit is among ``logits``."""
    weights = _weights(logits, logits.max(), settings.temperature)
    if settings.top_p < 1.0:
        weights[logits < _top_p_threshold(logits, weights, settings)] = 0.0
    if settings.min_p > 0.0:
        weights[weights < settings.min_p] = 0.0
    return _inverse_cdf(weights, settings.uniform)


def _weights(logits: Floats, best: np.float32, temperature: float) -> Floats:
    """exp((logits - best) / temperature): probabilities up to a factor, 1 for the best."""
    weights: Floats = logits - best
    if temperature != 1.0:
        weights /= np.float32(temperature)
    np.exp(weights, out=weights)
    return weights


def _top_p_threshold(logits: Floats, weights: Floats, settings: _Settings) -> np.float32:
    """The logit of the token at which the mass, most likely first, reaches ``top_p`` of the whole.

    Tokens that weigh at most (1 - top_p) of the mean weigh together at most the share that is cut off, so they come
    after that token and need not be sorted.
    """
    total = weights.sum(dtype=np.float64)
    likely = logits[weights > (1.0 - settings.top_p) * total / len(weights)]
    likely = np.sort(likely)[::-1]
    mass = np.cumsum(_weights(likely, likely[0], settings.temperature), dtype=np.float64)
    crossing = mass.searchsorted(settings.top_p * total)
    return np.float32(likely[min(crossing, len(likely) - 1)])


def _inverse_cdf(weights: Floats, uniform: float) -> int:
    """The first index at which the cumulative weight exceeds ``uniform`` of the whole: block first, then inside it."""
    blocks = np.add.reduceat(weights, np.arange(0, len(weights), _BLOCK)).cumsum(dtype=np.float64)
    block, rest = _locate(blocks, uniform * float(blocks[-1]))
    inside = weights[block * _BLOCK : (block + 1) * _BLOCK].cumsum(dtype=np.float64)
    return block * _BLOCK + _locate(inside, rest)[0]


def _locate(cumulative: npt.NDArray[np.float64], target: float) -> tuple[int, float]:
    """The first index whose cumulative weight exceeds ``target``, and how far the target lies inside it.

    A target that rounding has carried to the end is drawn back, so the index never has weight 0.
    """
    target = min(target, math.nextafter(float(cumulative[-1]), 0.0))
    index = int(cumulative.searchsorted(target, side="right"))
    return index, target - float(cumulative[index - 1]) if index else target


def _report(candidates: _Candidates, index: int, alternatives: int, out: _Output, row: int) -> None:
    """Writes the log-probabilities of a row: of its choice and of the most likely tokens."""
    logits = candidates.logits
    best = logits.max()
    normalizer = best + np.log(_weights(logits, best, 1.0).sum(dtype=np.float64))
    out.logprobs[row] = logits[index] - normalizer
    for rank, top in enumerate(_largest(logits, alternatives)):
        out.top_tokens[row, rank] = candidates.token(int(top))
        out.top_logprobs[row, rank] = logits[top] - normalizer


def _largest(logits: Floats, count: int) -> Indices:
    """Indices of the ``count`` largest finite logits, or of all if there are fewer: largest first, equals by index."""
    if count == 0:
        return np.zeros(0, dtype=np.intp)
    cut = max(0, len(logits) - count)
    near = np.flatnonzero(logits >= np.partition(logits, cut)[cut])
    near = near[np.isfinite(logits[near])]
    return near[np.argsort(-logits[near], kind="stable")][:count]
