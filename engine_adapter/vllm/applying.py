"""Bitmasks on logits, where vLLM's worker applies them: on a CPU, and on CUDA with Triton, by us.

On a CPU, vLLM has logits of bfloat16 converted to float32 for that and back, all rows of the batch. On CUDA it sends a
row for each row of the batch. Here the rows that have a bitmask are sent, and changed where they are, and what lets
everything through costs nothing.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from engine_adapter.sampling.bits import fitted, set_bits, unpack_row

Rows = npt.NDArray[np.int32]

FEW: Final = 1024
"""Up to so many tokens it is quicker to name them than to go through the row."""


def places(batch: Sequence[str], constrained: Sequence[str], drafts: Callable[[str], int]) -> Iterator[tuple[int, int]]:
    """Which row of a bitmask belongs to which row of the logits.

    Args:
        batch: ids of the requests as their logits follow each other, each with a row for each draft and one more.
        constrained: ids of those with rows in the bitmask, as these follow each other; what is not in the batch has
            rows all the same.
        drafts: how many a request has.
    """
    first, row = {}, 0
    for request_id in batch:
        first[request_id] = row
        row += drafts(request_id) + 1
    source = 0
    for request_id in constrained:
        count = drafts(request_id) + 1
        if (target := first.get(request_id)) is not None:
            yield from zip(range(source, source + count), range(target, target + count), strict=True)
        source += count


def apply(bitmask: Rows, logits: Any, rows: Sequence[tuple[int, int]]) -> None:
    """Sets to -inf what a bitmask forbids, in place.

    Args:
        bitmask: int32 [rows, words]; tokens behind the last word are forbidden.
        logits: a torch.Tensor of any floating type on the CPU, [rows, vocabulary].
        rows: pairs of a row of the bitmask and the row of the logits that it is for.
    """
    import torch

    # NumPy has no bfloat16, and its indexing costs a tenth of torch's: bits are moved, whatever they mean.
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[logits.itemsize]
    raw = logits.view(bits).numpy()
    minus_infinity = int(torch.full((), -torch.inf, dtype=logits.dtype).view(bits).item())
    for source, target in rows:
        _apply_row(bitmask[source : source + 1], raw[target], minus_infinity)


def _apply_row(row: Rows, logits: npt.NDArray[Any], minus_infinity: int) -> None:
    """Of one row of the bitmask, [1, words]."""
    (words,) = fitted(row, logits.size)
    most = words.size * 32
    allowed = int(np.bitwise_count(words).sum())
    if allowed <= FEW:
        ids = set_bits(words)
        kept = logits[ids]
        logits.fill(minus_infinity)
        logits[ids] = kept
    elif most - allowed <= FEW:
        (forbidden,) = fitted(~row, logits.size)
        logits[set_bits(forbidden)] = minus_infinity
        logits[most:] = minus_infinity
    else:
        np.putmask(logits, ~unpack_row(words, logits.size), minus_infinity)


Apply: TypeAlias = Callable[[Rows, Any, Sequence[tuple[int, int]]], None]


@functools.cache
def on_device(device_type: str) -> Apply | None:
    """What applies bitmasks to logits on such a device; None if that is left to vLLM."""
    if device_type == "cpu":
        return apply
    if device_type == "cuda":
        with contextlib.suppress(ImportError):
            from engine_adapter.sampling import triton_masking

            return triton_masking.apply
    return None


def applying(by_vllm: Callable[..., None], on_device: Callable[[str], Apply | None] = on_device) -> Callable[..., None]:
    """vLLM's ``apply_grammar_bitmask``, done here where there is something for the device."""

    def apply_grammar_bitmask(scheduler_output: Any, grammar_output: Any, input_batch: Any, logits: Any) -> None:
        apply_here = on_device(logits.device.type)
        if apply_here is None or logits.stride(1) != 1:
            by_vllm(scheduler_output, grammar_output, input_batch, logits)
            return
        drafts = scheduler_output.scheduled_spec_decode_tokens
        rows = places(
            input_batch.req_ids,
            grammar_output.structured_output_request_ids,
            lambda request_id: len(drafts.get(request_id, ())),
        )
        apply_here(grammar_output.grammar_bitmask, logits, list(rows))

    return apply_grammar_bitmask
