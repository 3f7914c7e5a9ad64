"""The kernels, interpreted: what holds for every batch, and what they promise beyond: the same bits in every split."""

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_adapter.sampling import SamplingParams, SamplingRows, request_uniform
from engine_adapter.sampling.sampled import RowFlag, Sampled
from tests.sampling import reference
from tests.sampling.interpreted import by_triton, one_after_the_other
from tests.sampling.strategies import FLAGGED, Batch, Sampler, batches, on_cuda

NO_MASK = np.zeros((1, 1), np.int32)


def _is_right(batch: Batch) -> None:
    sampled = by_triton(batch)
    logits, allowed = batch.changed, batch.allowed
    for row, params in enumerate(batch.params):
        token, logprob = int(sampled.tokens[row]), float(sampled.logprobs[row])
        assert allowed[row, token]
        assert reference.is_right(token, batch.uniforms[row], logits[row], allowed[row].tolist(), params)
        shown = [each for each in sampled.top_tokens[row].tolist() if each >= 0]
        if params.logprobs is None:
            assert np.isnan(logprob)
            assert not shown
            continue
        expected = reference.logprobs(logits[row], allowed[row].tolist(), params.temperature)
        assert logprob == pytest.approx(expected[token], abs=1e-3)
        assert shown == list(expected)[: params.logprobs]
        values = sampled.top_logprobs[row].tolist()[: len(shown)]
        assert values == pytest.approx([expected[each] for each in shown], abs=1e-3)


def _same_bits(one: Sampled, other: Sampled) -> None:
    for name in ("tokens", "flags", "logprobs"):
        torch.testing.assert_close(getattr(one, name), getattr(other, name), rtol=0, atol=0, equal_nan=True)


def _splits_and_neighbours_change_nothing(batch: Batch, order: list[int], splits: int) -> None:
    batch = attrs.evolve(batch, params=[attrs.evolve(each, logprobs=0) for each in batch.params])
    together = by_triton(batch)
    _same_bits(by_triton(batch, splits=splits), together)
    apart = by_triton(batch.take(order))
    _same_bits(
        apart, attrs.evolve(together, **{n: getattr(together, n)[order] for n in ("tokens", "flags", "logprobs")})
    )


@settings(max_examples=15)
@given(batch=batches())
def test_token_and_logprobs_are_right(batch: Batch) -> None:
    _is_right(batch)


@pytest.mark.long
@settings(max_examples=100)
@given(batch=batches())
def test_token_and_logprobs_are_right_often(batch: Batch) -> None:
    _is_right(batch)


@settings(max_examples=8)
@given(batch=batches(), splits=st.integers(1, 3), data=st.data())
def test_splits_and_neighbours_change_nothing(batch: Batch, splits: int, data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(batch.params) - 1), min_size=1, max_size=4))
    _splits_and_neighbours_change_nothing(batch, order, splits)


@pytest.mark.long
@settings(max_examples=30)
@given(batch=batches(), splits=st.integers(1, 3), data=st.data())
def test_splits_and_neighbours_change_nothing_often(batch: Batch, splits: int, data: st.DataObject) -> None:
    order = data.draw(st.lists(st.integers(0, len(batch.params) - 1), min_size=1, max_size=4))
    _splits_and_neighbours_change_nothing(batch, order, splits)


