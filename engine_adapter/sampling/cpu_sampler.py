"""The sampler on the CPU: row by row in numpy, whose exp, sort and argmax are many times faster there than torch's.

A row whose mask allows few tokens is gathered and never looks at the rest of the vocabulary. Any other is weighed as a
whole, and then what is forbidden is taken out of the weights: its logits are never copied to be masked.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling.batch import SamplingRows
from engine_adapter.sampling.bits import fitted, set_bits, unpack_row
from engine_adapter.sampling.choosing import (
    Floats,
    Indices,
    Settings,
    choose,
    flag_of,
    inverse_cdf,
    largest,
    log_probabilities,
    weigh,
)
from engine_adapter.sampling.penalties import LogitChanges
from engine_adapter.sampling.sampled import RowFlag, Sampled

Mask = npt.NDArray[np.int32]

_SPARSE: Final = 4  # rows with bits in less than one word in so many are gathered


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


class _Logits:
    """The logits [n, V] of a step, of any strides and dtype, read as float32."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.width = logits.shape[1]
        self._logits = logits
        self._floats: npt.NDArray[np.float32] | None = logits.numpy() if logits.dtype == torch.float32 else None

    def row(self, row: int) -> Floats:
        """float32 [V]; may be a view of the caller's."""
        values: Floats = self._logits[row].float().numpy() if self._floats is None else self._floats[row]
        return values

    def at(self, row: int, tokens: Indices) -> Floats:
        """float32 [m], a copy: the logits of some tokens of a row."""
        if self._floats is None:
            values: Floats = self._logits[row][torch.from_numpy(tokens)].float().numpy()
        else:
            values = self._floats[row].take(tokens)
        return values


def sample_rows(logits: torch.Tensor, rows: SamplingRows, bitmask: Mask, row_map: npt.NDArray[np.int64]) -> Sampled:
    """`engine_adapter.sampling.sampler.sample` for logits [n, V] on the CPU."""
    out = _Output.blank(len(rows), rows.alternatives)
    if len(rows):
        source = _Logits(logits)
        columns = (rows.temperature, rows.top_k, rows.top_p, rows.min_p, rows.logprobs, rows.uniforms)
        changes = rows.changes or (None,) * len(rows)
        masks = fitted(bitmask, source.width)
        # Subtracting and dividing may reach -inf, a weight of 0, which is what is meant; one with NaN is flagged.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for row, (at, *settings) in enumerate(
                zip(row_map.tolist(), *(column.tolist() for column in columns), strict=True)
            ):
                words = None if at < 0 else masks[at]
                _sample_row(source, row, words, Settings(*settings), changes[row], out)
    return Sampled(*(torch.from_numpy(array) for array in out))


def _sample_row(
    logits: _Logits, row: int, words: Mask | None, settings: Settings, change: LogitChanges | None, out: _Output
) -> None:
    if settings.is_greedy and settings.is_plain and change is None:
        # The model mostly wants what the grammar allows, and then there is nothing to mask.
        best = _best_if_allowed(logits.row(row), words)
        if best is not None:
            out.tokens[row] = best
            return
    if words is None:
        _sample_whole(logits, row, None, settings, change, out)
        return
    filled = words != 0
    count = np.count_nonzero(filled)
    if count == 0:
        out.flags[row] = RowFlag.EMPTY_MASK
    elif count * _SPARSE < len(words):
        _sample_gathered(logits, row, set_bits(words, filled), settings, change, out)
    else:
        _sample_whole(logits, row, words, settings, change, out)


def _sample_gathered(
    logits: _Logits, row: int, tokens: Indices, settings: Settings, change: LogitChanges | None, out: _Output
) -> None:
    """Samples from the allowed ``tokens``, which are in order."""
    values = logits.at(row, tokens)
    if change is not None:
        found = np.minimum(tokens.searchsorted(change.tokens), len(tokens) - 1)
        hits = np.flatnonzero(tokens[found] == change.tokens)
        values[found[hits]] = change.changed(values[found[hits]], hits)
    _sample_values(values, tokens, settings, out, row)


def _sample_values(values: Floats, tokens: Indices | None, settings: Settings, out: _Output, row: int) -> None:
    """Samples from logits among which nothing is forbidden but -inf. ``tokens`` are theirs, if not all of the row."""
    best = values[values.argmax()]  # NaN if any is
    if flag := flag_of(best):
        out.flags[row] = flag
        return
    chosen = choose(values, best, settings)
    out.tokens[row] = chosen if tokens is None else tokens[chosen]
    if settings.logprobs >= 0:
        top = largest(values, settings.logprobs)
        logprobs = log_probabilities(values, best, np.append(top, chosen), settings.temperature)
        out.logprobs[row] = logprobs[-1]
        out.top_tokens[row, : len(top)] = top if tokens is None else tokens[top]
        out.top_logprobs[row, : len(top)] = logprobs[:-1]


def _sample_whole(
    source: _Logits, row: int, words: Mask | None, settings: Settings, change: LogitChanges | None, out: _Output
) -> None:
    logits = source.row(row)
    if change is not None:
        logits = logits.copy()
        known = np.flatnonzero(change.tokens < len(logits))
        tokens = change.tokens[known]
        logits[tokens] = change.changed(logits[tokens], known)
    if settings.is_plain and (best := _best_if_allowed(logits, words)) is not None:
        out.tokens[row] = best if settings.is_greedy else _draw_whole(logits, best, words, settings)
        return
    if words is not None:
        logits = np.where(unpack_row(words, len(logits)), logits, np.float32(-np.inf))
    _sample_values(logits, None, settings, out, row)


def _best_if_allowed(logits: Floats, words: Mask | None) -> int | None:
    """The first of the largest logits, if the mask allows it: then nothing that is forbidden weighs more."""
    token = int(logits.argmax())
    if not np.isfinite(logits[token]):
        return None
    word, bit = divmod(token, 32)
    allowed = words is None or (word < len(words) and int(words[word]) >> bit & 1)
    return token if allowed else None


def _draw_whole(logits: Floats, best: int, words: Mask | None, settings: Settings) -> int:
    weights = weigh(logits, logits[best], settings.temperature)
    if words is not None:
        weights *= unpack_row(words, len(weights))  # none is above 1, so there is no NaN
    return inverse_cdf(weights, settings.uniform)
