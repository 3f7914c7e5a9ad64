"""The kernels as sm_90 runs them, compiled without a GPU: registers suffice, and full blocks are read in vectors."""

import functools
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

triton = pytest.importorskip("triton", reason="triton is not installed")

DTYPES = {"fp32": 0, "bf16": 16, "fp16": 13}
POINTERS = {
    "mask": "*i32",
    "params": "*fp64",
    "block_max": "*fp32",
    "block_sum": "*fp32",
    "block_first": "*i32",
    "block_count": "*i32",
    "candidates": "*i64",
    "slots": "*i32",
    "arrivals": "*i32",
    "tokens": "*i64",
    "flags": "*u8",
    "logprobs": "*fp32",
    "pending": "*i32",
}


LONGER = [pytest.param(name, marks=pytest.mark.long) for name in ("fp32", "fp16")]
TRUNCATES = pytest.param("survey", True, marks=pytest.mark.long)
each_dtype = pytest.mark.parametrize("dtype", ["bf16", *LONGER])


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with triton.knobs.cache.scope():
        triton.knobs.cache.dir = str(tmp_path_factory.mktemp("triton"))
        yield


@functools.cache
def _compiled(name: str, dtype: str, *, aligned: bool = True, truncates: bool = True) -> Any:
    """A kernel's code for a vocabulary of 128,256 tokens, as it is launched."""
    from triton.backends.compiler import GPUTarget

    from engine_adapter.sampling import triton_kernels, triton_sampler

    kernel = getattr(triton_kernels, name)
    constants: Mapping[str, Any] = {
        "PADDED": 128,
        "ALIGNED": aligned,
        "UNIT": 32,
        "TRUNCATES": truncates,
        "SHIFT": DTYPES[dtype],
    }
    signature = {
        argument: "constexpr" if argument in constants else ({"logits": f"*{dtype}"} | POINTERS).get(argument, "i32")
        for argument in kernel.arg_names
    }
    divisible = [argument for argument in kernel.arg_names if argument in POINTERS or argument == "size"]
    source = triton.compiler.ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={argument: value for argument, value in constants.items() if argument in signature},
        attrs={(kernel.arg_names.index(argument),): [["tt.divisibility", 16]] for argument in divisible},
    )
    options = triton_sampler.SURVEY if name == "survey" else triton_sampler.TRUNCATE
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=dict(options))


def resources(cubin: bytes, folder: Path) -> dict[str, int]:
    """What a kernel takes of the GPU: registers a thread, bytes of its stack, and so on, by the tool's names."""
    file = folder / "kernel.cubin"
    file.write_bytes(cubin)
    command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(file)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL|SHARED):(\d+)", said)}


@each_dtype
@pytest.mark.parametrize(("name", "truncates"), [("survey", False), TRUNCATES, ("truncate", True)])
def test_no_register_is_spilled(name: str, truncates: bool, dtype: str, tmp_path: Path) -> None:
    """A thread keeps all it has in registers: what is spilled lies on its stack."""
    used = resources(_compiled(name, dtype, truncates=truncates).asm["cubin"], tmp_path)
    assert used["REG"] > 0
    assert (used["STACK"], used["LOCAL"]) == (0, 0)


@each_dtype
@pytest.mark.parametrize("truncates", [False, pytest.param(True, marks=pytest.mark.long)])
def test_logits_are_read_in_vectors_of_16_bytes(truncates: bool, dtype: str) -> None:
    """Two before and inside of the loop, ahead of their use."""
    assert _compiled("survey", dtype, truncates=truncates).asm["ptx"].count("ld.global.v4.b32") >= 2
    assert "ld.global.v4.b32" not in _compiled("survey", dtype, aligned=False, truncates=False).asm["ptx"]


def _sums(dtype: str, *, truncates: bool) -> list[str]:
    """In which layout each sum and maximum of floats is taken, over a block and over blocks."""
    code = _compiled("survey", dtype, truncates=truncates).asm["ttgir"]
    layouts = dict(re.findall(r"^(#\w+) = (.*)$", code, re.MULTILINE))
    return [f"{shape} {layouts[name]}" for shape, name in re.findall(r"\(tensor<(\w+xf\d+), (#\w+)>\) -> f\d+", code)]


@pytest.mark.long
@each_dtype
def test_row_is_summed_in_one_way_whether_others_truncate_or_not(dtype: str) -> None:
    """What is only there for rows that truncate comes behind."""
    plain = _sums(dtype, truncates=False)
    assert len(plain) >= 4
    assert _sums(dtype, truncates=True)[: len(plain)] == plain