@pytest.mark.parametrize("size", [4, 1030], ids=["few", "two blocks"])
def test_each_flag_stays_in_its_row(size: int) -> None:
    # The last tokens of the row, so that with two blocks the first one has nothing to say.
    logits = torch.full((len(FLAGGED), size), -torch.inf)
    logits[:, size - 4 :] = torch.tensor([row.logits for row in FLAGGED])
    bits = np.zeros((len(FLAGGED), 32 * -(-size // 32)), dtype=np.bool_)
    bits[:, size - 4 : size] = [[(row.word or 0) >> bit & 1 for bit in range(4)] for row in FLAGGED]
    bits[:, size:] = True
    bitmask = np.packbits(bits, axis=1, bitorder="little").view(np.int32)
    flags = [row.flag for row in FLAGGED]
    tokens = [size - 4 + row.token if row.token >= 0 else -1 for row in FLAGGED]
    row_map = [-1 if row.word is None else index for index, row in enumerate(FLAGGED)]
    for params in (
        SamplingParams(temperature=0),
        SamplingParams(top_k=1, logprobs=2),
        SamplingParams(temperature=0.01),
    ):
        sampled = by_triton(Batch(logits, [params] * len(flags), [0.5] * len(flags), bitmask, row_map))
        assert sampled.flags.tolist() == flags
        assert sampled.tokens.tolist() == tokens
        assert sampled.logprobs.isnan().tolist() == [params.logprobs is None or flag != RowFlag.OK for flag in flags]
        assert (sampled.top_tokens[sampled.flags != RowFlag.OK] == -1).all()


TRUNCATING = [
    SamplingParams(top_k=1),
    SamplingParams(top_k=7, temperature=1.3),
    SamplingParams(top_p=0.3, temperature=2.0),
    SamplingParams(min_p=0.2),
    SamplingParams(top_k=2000, top_p=0.9, min_p=0.01, temperature=1.7),
    SamplingParams(top_k=40, top_p=0.7, temperature=0.6),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [50, 1000, 2100], ids=["few", "sparse", "dense"])
def test_truncation_is_that_of_sorted_rows(size: int, dtype: torch.dtype) -> None:
    """With ties; a row that allows more than 1,024 tokens is left to the second kernel."""
    rng = np.random.default_rng(size)
    logits = torch.from_numpy(rng.normal(0, 3, (len(TRUNCATING), size))).to(dtype)
    logits[:, 5] = logits[:, 11] = logits.max(dim=1).values
    logits[:, 6], logits[:, 12] = 0.0, -0.0
    uniforms = [0.0, 0.37, 1.0 - 2.0**-53, 0.62, 0.93, 0.55]
    tokens = by_triton(Batch(logits, TRUNCATING, uniforms, NO_MASK, [-1] * len(TRUNCATING))).tokens.tolist()
    for row, params in enumerate(TRUNCATING):
        row_logits = logits[row].float().tolist()
        assert reference.is_right(tokens[row], uniforms[row], row_logits, [True] * size, params)


def test_candidates_that_come_in_any_order_are_sorted() -> None:
    """From both blocks of a row that allows 1,024 tokens, the most that are put aside."""
    size = 2000
    logits = torch.from_numpy(np.random.default_rng(0).normal(0, 2, (1, size)).astype(np.float32))
    allowed = np.arange(2016) % 2 == 0
    allowed[[1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31]] = True
    allowed[2000:] = False
    allowed[[1901, 1903, 1905, 1907, 1909, 1911, 1913, 1915]] = True
    assert allowed.sum() == 1024
    bitmask = np.packbits(allowed, bitorder="little").view(np.int32)[None]
    params = SamplingParams(top_k=300, top_p=0.9, temperature=1.5)
    token = int(by_triton(Batch(logits, [params], [0.8], bitmask, [0])).tokens[0])
    assert reference.is_right(token, 0.8, logits[0].tolist(), allowed[:size].tolist(), params)


@pytest.mark.parametrize("top_k", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 1200], ids=["sparse", "dense"])
def test_tokens_equal_to_the_kth_all_stay(size: int, top_k: int) -> None:
    logits = torch.full((3, size), -50.0)
    logits[:, [0, 1, 3]] = 1.0
    batch = Batch(logits, [SamplingParams(top_k=top_k)] * 3, [0.1, 0.5, 0.9], NO_MASK, [-1] * 3)
    assert by_triton(batch).tokens.tolist() == [0, 1, 3]


def test_greedy_takes_the_first_of_equals_in_any_block() -> None:
    logits = torch.zeros(2, 3000)
    logits[0, [2999, 1500, 1499]] = 4.0
    logits[1, [2100, 1023, 1024]] = 4.0
    batch = Batch(logits, [SamplingParams(temperature=0)] * 2, [0.0] * 2, NO_MASK, [-1] * 2)
    for splits in (1, 2, 3):
        assert by_triton(batch, splits=splits).tokens.tolist() == [1499, 1023]


def test_rows_of_any_stride_and_a_mask_without_words() -> None:
    wide = torch.from_numpy(np.random.default_rng(0).normal(0, 1, (3, 77)).astype(np.float32))
    params = [SamplingParams(temperature=0)] * 3
    for logits in (wide[:, 3:43], wide.T[:3, :3], wide.flip(0)):
        batch = Batch(logits, params, [0.0] * 3, np.zeros((3, 0), np.int32), [-1, 2, -1])
        sampled = by_triton(batch)
        assert sampled.tokens.tolist() == [int(logits[0].argmax()), -1, int(logits[2].argmax())]
        assert sampled.flags.tolist() == [RowFlag.OK, RowFlag.EMPTY_MASK, RowFlag.OK]


def test_no_row_has_a_mask_although_there_are_some() -> None:
    batch = Batch(torch.eye(3), [SamplingParams(temperature=0)] * 3, [0.0] * 3, np.zeros((3, 2), np.int32), [-1] * 3)
    assert by_triton(batch).tokens.tolist() == [0, 1, 2]


def test_forced_token_has_probability_one() -> None:
    logits = torch.from_numpy(np.random.default_rng(0).normal(0, 9, (2, 3000)).astype(np.float32))
    bitmask = np.zeros((1, 94), np.int32)
    bitmask[0, 70] = 1 << 3
    params = [SamplingParams(temperature=0, logprobs=0), SamplingParams(temperature=0.3, top_p=0.5, logprobs=0)]
    sampled = by_triton(Batch(logits, params, [0.5, 0.5], bitmask, [0, 0]))
    assert sampled.tokens.tolist() == [2243, 2243]
    assert sampled.logprobs.tolist() == [0.0, 0.0]


def test_memory_that_is_used_again_leaves_nothing() -> None:
    """As in the replays of a graph: other logits, masks and parameters in the same places."""
    size = 2100
    rng = np.random.default_rng(4)
    kinds = [SamplingParams(temperature=0), SamplingParams(), SamplingParams(top_p=0.6), SamplingParams(top_k=4)]
    steps = []
    for share in (0.9, 0.0, 0.02):
        bits = rng.random((4, 2112)) < share
        bits[:2, 5] = True  # the other rows may be dead ends
        steps.append(
            Batch(
                logits=torch.from_numpy(rng.normal(0, 3, (4, size))).bfloat16(),
                params=[attrs.evolve(kinds[row], logprobs=0) for row in rng.permutation(4)],
                uniforms=rng.random(4).tolist(),
                bitmask=np.packbits(bits, axis=1, bitorder="little").view(np.int32),
                row_map=[0, 1, 2, 3],
            )
        )
    for step, sampled in zip(steps, one_after_the_other(steps), strict=True):
        _same_bits(sampled, by_triton(step))


def _frequencies_z(sampler: Sampler, params: SamplingParams, draws: int) -> float:
    """`reference.chi_square_z` of tokens in three blocks; those too rare for a class of their own are one together."""
    size = 2100
    rng = np.random.default_rng(5)
    allowed = np.arange(2112) % 3 == 0
    logits = torch.from_numpy(np.where(np.arange(size) % 150 < 3, rng.normal(0, 1, size), -30.0).astype(np.float32))
    bitmask = np.packbits(allowed, bitorder="little").view(np.int32)[None]
    counts = np.zeros(size, dtype=np.int64)
    for start in range(0, draws, 500):
        uniforms = [request_uniform(11, position) for position in range(start, start + 500)]
        batch = Batch(logits.expand(500, -1), [params] * 500, uniforms, bitmask, [0] * 500)
        counts += np.bincount(sampler(batch).tokens.numpy(), minlength=size)
    kept = reference.probabilities(logits.tolist(), allowed.tolist(), params)
    likely = [token for token in kept if kept[token] * draws > 5]
    share = np.array([kept[token] for token in likely])
    seen, expected = counts[likely], share * draws
    others, expected_others = draws - seen.sum(), (1.0 - share.sum()) * draws
    if expected_others > 5:
        seen, expected = np.append(seen, others), np.append(expected, expected_others)
    else:
        assert others <= 5
    return reference.chi_square_z(seen, expected / expected.sum())


@pytest.mark.long
@pytest.mark.parametrize("params", [SamplingParams(temperature=0.8), SamplingParams(temperature=1.3, min_p=0.05)])
def test_frequencies_are_the_probabilities(params: SamplingParams) -> None:
    """p > 1e-4 is z < 3.72. A few draws: the interpreter takes a tenth of a second and more for each."""
    assert _frequencies_z(by_triton, params, 500) < 3.72


@pytest.mark.cuda
def test_many_draws_on_cuda() -> None:
    """100,000 draws have the right frequencies, and a million draws under real-sized masks are all legal."""
    assert _frequencies_z(on_cuda, SamplingParams(temperature=0.8), 100_000) < 3.72
    size, rows = 128_256, 1000
    rng = np.random.default_rng(0)
    bits = rng.random((rows, size)) < rng.choice([1e-4, 1e-2, 0.9], (rows, 1))
    bits[:, 7] = True
    bitmask = np.packbits(bits, axis=1, bitorder="little").view(np.int32)
    logits = torch.from_numpy(rng.normal(0, 3, (rows, size)).astype(np.float32)).bfloat16()
    params = [SamplingParams(temperature=1.2, top_p=1.0 if row % 2 else 0.95) for row in range(rows)]
    for _ in range(1000):
        batch = Batch(logits, params, rng.random(rows).tolist(), bitmask, list(range(rows)))
        assert bits[np.arange(rows), on_cuda(batch).tokens.numpy()].all()


@pytest.mark.cuda
@pytest.mark.parametrize("truncated", [False, True])
def test_replays_of_a_graph_see_what_has_changed(truncated: bool) -> None:
    from engine_adapter.sampling.triton_sampler import DeviceSampler, Outputs

    size, device = 5000, torch.device("cuda")
    rng = np.random.default_rng(1)
    sampler, outputs = DeviceSampler(4, size, device), Outputs.empty(4, device)
    logits = torch.zeros(4, size, device=device)
    bitmask = torch.full((4, 157), -1, dtype=torch.int32, device=device)
    params = [SamplingParams(temperature=1.3, logprobs=0, top_p=0.8 if truncated else 1.0)] * 4
    row_map = np.arange(4)
    sampler.stage(SamplingRows.of(params, [0.5] * 4), row_map)
    sampler.launch(logits, bitmask, outputs, truncated=truncated)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sampler.launch(logits, bitmask, outputs, truncated=truncated)
    for step in range(20):
        masks = np.packbits(rng.random((4, 5024)) < (0.5, 0.01)[step % 2], axis=1, bitorder="little").view(np.int32)
        batch = Batch(
            torch.from_numpy(rng.normal(0, 2, (4, size))).float(), params, rng.random(4).tolist(), masks, [0, 1, 2, 3]
        )
        logits.copy_(batch.logits)
        bitmask.copy_(torch.from_numpy(masks))
        sampler.stage(batch.rows, row_map)
        graph.replay()
        expected = on_cuda(batch)
        assert outputs.tokens.tolist() == expected.tokens.tolist()
        assert outputs.logprobs.tolist() == expected.logprobs.tolist()
