"""Sampling in two kernels, as newer engines do it: what `benchmarks.gpu_sampler` compares with.

One writes -inf where the mask forbids; one adds Gumbel noise, a Philox number a token, and takes each block's largest.
"""

import torch
import triton
import triton.language as tl

BLOCK = 1024


@triton.jit
def _mask(logits, mask, stride, mask_stride, size, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    words = tl.program_id(1) * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    bits = tl.load(mask + row * mask_stride + words, mask=words * 32 < size, other=0)
    is_forbidden = ((bits[:, None] >> tl.arange(0, 32)[None, :]) & 1) == 0
    ids = words[:, None] * 32 + tl.arange(0, 32)[None, :]
    tl.store(logits + row * stride + ids, float("-inf"), mask=is_forbidden & (ids < size))


@triton.jit
def _noise(logits, values, tokens, stride, size, seed, NOISY: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + row * stride + ids, mask=ids < size, other=float("-inf")).to(tl.float32)
    if NOISY:
        uniform = tl.maximum(tl.rand(seed + row, ids), 1e-7)
        x = tl.where(x == float("-inf"), x, x - tl.log(-tl.log(uniform)))
    value, index = tl.max(x, axis=0, return_indices=True)
    at = row * tl.num_programs(1) + block
    tl.store(values + at, value)
    tl.store(tokens + at, block * BLOCK + index)


def sample(logits: torch.Tensor, bitmask: torch.Tensor, *, noisy: bool) -> torch.Tensor:
    """int64 [n, 1]: a token for each row of ``logits``, in which -inf is written where the mask forbids."""
    rows, size = logits.shape
    grid = (rows, triton.cdiv(size, BLOCK))
    values = torch.empty(grid, dtype=torch.float32, device=logits.device)
    tokens = torch.empty(grid, dtype=torch.int64, device=logits.device)
    _mask[grid](logits, bitmask, logits.stride(0), bitmask.stride(0), size, BLOCK=BLOCK)
    _noise[grid](logits, values, tokens, logits.stride(0), size, 7, NOISY=noisy, BLOCK=BLOCK)
    return tokens.gather(1, values.argmax(dim=-1, keepdim=True))
