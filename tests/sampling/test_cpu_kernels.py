"""What the kernel's parts promise, and that it stays within its memory."""

import copy
import os
import pickle
import subprocess
import sys
from array import array
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.sampling import SamplingParams, SamplingRows
from engine_adapter.sampling.batch import StepSettings
from engine_adapter.sampling.sampled import RowFlag
from engine_adapter.sampling.sampler import batch_sampler, sample
from tests.sampling.strategies import Batch, batches, by_rows

kernels = pytest.importorskip("engine_adapter.sampling.cpu_kernels", reason="numba is not installed")

NO_MASK = np.zeros((0, 0), np.int32)
_finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
_floats = st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=80)


@given(
    values=st.lists(st.floats(-200, 200, width=32) | st.just(-np.inf), min_size=1, max_size=80),
    temperature=st.floats(0.015625, 100.0, width=32),
)
def test_weights_are_exponentials(values: list[float], temperature: float) -> None:
    logits, found = np.array(values, np.float32), np.empty(len(values), np.float32)
    best = max(logits.max(), np.float32(0.0))
    kernels._weigh(logits, best, np.float32(temperature), found)
    exponents = (logits.astype(np.float64) - best) / np.float32(temperature)
    expected = np.exp(exponents)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-38)
    assert (found[np.isneginf(logits)] == 0.0).all()
    assert found.max() <= 1.0


@given(values=_floats, nan_at=st.none() | st.integers(0, 79), sign=st.sampled_from([1.0, -1.0]))
def test_largest_is_nan_if_any_is(values: list[float], nan_at: int | None, sign: float) -> None:
    array = np.array(values, np.float32)
    if nan_at is not None:
        array[nan_at % len(array)] = np.copysign(np.nan, sign)
    largest = kernels._largest_of(array)
    assert np.isnan(largest) if nan_at is not None else largest == array.max()


@given(values=_floats.filter(lambda values: max(values) < np.inf), data=st.data())
def test_bar_lets_the_largest_through(values: list[float], data: st.DataObject) -> None:
    array = np.array(values, np.float32)
    count = data.draw(st.integers(1, len(values)))
    bar = kernels._top_k_bar(array, array.max(), count)
    assert sorted(array[array >= bar]) == sorted(array[array >= np.sort(array)[-count]])


@given(batch=batches())
def test_row_is_the_same_in_every_batch_to_the_last_bit(batch: Batch) -> None:
    together = by_rows(batch)
    for row in range(len(batch.params)):
        alone = by_rows(batch.take([row]))
        width = alone.top_tokens.shape[1]
        assert alone.on_host()[0][::2] == together.on_host()[row][::2]
        for one, of_all in (
            (alone.logprobs[0], together.logprobs[row]),
            (alone.top_tokens[0], together.top_tokens[row, :width]),
            (alone.top_logprobs[0], together.top_logprobs[row, :width]),
        ):
            torch.testing.assert_close(one, of_all, rtol=0, atol=0, equal_nan=True)


def test_bits_behind_the_vocabulary_need_no_room() -> None:
    """A mask of far more words than there are tokens is a sparse one by its width; all tokens are allowed."""
    size = 4096
    rows = SamplingRows.of([SamplingParams(temperature=0)], [0.0])
    logits = torch.arange(size, dtype=torch.float32)[None]
    sampled = sample(logits, rows, np.full((1, size), -1, np.int32), [0])
    assert sampled.on_host()[0][::2] == (size - 1, RowFlag.OK)


@pytest.mark.parametrize(
    ("count", "width", "row_map"), [(2, 40, [0]), (1, 0, [0]), (1, 40, [1]), (1, 40, [-2]), (1, 40, [])]
)
def test_what_does_not_fit_is_refused_before_it_is_read(count: int, width: int, row_map: list[int]) -> None:
    """An engine calls it without the checks of `sample`."""
    rows = SamplingRows.of([SamplingParams()], [0.0])
    with pytest.raises(ValueError, match="do not fit 1 rows of parameters"):
        batch_sampler("cpu")(torch.zeros(count, width), rows, np.full((1, 2), -1, np.int32), row_map)


def test_least_nucleus_is_the_largest_where_all_weigh_the_same() -> None:
    """They differ by less than a weight shows."""
    rows = SamplingRows.of([SamplingParams(temperature=1.0, top_p=1e-300)], [0.0])
    assert sample(torch.arange(4.0)[None] * 1e-30, rows).on_host()[0][::2] == (3, RowFlag.OK)


def test_changes_of_fewer_rows_are_refused_before_they_are_read() -> None:
    rows = SamplingRows.of([SamplingParams(logit_bias={1: 2.0})] * 2, [0.0] * 2)
    assert rows.changes is not None
    with pytest.raises(ValueError, match="do not fit 2 rows of parameters"):
        sample(torch.zeros(2, 4), attrs.evolve(rows, changes=rows.changes[:1]))


