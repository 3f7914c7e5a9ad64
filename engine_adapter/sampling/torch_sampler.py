"""The sampler for a device: all rows at once in torch, decided by host arrays alone, so that nothing waits for it."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.penalties import LogitChanges
from engine_adapter.sampling.sampled import RowFlag, Sampled, SampledTensors

Bitmask = torch.Tensor | npt.NDArray[np.int32]
"""int32 [rows, words]: a tensor on the device of the logits, or an array on the host."""

_BLOCK: Final = 1024  # weights summed at once in the inverse CDF


def changed(logits: torch.Tensor, changes: Sequence[LogitChanges | None] | None) -> torch.Tensor:
    """The logits [n, V] after bias and penalties: in float32 if there are any, else as they are."""
    if changes is None:
        return logits
    floats = logits.float()
    parts = [(row, each, _known(each.tokens, logits.shape[1])) for row, each in enumerate(changes) if each]
    at = np.concatenate([np.full(len(known), row) for row, _, known in parts])
    tokens = np.concatenate([each.tokens[known] for _, each, known in parts])
    bias, repetition, penalty = (
        to_device(np.concatenate([getattr(each, name)[known] for _, each, known in parts]), logits.device)
        for name in ("bias", "repetition", "penalty")
    )
    place = (to_device(at, logits.device), to_device(tokens, logits.device))
    biased = floats[place] + bias
    return floats.index_put(place, torch.where(biased > 0, biased / repetition, biased * repetition) - penalty)


def _known(tokens: npt.NDArray[np.int64], vocabulary: int) -> npt.NDArray[np.intp]:
    """Where tokens are that a row of logits has. A prompt's may be below 0, as those that stand for an image."""
    return np.flatnonzero((tokens >= 0) & (tokens < vocabulary))


def sample_batch(logits: torch.Tensor, rows: SamplingRows, bitmask: Bitmask, row_map: npt.NDArray[np.int64]) -> Sampled:
    """`engine_adapter.sampling.sampler.sample` for logits [n, V] on any device, bias and penalties done already.

    Only the rows that ask for top-k, top-p or alternatives are sorted.
    """
    masked, empty = _masked(logits.float(), bitmask, row_map)
    best, index = masked.max(dim=-1)
    flags = _flags(best, empty)
    drawn = np.flatnonzero(rows.temperature > 0)
    if drawn.size:
        at = to_device(drawn, logits.device)
        index[at] = _draw(masked[at], best[at], rows.take(drawn))
    out = _result(index, flags, rows.settings.alternatives)
    asking = np.flatnonzero(rows.logprobs >= 0)
    if asking.size:
        _report(masked, index, rows.take(asking), to_device(asking, logits.device), out)
    return out


def _result(index: torch.Tensor, flags: torch.Tensor, alternatives: int) -> SampledTensors:
    """The result with its log-probabilities still blank."""
    shape = (len(index), alternatives)
    return SampledTensors(
        tokens=torch.where(flags == RowFlag.OK, index, -1),
        flags=flags,
        logprobs=torch.full(shape[:1], torch.nan, device=index.device),
        top_tokens=torch.full(shape, -1, device=index.device),
        top_logprobs=torch.full(shape, -torch.inf, device=index.device),
    )


