"""Many draws: their frequencies are the probabilities, also under real token masks."""

import numpy as np
import numpy.typing as npt
import pytest
import torch

from engine_adapter.sampling import SamplingBatch, SamplingParams, SamplingRows, request_uniform
from engine_adapter.sampling.bits import unpack_row
from engine_adapter.sampling.sampler import sample
from tests import corpora
from tests.sampling import reference
from tests.sampling.strategies import Batch, Sampler, every_sampler

DRAWS = 6_000


CUTS = [
    SamplingParams(),
    SamplingParams(temperature=0.7),
    SamplingParams(top_k=20),
    SamplingParams(temperature=1.5, top_p=0.9),
    SamplingParams(temperature=1.5, min_p=0.1),
    SamplingParams(temperature=1.3, top_k=30, top_p=0.95, min_p=0.02),
]


@every_sampler
@pytest.mark.parametrize("params", CUTS)
def test_frequencies_are_the_probabilities(sampler: Sampler, params: SamplingParams) -> None:
    """Over a mask that allows every third token of two blocks."""
    _check_frequencies(sampler, params, np.arange(1120) % 3 == 0, 6_000)


@pytest.mark.long
@every_sampler
@pytest.mark.parametrize("allowed", [np.arange(1120) % 3 == 0, np.arange(1120) < 90], ids=["dense", "sparse"])
@pytest.mark.parametrize("params", CUTS)
def test_frequencies_of_many_draws(sampler: Sampler, params: SamplingParams, allowed: npt.NDArray[np.bool_]) -> None:
    _check_frequencies(sampler, params, allowed, 100_000)


def _check_frequencies(sampler: Sampler, params: SamplingParams, allowed: npt.NDArray[np.bool_], draws: int) -> None:
    """One request's own draws; p > 1e-4 is z < 3.72."""
    size = 1100
    rng = np.random.default_rng(5)
    logits = torch.from_numpy(np.where(np.arange(size) % 60 < 3, rng.normal(0, 1, size), -30.0).astype(np.float32))
    bitmask = np.packbits(allowed, bitorder="little").view(np.int32)[None]
    uniforms = [request_uniform(11, position) for position in range(draws)]
    counts = np.zeros(size, dtype=np.int64)
    for part in range(0, draws, 1000):
        batch = Batch(logits.expand(1000, -1), [params] * 1000, uniforms[part : part + 1000], bitmask, [0] * 1000)
        counts += np.bincount(sampler(batch).tokens.numpy(), minlength=size)
    kept = reference.probabilities(logits.tolist(), allowed.tolist(), params)
    likely = [token for token in kept if kept[token] * draws > 5]
    assert counts.sum() - counts[likely].sum() <= 5
    share = np.array([kept[token] for token in likely])
    assert reference.chi_square_z(counts[likely], share / share.sum()) < 3.72


@pytest.mark.long
@every_sampler
def test_no_token_of_a_million_is_forbidden(sampler: Sampler) -> None:
    """Masks of every density, logits whose likeliest tokens are mostly forbidden, and draws at both ends."""
    size, rows = 1001, 1000
    rng = np.random.default_rng(17)
    density = 10 ** rng.uniform(-3, 0, (rows, 1))
    allowed = rng.random((rows, 1024)) < density
    allowed[np.arange(rows), rng.integers(0, size, rows)] = True
    bitmask = np.packbits(allowed, axis=1, bitorder="little").view(np.int32)
    logits = torch.from_numpy(rng.normal(0, 6, (rows, size)).astype(np.float32))
    params = [SamplingParams(temperature=(0.0, 0.3, 0.8, 1.5)[row % 4]) for row in range(rows)]
    for _ in range(1000):
        uniforms = [0.0, 1.0 - 2.0**-53, *rng.random(rows - 2).tolist()]
        row_map = rng.permutation(rows)
        tokens = sampler(Batch(logits, params, uniforms, bitmask, row_map.tolist())).tokens.numpy()
        assert allowed[row_map, tokens].all()
        assert tokens.max() < size


def _real_masks(name: str) -> npt.NDArray[np.int32]:
    with np.load(corpora._find(f"corpora/masks/{name}.npz")) as arrays:
        masks: npt.NDArray[np.int32] = arrays["masks"]
    return masks


@every_sampler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_real_masks_are_kept_and_the_draw_is_right(sampler: Sampler, dtype: torch.dtype) -> None:
    masks = _real_masks("smollm2-49152")[:64]
    size = 49_152
    logits = torch.from_numpy(np.random.default_rng(3).normal(0, 4, (len(masks), size))).to(dtype)
    kinds = [
        SamplingParams(temperature=0),
        SamplingParams(temperature=0.8),
        SamplingParams(top_k=50, top_p=0.95),
        SamplingParams(top_p=0.9, logprobs=3),
    ]
    params = [kinds[row % len(kinds)] for row in range(len(masks))]
    uniforms = [request_uniform(row, 0) for row in range(len(masks))]
    batch = Batch(logits, params, uniforms, masks, list(range(len(masks))))
    tokens = sampler(batch).tokens.tolist()
    allowed = np.stack([unpack_row(mask, size) for mask in masks])
    assert allowed[np.arange(len(masks)), tokens].all()
    for row in range(0, len(masks), 5):
        logit_row = logits[row].float().tolist()
        assert reference.is_right(tokens[row], uniforms[row], logit_row, allowed[row].tolist(), params[row])


@every_sampler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_logprobs_under_real_masks(sampler: Sampler, dtype: torch.dtype) -> None:
    """Of a large vocabulary, against float64."""
    masks = _real_masks("llama3-128256")[:24]
    size = 128_256
    logits = torch.from_numpy(np.random.default_rng(4).normal(0, 4, (len(masks), size))).to(dtype)
    params = [SamplingParams(temperature=(0.5, 0.8, 1.3)[row % 3], logprobs=4) for row in range(len(masks))]
    uniforms = [request_uniform(row, 0) for row in range(len(masks))]
    sampled = sampler(Batch(logits, params, uniforms, masks, list(range(len(masks)))))
    for row, mask in enumerate(masks):
        tempered = logits[row].double().numpy() / params[row].temperature
        tempered[~unpack_row(mask, size)] = -np.inf
        expected = tempered - np.logaddexp.reduce(tempered)
        assert abs(expected[sampled.tokens[row]] - float(sampled.logprobs[row])) < 1e-3
        top = sampled.top_tokens[row][sampled.top_tokens[row] >= 0].numpy()
        assert np.abs(expected[top] - sampled.top_logprobs[row, : len(top)].numpy()).max() < 1e-3
        assert np.sort(expected)[::-1][: len(top)] == pytest.approx(expected[top])


def test_seeded_request_repeats_among_others() -> None:
    """A whole sequence: alone, and in batches that others join and leave, in another slot and row."""
    logits = torch.from_numpy(np.random.default_rng(1).normal(0, 1, (100, 500)).astype(np.float32))
    params = SamplingParams(seed=42, temperature=0.9, top_p=0.9)
    alone, crowd = SamplingBatch(), SamplingBatch()
    slot = alone.join(params)
    others = [crowd.join(SamplingParams(seed=number)) for number in range(12)]
    guest = crowd.join(params)
    for position in range(100):
        expected = sample(logits[position : position + 1], alone.rows([slot], [position])).tokens
        present = others[: position % 12]
        rows: SamplingRows = crowd.rows([*present, guest], [position] * (len(present) + 1))
        among = sample(logits[position].expand(len(rows), -1), rows).tokens
        assert int(among[-1]) == int(expected[0])