def test_draws_of_fewer_rows_are_refused_before_they_are_read() -> None:
    with pytest.raises(ValueError, match="2 rows but 1 draws"):
        SamplingRows.of([SamplingParams()] * 2, [0.0])
    rows = SamplingRows.of([SamplingParams()] * 2, [0.0] * 2)
    with pytest.raises(ValueError, match="do not fit"):
        batch_sampler("cpu")(torch.zeros(2, 4), attrs.evolve(rows, draws=rows.draws[:1]), NO_MASK, [-1, -1])
    with pytest.raises(ValueError, match="do not fit"):
        batch_sampler("cpu")(torch.zeros(1, 4), attrs.evolve(rows, draws=rows.draws[:1]), NO_MASK, [-1])


def test_draws_of_another_type_are_refused_before_they_are_read() -> None:
    rows = attrs.evolve(SamplingRows.of([SamplingParams()] * 2, [0.0] * 2), draws=array("f", [0.0, 0.0]))
    with pytest.raises(ValueError, match="do not fit"):
        sample(torch.zeros(2, 4), rows)


def _pickled(rows: SamplingRows) -> SamplingRows:
    loaded: SamplingRows = pickle.loads(pickle.dumps(rows))
    return loaded


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, _pickled])
def test_copies_are_read_where_they_are(copied: Callable[[SamplingRows], SamplingRows]) -> None:
    rows = SamplingRows.of([SamplingParams(temperature=0, logprobs=2)] * 3, [0.0] * 3)
    twin = copied(rows)
    assert twin.settings.address == twin.settings.table.ctypes.data
    rows.settings.table["temperature"] = 1e30  # what was copied by its values is not changed by this
    expected = [0, 1, 2] if twin.settings is rows.settings else [3, 3, 3]
    twin = attrs.evolve(twin, draws=array("d", [0.0, 0.3, 0.6]))
    assert sample(torch.arange(4.0).repeat(3, 1), twin).tokens.tolist() == expected


def test_settings_of_any_stride() -> None:
    table = SamplingRows.of(
        [SamplingParams(temperature=0), SamplingParams(temperature=100.0)] * 2, [0.0] * 4
    ).settings.table
    for strided in (table[::2], table[::-2]):
        settings = StepSettings(strided)
        rows = SamplingRows(settings=settings, draws=array("d", [0.3] * 2))
        expected = [3, 3] if strided[0]["temperature"] == 0 else [1, 1]
        assert sample(torch.arange(4.0).repeat(2, 1), rows).tokens.tolist() == expected


def test_signs_that_are_noted_down_are_read() -> None:
    """An imaginary part of a conjugate is a view whose memory has the other sign."""
    logits = torch.complex(torch.zeros(4), torch.arange(4.0)).conj().imag.clone(memory_format=torch.preserve_format)
    logits = torch._neg_view(logits)[None]
    assert logits.is_neg()
    rows = SamplingRows.of([SamplingParams(temperature=0)], [0.0])
    assert sample(logits, rows).tokens.tolist() == [int(logits.argmax())]


def test_masks_of_any_stride() -> None:
    """The kernel reads contiguous memory; the door makes it that."""
    masks = np.zeros((6, 8), np.int32)
    masks[4, 2] = 1 << 5
    rows = SamplingRows.of([SamplingParams()] * 2, [0.5] * 2)
    for strided in (masks[::2, ::2], torch.from_numpy(masks)[::2, ::2]):
        assert sample(torch.zeros(2, 128), rows, strided, [2, 2]).tokens.tolist() == [37, 37]


def test_results_outlive_what_they_were_made_of() -> None:
    """Whoever has a tensor of them has its memory."""
    rows = SamplingRows.of([SamplingParams(temperature=0, logprobs=1)] * 1000, [0.0] * 1000)
    tokens, logprobs = (sampled := sample(torch.arange(4.0).repeat(1000, 1), rows)).tokens, sampled.logprobs
    expected = logprobs.clone()
    del sampled
    for _ in range(100):
        sample(torch.arange(5.0).repeat(1000, 1), rows)
    assert tokens.tolist() == [3] * 1000
    torch.testing.assert_close(logprobs, expected, rtol=0, atol=0)


@pytest.mark.long
def test_nothing_is_read_or_written_out_of_bounds(tmp_path: Path) -> None:
    """The laws once more, with the kernel compiled so that it checks every index."""
    tests = [str(Path(__file__).with_name(name)) for name in ("test_laws.py", "test_cpu_kernels.py")]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-k",
        "not at_once and not bounds",
        *tests,
    ]
    checked = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=checked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_where_nothing_can_be_written_it_is_compiled_each_time() -> None:
    script = """
import numba.core.caching
numba.core.caching.CacheImpl._locator_classes = []
from engine_adapter.sampling import cpu_kernels
assert cpu_kernels.sample_rows.signatures
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_files_cut_short_are_not_used(tmp_path: Path) -> None:
    """As those of a machine that lost its power while they were written."""
    command = [sys.executable, "-c", "import engine_adapter.sampling.cpu_kernels"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run(command, env=environment, check=True)
    files = [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]
    assert files
    for file in files:
        file.write_bytes(b"")
    subprocess.run(command, env=environment, check=True)
