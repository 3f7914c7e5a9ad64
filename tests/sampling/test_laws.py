"""What holds for every batch, for the row-by-row sampler and for the one that runs on a device."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_adapter.sampling import SamplingParams, SamplingRows
from engine_adapter.sampling.sampled import RowFlag
from engine_adapter.sampling.sampler import sample
from tests.sampling import reference
from tests.sampling.strategies import FLAGGED, Batch, Sampler, batches, every_sampler


@every_sampler
@given(batch=batches())
def test_token_is_the_one_that_the_draw_picks(sampler: Sampler, batch: Batch) -> None:
    tokens = sampler(batch).tokens.tolist()
    logits, allowed = batch.changed, batch.allowed
    for row, token in enumerate(tokens):
        assert allowed[row, token]
        assert reference.is_right(token, batch.uniforms[row], logits[row], allowed[row].tolist(), batch.params[row])


@every_sampler
@given(batch=batches(), data=st.data())
def test_row_does_not_depend_on_the_others(sampler: Sampler, batch: Batch, data: st.DataObject) -> None:
    together = sampler(batch)
    index = data.draw(st.permutations(range(len(batch.params))).flatmap(_prefixes))
    apart = sampler(batch.take(index))
    assert apart.tokens.tolist() == together.tokens[index].tolist()
    torch.testing.assert_close(apart.logprobs, together.logprobs[index], rtol=0, atol=1e-5, equal_nan=True)


def _prefixes(order: list[int]) -> st.SearchStrategy[list[int]]:
    return st.integers(1, len(order)).map(lambda count: order[:count])


@every_sampler
@given(batch=batches())
def test_logprobs_are_of_the_masked_and_tempered_distribution(sampler: Sampler, batch: Batch) -> None:
    sampled = sampler(batch)
    logits, allowed = batch.changed, batch.allowed
    for row, params in enumerate(batch.params):
        token, logprob = int(sampled.tokens[row]), float(sampled.logprobs[row])
        shown = sampled.top_tokens[row].tolist()
        if params.logprobs is None:
            assert np.isnan(logprob)
            assert set(shown) <= {-1}
            continue
        expected = reference.logprobs(logits[row], allowed[row].tolist(), params.temperature)
        assert logprob == pytest.approx(expected[token], abs=1e-4, rel=1e-6)
        most_likely = list(expected)[: params.logprobs]
        assert shown == most_likely + [-1] * (len(shown) - len(most_likely))
        values = sampled.top_logprobs[row].tolist()
        assert values == pytest.approx(
            [expected[token] if token >= 0 else -np.inf for token in shown], abs=1e-4, rel=1e-6
        )


@every_sampler
@settings(max_examples=30)
@given(batch=batches())
def test_arguments_are_left_alone(sampler: Sampler, batch: Batch) -> None:
    logits, bitmask = batch.logits.clone(), batch.bitmask.copy()
    sampler(batch)
    torch.testing.assert_close(batch.logits, logits, rtol=0, atol=0, equal_nan=True)
    assert (batch.bitmask == bitmask).all()


@every_sampler
@pytest.mark.parametrize("top_k", [1, 2])
def test_tokens_equal_to_the_kth_all_stay(sampler: Sampler, top_k: int) -> None:
    params = SamplingParams(top_k=top_k)
    uniforms = [0.1, 0.5, 0.9]
    batch = Batch(
        torch.tensor([[1.0, 1.0, 0.0, 1.0]] * 3), [params] * 3, uniforms, np.zeros((1, 1), np.int32), [-1] * 3
    )
    assert sampler(batch).tokens.tolist() == [0, 1, 3]


@every_sampler
def test_top_p_keeps_the_token_that_reaches_it(sampler: Sampler) -> None:
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log().repeat(4, 1)
    params = [SamplingParams(top_p=top_p) for top_p in (0.01, 0.49, 0.51, 0.81)]
    batch = Batch(logits, params, [0.999] * 4, np.zeros((1, 1), np.int32), [-1] * 4)
    assert sampler(batch).tokens.tolist() == [0, 0, 1, 2]


@every_sampler
def test_top_p_is_of_what_top_k_left(sampler: Sampler) -> None:
    """The first token is 0.4 of all, but 0.57 of the two that top-k keeps."""
    params = SamplingParams(top_k=2, top_p=0.55)
    batch = Batch(torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log(), [params], [0.999], np.zeros((1, 1), np.int32), [-1])
    assert sampler(batch).tokens.tolist() == [0]


@every_sampler
def test_largest_draw_stays_among_the_allowed(sampler: Sampler) -> None:
    """Where the sums of a block, taken in two ways, differ in the last bit, the draw would fall off its end."""
    rows = 200
    logits = torch.from_numpy(np.random.default_rng(0).normal(0, 5, (rows, 2000)).astype(np.float32))
    bitmask = np.packbits(np.arange(2016) < 1500, bitorder="little").view(np.int32)[None]
    batch = Batch(logits, [SamplingParams()] * rows, [1.0 - 2.0**-53] * rows, bitmask, [0] * rows)
    assert sampler(batch).tokens.max() < 1500


@every_sampler
def test_each_flag_stays_in_its_row(sampler: Sampler) -> None:
    logits = torch.tensor([row.logits for row in FLAGGED])
    bitmask = np.array([[row.word or 0] for row in FLAGGED], dtype=np.int32)
    flags = [row.flag for row in FLAGGED]
    row_map = [-1 if row.word is None else index for index, row in enumerate(FLAGGED)]
    for params in (SamplingParams(temperature=0), SamplingParams(top_k=1, logprobs=2), SamplingParams(top_p=0.1)):
        sampled = sampler(Batch(logits, [params] * len(flags), [0.5] * len(flags), bitmask, row_map))
        assert sampled.flags.tolist() == flags
        assert sampled.tokens.tolist() == [row.token for row in FLAGGED]
        assert sampled.logprobs.isnan().tolist() == [params.logprobs is None or flag != RowFlag.OK for flag in flags]
        assert (sampled.top_tokens[sampled.flags != RowFlag.OK] == -1).all()


def test_row_map_may_share_and_reorder_masks() -> None:
    logits = torch.tensor([[3.0, 2.0, 1.0]] * 4)
    rows = SamplingRows.of([SamplingParams(temperature=0)] * 4, [0.0] * 4)
    bitmask = np.array([[0b100], [0b010]], dtype=np.int32)
    assert sample(logits, rows, bitmask, [1, 0, -1, 1]).tokens.tolist() == [1, 2, 0, 1]
    assert sample(logits, rows, torch.from_numpy(bitmask), [1, 0, -1, 1]).tokens.tolist() == [1, 2, 0, 1]
    assert sample(logits, rows).tokens.tolist() == [0] * 4


def test_read_only_mask_and_strided_logits() -> None:
    bitmask = np.array([[0b100]], dtype=np.int32)
    bitmask.setflags(write=False)
    logits = torch.tensor([[3.0], [2.0], [1.0]], requires_grad=True).T
    rows = SamplingRows.of([SamplingParams()], [0.0])
    assert sample(logits, rows, bitmask, [0]).tokens.tolist() == [2]


def test_no_rows() -> None:
    sampled = sample(torch.zeros(0, 5), SamplingRows.of([], []))
    assert sampled.tokens.shape == sampled.flags.shape == sampled.logprobs.shape == (0,)


@pytest.mark.parametrize(
    ("logits", "bitmask", "row_map", "message"),
    [
        (torch.zeros(5), None, None, "logits have to be"),
        (torch.zeros(1, 0), None, None, "logits have to be"),
        (torch.zeros(1, 5, dtype=torch.int64), None, None, "logits have to be"),
        (torch.zeros(2, 5), None, None, "2 rows of logits, 1 of parameters"),
        (torch.zeros(1, 5), None, [0], "leaves the bitmask's 0 rows"),
        (torch.zeros(1, 5), np.zeros((1, 1), np.int32), [-2], "leaves the bitmask's 1 rows"),
        (torch.zeros(1, 5), np.zeros((1, 1), np.int32), [0, 0], "1 rows of logits, 2 in the row map"),
        (torch.zeros(1, 5), np.zeros((1, 1), np.int64), [0], "a bitmask has to be int32"),
        (torch.zeros(1, 5), torch.zeros(1, dtype=torch.int32), [0], "a bitmask has to be int32"),
    ],
)
def test_arguments_that_do_not_fit(logits: torch.Tensor, bitmask: object, row_map: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sample(logits, SamplingRows.of([SamplingParams()], [0.0]), bitmask, row_map)  # type: ignore[arg-type]
