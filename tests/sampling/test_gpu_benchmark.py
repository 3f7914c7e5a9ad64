"""What ``benchmarks.gpu_sampler`` does without a GPU: its masks, its sums, what it compares with, what it says."""

from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

from benchmarks import gpu_sampler
from engine_adapter.sampling import SamplingParams
from tests.sampling import reference
from tests.sampling.interpreted import by_gumbel


def _allowed(masks: gpu_sampler.Masks) -> list[int]:
    return [int(count) for count in np.unpackbits(masks.view(np.uint8), axis=1).sum(axis=1)]


@pytest.mark.parametrize("size", [5000, 128_256])
def test_synthetic_masks_are_bimodal(size: int) -> None:
    masks = gpu_sampler.synthetic_masks(size, count=40)
    assert masks.shape == (40, -(-size // 32))
    assert masks.dtype == np.int32
    parts = gpu_sampler.mixes(masks)
    assert {name: len(part) for name, part in parts.items()} == {"mix": 40, "sparse": 20, "dense": 20}
    assert max(_allowed(parts["sparse"])) <= 1024
    assert size / 2 < min(_allowed(parts["dense"])) <= max(_allowed(masks)) <= size
    assert min(_allowed(masks)) >= 1


def test_kind_of_mask_that_there_is_none_of_is_left_out() -> None:
    assert set(gpu_sampler.mixes(np.full((3, 4000), -1, dtype=np.int32))) == {"mix", "dense"}


def test_masks_are_read_from_a_file(tmp_path: Path) -> None:
    masks = gpu_sampler.synthetic_masks(100, count=4)
    np.savez(tmp_path / "masks.npz", masks=masks, n=np.zeros(4))
    assert (gpu_sampler.read_masks(tmp_path / "masks.npz") == masks).all()


def test_ratios_are_how_many_times_as_long_the_others_take() -> None:
    figure = gpu_sampler.Figure("mix", 32, "T=1", {"ours": 4.0, "apply": 20.0, "gumbel": 6.0})
    assert figure.ratios == {"apply": 5.0, "gumbel": 1.5}
    assert gpu_sampler.summary([figure], 2) == {
        "mix, B = 32, T=1": "4.0 us; apply 5.00 times, gumbel 1.50 times",
        "not measured, for want of time": "2 cases",
    }


def test_every_setting_and_mix_is_a_case() -> None:
    masks = gpu_sampler.synthetic_masks(5000, count=8)
    found = list(gpu_sampler.cases(masks, [1, 32]))
    assert len(found) == len(set(found)) == len(gpu_sampler.SETTINGS) * 3 * 2
    assert {setting for _, _, setting in found} == set(gpu_sampler.SETTINGS)


def test_peer_truncates_as_we_do() -> None:
    params = SamplingParams(top_k=7, top_p=0.8)
    logits = torch.from_numpy(np.random.default_rng(0).normal(0, 2, (5, 60)).astype(np.float32))
    cut = gpu_sampler._sorted_and_cut(logits, params)
    for row in range(5):
        kept = reference.probabilities(logits[row].tolist(), [True] * 60, params)
        assert torch.isfinite(cut[row]).nonzero().flatten().tolist() == list(kept)


@pytest.mark.parametrize("noisy", [False, True])
def test_gumbel_peer_takes_what_the_mask_allows(noisy: bool) -> None:
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(0, 1, (6, 1100)).astype(np.float32))
    bits = rng.random((6, 1120)) < 0.05
    bits[:, 3] = True
    bits[:, 1100:] = False
    bitmask = torch.from_numpy(np.packbits(bits, axis=1, bitorder="little").view(np.int32))
    tokens = by_gumbel(logits, bitmask, noisy=noisy).flatten()
    best = logits.masked_fill(~torch.from_numpy(bits[:, :1100]), -torch.inf).argmax(dim=-1)
    assert bits[np.arange(6), tokens.numpy()].all()
    assert (tokens.tolist() == best.tolist()) == (not noisy)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_it_says_that_there_is_no_device() -> None:
    app = typer.Typer()
    app.command()(gpu_sampler.main)
    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 1
    assert result.stderr == "there is no CUDA device: nothing was measured\n"


@pytest.mark.cuda
def test_it_measures() -> None:
    app = typer.Typer()
    app.command()(gpu_sampler.main)
    result = CliRunner().invoke(app, ["--json", "--rows", "2", "--rounds", "1", "--replays", "1", "--seconds", "60"])
    assert result.exit_code == 0, result.output
    assert '"figures": [{"mix": "mix"' in result.stdout
