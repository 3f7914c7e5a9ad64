"""One row's choice on the host: flags, truncation, the inverse CDF, and log-probabilities, over logits in the order of
token ids."""

import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from engine_adapter.sampling.sampled import RowFlag

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.intp]

_BLOCK: Final = 1024  # weights summed at once in the inverse CDF


class Settings(NamedTuple):
    """One row of `SamplingRows` as plain numbers."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    logprobs: int
    uniform: float

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing to cut off, and no log-probability to report."""
        cuts = not self.is_greedy and (self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0)
        return self.logprobs < 0 and not cuts


def flag_of(best: np.float32) -> RowFlag:
    """What a row is worth whose largest logit (NaN if any is) is ``best``."""
    if np.isfinite(best):
        return RowFlag.OK
    if np.isnan(best):
        return RowFlag.NAN
    return RowFlag.POSITIVE_INF if best > 0 else RowFlag.NOTHING_FINITE


def choose(logits: Floats, best: np.float32, settings: Settings) -> int:
    """The index of the row's choice. ``logits`` have a finite maximum, ``best``, and no NaN."""
    if settings.is_greedy:
        return int(logits.argmax())
    if not 0 < settings.top_k < len(logits):
        return _draw(logits, best, settings)
    cut = len(logits) - settings.top_k
    kept = np.flatnonzero(logits >= np.partition(logits, cut)[cut])
    return int(kept[_draw(logits[kept], best, settings)])


def _draw(logits: Floats, best: np.float32, settings: Settings) -> int:
    """Top-p and min-p, then the inverse CDF. Top-k is done; ``best`` is among ``logits``."""
    weights = weigh(logits, best, settings.temperature)
    if settings.top_p < 1.0:
        weights[logits < _top_p_threshold(logits, weights, settings)] = 0.0
    if settings.min_p > 0.0:
        weights[weights < settings.min_p] = 0.0
    return inverse_cdf(weights, settings.uniform)


def weigh(logits: Floats, best: np.float32, temperature: float) -> Floats:
    """exp((logits - best) / temperature): probabilities up to a factor, 1 for the best."""
    weights: Floats = logits - best
    weights /= temperature
    np.exp(weights, out=weights)
    return weights


def _top_p_threshold(logits: Floats, weights: Floats, settings: Settings) -> np.float32:
    """The logit of the token at which the mass, most likely first, reaches ``top_p`` of the whole.

    Tokens that weigh at most (1 - top_p) of the mean weigh together at most the share that is cut off, so they come
    after that token and need not be sorted.
    """
    total = weights.sum(dtype=np.float64)
    likely = logits[weights > (1.0 - settings.top_p) * total / len(weights)]
    likely = np.sort(likely)[::-1]
    mass = np.cumsum(weigh(likely, likely[0], settings.temperature), dtype=np.float64)
    crossing = mass.searchsorted(settings.top_p * total)
    return np.float32(likely[min(crossing, len(likely) - 1)])


def inverse_cdf(weights: Floats, uniform: float) -> int:
    """The first index at which the cumulative weight exceeds ``uniform`` of the whole: block first, then inside it."""
    if len(weights) <= _BLOCK:
        cumulative = weights.cumsum(dtype=np.float64)
        return _locate(cumulative, uniform * float(cumulative[-1]))[0]
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


def log_probabilities(logits: Floats, best: np.float32, at: Indices, temperature: float) -> Floats:
    """Those of the logits at the indices ``at``, after the temperature; at 0, which leaves one choice, before it."""
    temperature = temperature or 1.0
    total = np.log(weigh(logits, best, temperature).sum(dtype=np.float64))
    found: Floats = (logits[at] - best) / np.float32(temperature) - np.float32(total)
    return found


def largest(logits: Floats, count: int) -> Indices:
    """Indices of the ``count`` largest finite logits, or of all if there are fewer: largest first, equals by index."""
    if count == 0:
        return np.zeros(0, dtype=np.intp)
    cut = max(0, len(logits) - count)
    near = np.flatnonzero(logits >= np.partition(logits, cut)[cut])
    near = near[np.isfinite(logits[near])]
    return near[np.argsort(-logits[near], kind="stable")][:count]
