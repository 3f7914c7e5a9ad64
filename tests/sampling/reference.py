"""The sampler's meaning, written once more: one row, in float64, as slowly and plainly as it can be said."""

import math
from collections.abc import Sequence
from itertools import accumulate, groupby

import attrs
import numpy as np
import numpy.typing as npt

from engine_adapter.sampling import SamplingParams

BORDER = 1e-6
"""How far a draw, or a share of the probability, may be from a border for either side to be right."""


def changed(
    logits: Sequence[float], params: SamplingParams, prompt: Sequence[int], output: Sequence[int]
) -> list[float]:
    """The logits after bias and penalties, which are in float32 by definition."""
    values = [np.float32(logit) for logit in logits]
    bias = dict(params.logit_bias)
    for token in {*bias, *prompt, *output} & set(range(len(values))):
        value = values[token] + np.float32(bias.get(token, 0.0))
        if token in prompt or token in output:
            repetition = np.float32(params.repetition_penalty)
            value = value / repetition if value > 0 else value * repetition
        count = output.count(token)
        penalty = params.frequency_penalty * count + params.presence_penalty * (count > 0)
        values[token] = value - np.float32(penalty)
    return [float(value) for value in values]


def probabilities(logits: Sequence[float], allowed: Sequence[bool], params: SamplingParams) -> dict[int, float]:
    """The tokens that are kept, in the order of their ids, with their probabilities."""
    kept = {token: logit for token, logit in enumerate(logits) if allowed[token]}
    best = max(kept.values())
    if params.is_greedy:
        return {min(token for token, logit in kept.items() if logit == best): 1.0}
    if params.top_k:
        bar = sorted(kept.values(), reverse=True)[: params.top_k][-1]
        kept = {token: logit for token, logit in kept.items() if logit >= bar}
    weights = {token: math.exp((logit - best) / params.temperature) for token, logit in kept.items()}
    if params.top_p < 1.0:
        nucleus = _nucleus(kept, weights, params.top_p)
        weights = {token: weight for token, weight in weights.items() if token in nucleus}
    weights = {token: weight for token, weight in weights.items() if weight >= params.min_p}
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def _nucleus(logits: dict[int, float], weights: dict[int, float], share: float) -> set[int]:
    """The tokens with less than ``share`` of the weight on tokens that are more likely."""
    target = share * sum(weights.values())
    nucleus: set[int] = set()
    above = 0.0
    for _, equals in groupby(sorted(logits, key=logits.__getitem__, reverse=True), key=logits.__getitem__):
        if above >= target:
            break
        tokens = list(equals)
        nucleus.update(tokens)
        above += sum(weights[token] for token in tokens)
    return nucleus


def is_right(
    token: int, uniform: float, logits: Sequence[float], allowed: Sequence[bool], params: SamplingParams
) -> bool:
    """Whether the draw picks ``token``; rounding may move a border, of two tokens or of what is kept, by `BORDER`."""
    return any(_picks(token, uniform, probabilities(logits, allowed, near)) for near in _neighbours(params))


def _neighbours(params: SamplingParams) -> list[SamplingParams]:
    return [
        attrs.evolve(
            params,
            top_p=min(1.0, params.top_p * (1 + top_p * BORDER)) if params.top_p < 1.0 else 1.0,
            min_p=min(1.0, params.min_p * (1 + min_p * BORDER)),
        )
        for top_p in (0, -1, 1)
        for min_p in (0, -1, 1)
    ]


def _picks(token: int, uniform: float, kept: dict[int, float]) -> bool:
    if token not in kept:
        return False
    end = dict(zip(kept, accumulate(kept.values()), strict=True))[token]
    return kept[token] > 0.0 and end - kept[token] - BORDER <= uniform <= end + BORDER


def logprobs(logits: Sequence[float], allowed: Sequence[bool], temperature: float) -> dict[int, float]:
    """Log-softmax over the allowed tokens at a temperature (1 for 0), most likely first, equals by id."""
    temperature = temperature or 1.0
    kept = {token: logit for token, logit in enumerate(logits) if allowed[token] and logit > -math.inf}
    best = max(kept.values())
    normalizer = math.log(sum(math.exp((logit - best) / temperature) for logit in kept.values()))
    return {
        token: (kept[token] - best) / temperature - normalizer
        for token in sorted(kept, key=lambda token: (-kept[token], token))
    }


def chi_square_z(observed: npt.NDArray[np.int64], probability: npt.NDArray[np.float64]) -> float:
    """How many standard deviations the chi-square statistic lies above its mean (Wilson and Hilferty, 1931)."""
    expected = probability * observed.sum()
    statistic = float(((observed - expected) ** 2 / expected).sum())
    spread = 2 / (9 * (len(observed) - 1))
    return float(((statistic / (len(observed) - 1)) ** (1 / 3) - (1 - spread)) / spread**0.5)
