"""Bitmasks on logits on CUDA, interpreted; and as sm_90 runs it, compiled without a GPU."""

from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from engine_adapter.sampling.bits import unpack_row
from tests.sampling.interpreted import masked
from tests.sampling.test_triton_compiled import resources

triton = pytest.importorskip("triton", reason="triton is not installed")

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def expected(
    bitmask: np.ndarray[tuple[int, int], np.dtype[np.int32]], logits: torch.Tensor, rows: list[tuple[int, int]]
) -> torch.Tensor:
    """What is forbidden is -inf, and the rest as it was."""
    result, size = logits.clone(), logits.shape[1]
    for source, target in rows:
        result[target, ~torch.from_numpy(unpack_row(bitmask[source], size))] = -torch.inf
    return result


@settings(max_examples=12)
@given(
    st.sampled_from([1, 31, 64, 4096, 4100, 9000]),
    st.integers(1, 290),
    st.sampled_from(DTYPES),
    st.integers(1, 3),
    st.integers(1, 4),
    st.sampled_from([0, 3]),
    st.integers(0, 2**31),
)
def test_what_is_forbidden_is_minus_infinity_and_the_rest_as_it_was(
    size: int, width: int, dtype: torch.dtype, mask_rows: int, batch: int, beside: int, seed: int
) -> None:
    """Whatever the order of the rows, their stride, NaN and infinity in them, and where row and vocabulary end."""
    random = np.random.default_rng(seed)
    bitmask = random.integers(-(2**31), 2**31, (mask_rows, width)).astype(np.int32)
    bitmask[random.random(mask_rows) < 0.2] = -1
    logits = torch.from_numpy(random.normal(size=(batch, size + beside))).to(dtype)[:, :size]
    logits[0, 0], logits[-1, -1] = torch.nan, torch.inf
    targets = random.permutation(batch)[: random.integers(0, batch + 1)].tolist()
    rows = [(int(random.integers(mask_rows)), target) for target in targets]
    torch.testing.assert_close(
        masked(bitmask, logits.clone(), rows), expected(bitmask, logits, rows), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES)
def test_so_it_is_on_a_gpu(dtype: torch.dtype) -> None:
    from engine_adapter.sampling import triton_masking

    bitmask = np.random.default_rng(1).integers(-(2**31), 2**31, (3, 4008)).astype(np.int32)
    logits, rows = torch.randn(8, 128_256).to(dtype), [(2, 1), (0, 7), (1, 0)]
    there = logits.cuda()
    triton_masking.apply(bitmask, there, rows)
    torch.testing.assert_close(there.cpu(), expected(bitmask, logits, rows), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_no_register_is_spilled(dtype: str, tmp_path: Path) -> None:
    from triton.backends.compiler import GPUTarget

    from engine_adapter.sampling import triton_kernels, triton_masking

    kernel = triton_kernels.forbid
    types = {"logits": f"*{dtype}", "words": "*i32", "targets": "*i64"}
    source = triton.compiler.ASTSource(
        fn=kernel, signature={argument: types.get(argument, "i32") for argument in kernel.arg_names}
    )
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path)
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(triton_masking.OPTIONS))
    used = resources(compiled.asm["cubin"], tmp_path)
    assert used["REG"] > 0
    assert (used["STACK"], used["LOCAL"]) == (0, 0)
