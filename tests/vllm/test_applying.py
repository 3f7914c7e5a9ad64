"""Bitmasks on logits: what vLLM's own function does, whatever the order of the rows."""

from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

from engine_adapter.sampling.bits import unpack_row
from engine_adapter.vllm.applying import FEW, apply, applying, on_device, places

VOCABULARY = 3 * FEW
WORDS = VOCABULARY // 32


def words(allowed: int, seed: int, width: int = WORDS) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A row that allows so many tokens."""
    bits = np.zeros(width * 32, np.uint8)
    bits[np.random.default_rng(seed).permutation(bits.size)[:allowed]] = 1
    return np.packbits(bits, bitorder="little").view(np.int32)


COUNTS = [0, 1, FEW, FEW + 1, VOCABULARY // 2, VOCABULARY - FEW - 1, VOCABULARY - FEW, VOCABULARY - 1, VOCABULARY]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("allowed", COUNTS)
@pytest.mark.parametrize("beyond", [-40, 0, 7])
def test_what_is_forbidden_is_minus_infinity_and_the_rest_as_it_was(
    allowed: int, dtype: torch.dtype, beyond: int
) -> None:
    """Also where the row has bits behind the vocabulary, or the vocabulary has tokens behind the row."""
    row = words(allowed, allowed)
    logits = torch.randn(2, VOCABULARY + beyond).to(dtype)
    before = logits.clone()
    apply(row[np.newaxis], logits, [(0, 1)])
    size = min(VOCABULARY, VOCABULARY + beyond)
    allowed_ids = torch.zeros(VOCABULARY + beyond, dtype=torch.bool)
    allowed_ids[:size] = torch.from_numpy(unpack_row(row, size))
    assert torch.equal(logits[0], before[0])
    assert torch.equal(logits[1], before[1].masked_fill(~allowed_ids, -torch.inf))


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6), st.randoms(), st.booleans())
def test_rows_go_to_their_requests_whatever_the_order(
    requests: list[tuple[int, bool]], random: Any, has_left: bool
) -> None:
    drafts = {f"r{number}": count for number, (count, _) in enumerate(requests)} | {"left": 1}
    batch = [f"r{number}" for number in range(len(requests))]
    constrained = [f"r{number}" for number, (_, is_constrained) in enumerate(requests) if is_constrained]
    constrained += ["left"] if has_left else []
    random.shuffle(constrained)
    logits_of = [(each, step) for each in batch for step in range(drafts[each] + 1)]
    masks_of = [(each, step) for each in constrained for step in range(drafts[each] + 1)]
    found = list(places(batch, constrained, drafts.__getitem__))
    assert all(masks_of[source] == logits_of[target] for source, target in found)
    assert len(found) == sum(each != "left" for each, _ in masks_of)


def test_it_takes_what_vllm_passes() -> None:
    logits = torch.zeros(3, 64)
    mask = np.array([[1, 0], [-1, -1]], np.int32)
    apply_here = applying(lambda *_: pytest.fail("the CPU's part is done here"))
    apply_here(
        SimpleNamespace(scheduled_spec_decode_tokens={}),
        SimpleNamespace(structured_output_request_ids=["c", "a"], grammar_bitmask=mask),
        SimpleNamespace(req_ids=["a", "b", "c"]),
        logits,
    )
    assert logits[:2].eq(0).all()
    assert logits[2].isfinite().sum() == 1


def test_a_device_that_structout_has_something_for_is_not_left_to_vllm() -> None:
    applied: list[Any] = []
    mask = np.array([[1]], np.int32)
    logits = torch.zeros(2, 32, device="meta")
    apply_there = applying(
        lambda *_: pytest.fail("it is done here"), lambda type: lambda *given: applied.append((type, *given))
    )
    apply_there(
        SimpleNamespace(scheduled_spec_decode_tokens={}),
        SimpleNamespace(structured_output_request_ids=["b"], grammar_bitmask=mask),
        SimpleNamespace(req_ids=["a", "b"]),
        logits,
    )
    assert applied == [("meta", mask, logits, [(0, 1)])]


def test_cuda_is_one_of_them_with_triton() -> None:
    pytest.importorskip("triton", reason="triton is not installed")
    from engine_adapter.sampling import triton_masking

    assert on_device("cuda") is triton_masking.apply
    assert on_device("cpu") is apply
    assert on_device("xpu") is None


def test_columns_that_are_not_beside_each_other_are_left_to_vllm() -> None:
    passed: list[Any] = []
    arguments = [object(), object(), object(), torch.zeros(4, 2).T]
    applying(lambda *given: passed.extend(given))(*arguments)
    assert passed == arguments


def test_other_devices_are_left_to_vllm() -> None:
    passed: list[Any] = []
    arguments = [object(), object(), object(), torch.zeros(1, 1, device="meta")]
    applying(lambda *given: passed.extend(given))(*arguments)
    assert passed == arguments
