"""Batches to sample from: mixed rows, awkward vocabularies, ties, and rubbish wherever a mask forbids."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import strategies as st

from engine_adapter.sampling import SamplingParams, SamplingRows, request_uniform
from engine_adapter.sampling.sampled import RowFlag, Sampled, SampledTensors
from engine_adapter.sampling.sampler import sample
from engine_adapter.sampling.torch_sampler import changed, sample_batch
from tests.sampling import reference

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@attrs.frozen(eq=False)
class Batch:
    """The arguments of one call, and in ``allowed`` (bool [n, V]) what its masks mean."""

    logits: torch.Tensor
    params: list[SamplingParams]
    uniforms: list[float]
    bitmask: npt.NDArray[np.int32]
    row_map: list[int]
    so_far: list[tuple[list[int], list[int]]] | None = None

    @property
    def rows(self) -> SamplingRows:
        return SamplingRows.of(self.params, self.uniforms, self.so_far)

    @property
    def arguments(self) -> tuple[torch.Tensor, SamplingRows, npt.NDArray[np.int32], npt.NDArray[np.int64]]:
        """What a sampler of whole batches is given: bias and penalties are done by then."""
        rows = self.rows
        logits = changed(self.logits, rows.changes)
        return logits, attrs.evolve(rows, changes=None), self.bitmask, np.array(self.row_map, dtype=np.int64)

    @property
    def changed(self) -> list[list[float]]:
        """The logits after bias and penalties."""
        so_far = self.so_far or [([], [])] * len(self.params)
        with np.errstate(invalid="ignore"):  # what is forbidden may be inf
            return [
                reference.changed(logits, params, *tokens)
                for logits, params, tokens in zip(self.logits.float().tolist(), self.params, so_far, strict=True)
            ]

    @property
    def allowed(self) -> npt.NDArray[np.bool_]:
        return np.stack([self._allowed(row) for row in range(len(self.params))])

    def _allowed(self, row: int) -> npt.NDArray[np.bool_]:
        size = self.logits.shape[1]
        if self.row_map[row] < 0:
            return np.ones(size, dtype=np.bool_)
        words = self.bitmask[self.row_map[row]].tolist()
        return np.array(
            [token // 32 < len(words) and words[token // 32] >> token % 32 & 1 == 1 for token in range(size)]
        )

    def take(self, index: list[int]) -> "Batch":
        """The rows at ``index``, in its order, with the same masks."""
        return Batch(
            logits=self.logits[index],
            params=[self.params[row] for row in index],
            uniforms=[self.uniforms[row] for row in index],
            bitmask=self.bitmask,
            row_map=[self.row_map[row] for row in index],
            so_far=self.so_far and [self.so_far[row] for row in index],
        )


class Flagged(NamedTuple):
    """Four logits, the word of their mask (None for a row without one), and what comes of that."""

    logits: list[float]
    word: int | None
    flag: RowFlag
    token: int = -1


_NAN, _INF = math.nan, math.inf

FLAGGED: Final = (
    Flagged([_NAN, 1.0, 2.0, _INF], 0b0110, RowFlag.OK, 2),
    Flagged([0.0, 1.0, 2.0, 3.0], 0, RowFlag.EMPTY_MASK),
    Flagged([0.0, 1.0, 2.0, 3.0], ~0b1111, RowFlag.EMPTY_MASK),
    Flagged([_NAN, _INF, 2.0, 3.0], 0b1111, RowFlag.NAN),
    Flagged([1.0, 2.0, -_NAN, 3.0], 0b1111, RowFlag.NAN),
    Flagged([0.0, _INF, -_INF, _NAN], 0b0111, RowFlag.POSITIVE_INF),
    Flagged([-_INF, 5.0, -_INF, 9.0], 0b0101, RowFlag.NOTHING_FINITE),
    Flagged([0.0, 3.0, 1.0, 2.0], 0b1111, RowFlag.OK, 1),
    Flagged([_NAN, 0.0, 0.0, 0.0], None, RowFlag.NAN),
    Flagged([-_INF] * 4, None, RowFlag.NOTHING_FINITE),
    Flagged([0.0, 1.0, 5.0, 2.0], None, RowFlag.OK, 2),
)
"""A row for each flag, and neighbours that have none."""

Sampler = Callable[[Batch], Sampled]


def by_rows(batch: Batch) -> Sampled:
    """The door that callers use; on the CPU it takes row by row."""
    return sample(batch.logits, batch.rows, batch.bitmask, batch.row_map)


def at_once(batch: Batch) -> Sampled:
    """What runs on a device, here on the CPU."""
    return sample_batch(*batch.arguments)


def on_cuda(batch: Batch) -> Sampled:
    """The door, with logits on CUDA, and the bitmask sent there beforehand."""
    bitmask = torch.from_numpy(batch.bitmask).cuda()
    sampled = sample(batch.logits.cuda(), batch.rows, bitmask, batch.row_map)
    return SampledTensors(
        *(
            each.cpu()
            for each in (sampled.tokens, sampled.flags, sampled.logprobs, sampled.top_tokens, sampled.top_logprobs)
        )
    )


every_sampler = pytest.mark.parametrize("sampler", [by_rows, at_once, pytest.param(on_cuda, marks=pytest.mark.cuda)])

_tokens = st.integers(0, 40)
_penalties = st.just(0.0) | st.floats(-2.0, 2.0)

params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.0, 1.0, 1.0]) | st.floats(0.01, 5.0),
    top_k=st.just(0) | st.integers(1, 40),
    top_p=st.just(1.0) | st.floats(0.01, 1.0),
    min_p=st.just(0.0) | st.floats(0.0, 1.0),
    logprobs=st.none() | st.integers(0, 5),
    presence_penalty=_penalties,
    frequency_penalty=_penalties,
    repetition_penalty=st.just(1.0) | st.floats(0.5, 2.0),
    logit_bias=st.just({}) | st.dictionaries(_tokens, st.floats(-100.0, 100.0), max_size=5),
)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """1 to 5 rows, each greedy or not, free or not, whose mask allows some token with a finite logit."""
    size = draw(st.sampled_from([1, 2, 31, 32, 33, 100, 1024, 1025, 2500]))
    count = draw(st.integers(1, 5))
    words = max(1, -(-size // 32) + draw(st.sampled_from([0, 0, -1, 1, -40, 40])))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    masks = [_mask(rng, words, size, draw(st.sampled_from([0.0, 0.002, 0.01, 0.5, 0.99]))) for _ in range(count)]
    batch = Batch(
        logits=torch.from_numpy(np.stack([_logits(rng, size, draw(_shapes)) for _ in range(count)])),
        params=draw(st.lists(params, min_size=count, max_size=count)),
        uniforms=[draw(_uniforms) for _ in range(count)],
        bitmask=np.stack(masks),
        row_map=[draw(st.sampled_from([row, row, -1])) for row in range(count)],
        so_far=draw(st.none() | st.lists(_so_far, min_size=count, max_size=count)),
    )
    batch.logits[torch.from_numpy(~batch.allowed)] = draw(st.sampled_from([1000.0, torch.nan, torch.inf, -torch.inf]))
    return attrs.evolve(batch, logits=batch.logits.to(draw(st.sampled_from(DTYPES))))


_uniforms = st.sampled_from([0.0, 1.0 - 2.0**-53]) | st.integers(0, 99).map(lambda seed: request_uniform(seed, 0))

_prompt_tokens = _tokens | st.sampled_from([-1, -40, -(10**9), 10**9])
"""Those below 0 stand for what is no token, such as an image."""
_so_far = st.tuples(st.lists(_prompt_tokens, max_size=6), st.lists(_tokens, max_size=6))

_shapes = st.sampled_from(["wide", "narrow", "ties", "gaps"])


def _logits(rng: np.random.Generator, size: int, shape: str) -> npt.NDArray[np.float32]:
    """Random logits; the first is finite."""
    match shape:
        case "wide":
            values = rng.normal(0.0, 20.0, size)
        case "narrow":
            values = rng.normal(100.0, 0.1, size)
        case "ties":
            values = rng.integers(-2, 3, size).astype(np.float64)
        case _:
            values = np.where(rng.random(size) < 0.5, rng.normal(0.0, 3.0, size), -np.inf)
            values[0] = 0.0
    return values.astype(np.float32)


def _mask(rng: np.random.Generator, words: int, size: int, density: float) -> npt.NDArray[np.int32]:
    """A row that allows token 0 and others, and has every bit from ``size`` on set."""
    bits = rng.random(32 * words) < density
    bits[0] = True
    bits[size:] = True
    return np.packbits(bits, bitorder="little").view(np.int32)