def to_device(array: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """A copy on the device, which nobody waits for."""
    return torch.from_numpy(array).to(device, non_blocking=True)


def unpack_rows(words: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """Rows on any device, by shifts: int32 [n, words] to bool [n, vocabulary]; the ends as in `bits.unpack_row`."""
    shifts = torch.arange(32, dtype=torch.int32, device=words.device)
    bits = ((words.unsqueeze(-1) >> shifts) & 1).bool().flatten(1)[:, :vocabulary]
    return torch.nn.functional.pad(bits, (0, vocabulary - bits.shape[1]))


def _masked(
    logits: torch.Tensor, bitmask: Bitmask, row_map: npt.NDArray[np.int64]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logits with -inf where the mask forbids, and which rows allow nothing."""
    masked = logits
    empty = torch.zeros(len(logits), dtype=torch.bool, device=logits.device)
    bound = np.flatnonzero(row_map >= 0)
    if bound.size:
        at = to_device(bound, logits.device)
        allowed = unpack_rows(_words(bitmask, row_map[bound], logits.device), logits.shape[1])
        empty[at] = ~allowed.any(dim=-1)
        masked = masked.index_copy(0, at, torch.where(allowed, masked[at], -torch.inf))
    return masked, empty


def _words(bitmask: Bitmask, at: npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
    if isinstance(bitmask, torch.Tensor):
        return bitmask[to_device(at, device)]
    return to_device(bitmask[at], device)


def _flags(best: torch.Tensor, empty: torch.Tensor) -> torch.Tensor:
    flags = torch.zeros(len(best), dtype=torch.uint8, device=best.device)
    flags[best == -torch.inf] = RowFlag.NOTHING_FINITE
    flags[best == torch.inf] = RowFlag.POSITIVE_INF
    flags[best.isnan()] = RowFlag.NAN
    flags[empty] = RowFlag.EMPTY_MASK
    return flags


def _draw(logits: torch.Tensor, best: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
    """An index for each row. A row without a finite maximum gets one that means nothing."""
    temperature = to_device(rows.temperature, logits.device)
    weights = _weights(logits, best, temperature)
    cut = np.flatnonzero(rows.truncated)
    if cut.size:
        at = to_device(cut, logits.device)
        weights[at] = _truncated(logits[at], weights[at], best[at], temperature[at], rows.take(cut))
    return _inverse_cdf(weights, to_device(rows.uniforms, logits.device))


def _weights(logits: torch.Tensor, best: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """exp((logits - best) / temperature): probabilities up to a factor, 1 for the best."""
    return logits.sub(best.unsqueeze(-1)).div_(temperature.unsqueeze(-1)).exp_()


def _truncated(
    logits: torch.Tensor, weights: torch.Tensor, best: torch.Tensor, temperature: torch.Tensor, rows: SamplingRows
) -> torch.Tensor:
    """The weights with 0 for what top-k, top-p and min-p drop."""
    sorted_logits = logits.sort(dim=-1, descending=True).values
    last = to_device(
        (np.where(rows.top_k > 0, rows.top_k, logits.shape[1]).clip(max=logits.shape[1]) - 1), logits.device
    )
    top_k = sorted_logits.gather(1, last.unsqueeze(-1))
    sorted_weights = _weights(sorted_logits, best, temperature).masked_fill_(sorted_logits < top_k, 0.0)
    mass = sorted_weights.cumsum(dim=-1, dtype=torch.float64)
    share = to_device(rows.top_p, logits.device).unsqueeze(-1)
    crossing = torch.searchsorted(mass, share * mass[:, -1:]).clamp_(max=logits.shape[1] - 1)
    top_p = torch.where(share < 1.0, sorted_logits.gather(1, crossing), -torch.inf)
    min_p = to_device(rows.min_p, logits.device).unsqueeze(-1)
    return weights.masked_fill((logits < torch.maximum(top_k, top_p)) | (weights < min_p), 0.0)


def _inverse_cdf(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The first index at which the cumulative weight exceeds the uniform's share: block first, then inside it."""
    padding = -weights.shape[1] % _BLOCK
    blocks = torch.nn.functional.pad(weights, (0, padding)).view(len(weights), -1, _BLOCK)
    cumulative = blocks.sum(dim=-1, dtype=torch.float64).cumsum(dim=-1)
    block, rest = _locate(cumulative, uniforms * cumulative[:, -1])
    inside = blocks[torch.arange(len(blocks), device=blocks.device), block].cumsum(dim=-1, dtype=torch.float64)
    return (block * _BLOCK + _locate(inside, rest)[0]).clamp_(max=weights.shape[1] - 1)


def _locate(cumulative: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first index in each row whose cumulative weight exceeds its target, and how far the target lies inside it.

    A target that rounding has carried to the end is drawn back, so the index never has weight 0. On rows of NaN
    the index is some legal one.
    """
    end = cumulative[:, -1]
    target = torch.minimum(target, torch.nextafter(end, torch.zeros_like(end))).unsqueeze(-1)
    index = torch.searchsorted(cumulative, target, right=True).clamp_(max=cumulative.shape[1] - 1)
    before = cumulative.gather(1, (index - 1).clamp_(min=0)).masked_fill(index == 0, 0.0)
    return index.squeeze(-1), (target - before).squeeze(-1)


def _report(masked: torch.Tensor, index: torch.Tensor, rows: SamplingRows, at: torch.Tensor, out: Sampled) -> None:
    """Writes the log-probabilities of the rows ``at``, whose parameters are ``rows``; not of flagged rows."""
    logits = masked[at]
    logprobs = _logprobs(logits, rows)
    own = logprobs.gather(1, index[at].unsqueeze(-1)).squeeze(-1)
    out.logprobs[at] = own.masked_fill(out.flags[at] != RowFlag.OK, torch.nan)
    _list_most_likely(logits, logprobs, rows, at, out)


def list_alternatives(masked: torch.Tensor, rows: SamplingRows, at: torch.Tensor, out: Sampled) -> None:
    """Writes the most likely tokens of the rows ``at``, not of flagged ones.

    Args:
        masked: float32 [m, V], the logits of these rows, -inf where their masks forbid.
        rows: their parameters.
        at: int64 [m], where they are in ``out``.
        out: what to write to.
    """
    _list_most_likely(masked, _logprobs(masked, rows), rows, at, out)


def _logprobs(masked: torch.Tensor, rows: SamplingRows) -> torch.Tensor:
    """Log-softmax at each row's temperature, 1 for greedy ones."""
    temperature = to_device(np.where(rows.temperature > 0, rows.temperature, np.float32(1.0)), masked.device)
    tempered = (masked - masked.amax(dim=-1, keepdim=True)) / temperature.unsqueeze(-1)
    return tempered - tempered.logsumexp(dim=-1, keepdim=True)


def _list_most_likely(
    masked: torch.Tensor, logprobs: torch.Tensor, rows: SamplingRows, at: torch.Tensor, out: Sampled
) -> None:
    if count := min(out.top_tokens.shape[1], masked.shape[1]):
        top = masked.sort(dim=-1, descending=True, stable=True)
        values, tokens = logprobs.gather(1, top.indices[:, :count]), top.indices[:, :count]
        flagged = (out.flags[at] != RowFlag.OK).unsqueeze(-1)
        beyond = torch.arange(count, device=at.device) >= to_device(rows.logprobs, at.device).unsqueeze(-1)
        hidden = flagged | beyond | (top.values[:, :count] == -torch.inf)
        out.top_tokens[at, :count] = tokens.masked_fill(hidden, -1)
        out.top_logprobs[at, :count] = values.masked_fill(hidden, -torch.inf)
