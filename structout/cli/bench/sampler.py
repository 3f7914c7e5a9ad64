"""``structout bench sampler``: masking and sampling on the CPU, beside xgrammar's apply and torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from structout.cli.bench import machine, recording, report, timing
from structout.cli.bench.recording import Masks
from structout.cli.bench.report import BenchError
from structout.cli.bench.timing import Figure, Way

TEMPERATURE: Final = 0.8
DTYPES: Final = ("float32", "bfloat16", "float16")
BATCHES: Final = (1, 8, 32)
_ROWS: Final = 128  # in a round, or a batch if that is more
_SPARSE, _DENSE = 1024, 0.5  # most tokens of a sparse row, least share of a dense one


@attrs.frozen
class Kind:
    """A kind of batch: which rows are in it, and at what temperature."""

    name: str
    rows: str
    temperature: float


KINDS: Final = (
    Kind("mix", "all", TEMPERATURE),
    Kind("sparse", "sparse", TEMPERATURE),
    Kind("dense", "dense", TEMPERATURE),
    Kind("greedy mix", "all", 0.0),
)


def run(masks: Sequence[Path], vocabulary: str, save: Path | None, dtype: str, options: report.Options) -> int:
    """Prints the figures. Returns the exit code."""
    try:
        report.check_plot(options.plot)
        sources = [recording.read(path) for path in masks] or [_recorded(vocabulary)]
        if save is not None:
            sources[0].save(save)
        figures = measure(sources, dtype=dtype, seconds=36.0 if options.quick else 300.0)
    except BenchError as exc:
        return report.failed(exc, options)
    report.show("sampler", machine.describe("1 thread used"), figures, options)
    return 0


def _recorded(name: str) -> Masks:
    from structout.compile import CompileService
    from structout.discovery import discover

    vocabulary = recording.vocabulary_of(name)
    service = CompileService(discover(), vocabulary)
    try:
        return recording.record(name, vocabulary, service)
    finally:
        service.close()


def measure(sources: Sequence[Masks], *, dtype: str = "float32", seconds: float) -> list[Figure]:
    """Compares on each source's masks, within about ``seconds`` for all. Raises BenchError where a side is missing."""
    try:
        import numba  # noqa: F401
        import torch  # noqa: F401
        import xgrammar  # noqa: F401
    except ModuleNotFoundError as exc:
        raise BenchError(f"not installed: {exc.name}", "pip install 'structout[sampling,xgrammar]'") from exc
    cases = [(source, kind, batch) for source in sources for kind in KINDS for batch in BATCHES]
    with timing.one_thread():
        return [
            figure
            for source, kind, batch in cases
            for figure in _compare(source, kind, batch, dtype, seconds / len(cases))
        ]


def _compare(source: Masks, kind: Kind, batch: int, dtype: str, seconds: float) -> list[Figure]:
    rows = _rows(source, kind.rows)
    if not len(rows):
        return []
    calls = max(2, _ROWS // batch)
    chosen = np.random.default_rng(0).choice(rows, (calls, batch))
    case = {"masks": source.name, "rows": kind.name, "batch": batch, "logits": dtype}
    ways = _ways(source, chosen, kind.temperature, dtype)
    return timing.compare(case, ways, calls=calls, rows=batch, seconds=seconds)


def _rows(source: Masks, which: str) -> npt.NDArray[np.intp]:
    allowed = np.bitwise_count(source.rows.view(np.uint32)).sum(axis=1)
    match which:
        case "sparse":
            return np.flatnonzero(allowed <= _SPARSE)
        case "dense":
            return np.flatnonzero(allowed > _DENSE * source.vocabulary)
        case _:
            return np.arange(len(allowed))


def _ways(source: Masks, chosen: npt.NDArray[np.intp], temperature: float, dtype: str) -> dict[str, Way]:
    """The calls to compare. Each gets logits that were just written, as a forward pass leaves them."""
    import torch
    import xgrammar

    from engine_adapter.sampling import SamplingBatch, SamplingParams
    from engine_adapter.sampling.sampler import sample

    batch = chosen.shape[1]
    draws = np.random.default_rng(1).standard_normal((batch, source.vocabulary), np.float32) * 4
    model = torch.from_numpy(draws).to(getattr(torch, dtype))
    logits = torch.empty_like(model)
    state, bitmask = SamplingBatch(), np.zeros((batch, source.rows.shape[1]), np.int32)
    packed = torch.from_numpy(bitmask)
    slots = [state.join(SamplingParams(temperature=temperature, seed=seed)) for seed in range(batch)]

    def prepare(number: int) -> None:
        logits.copy_(model)
        np.take(source.rows, chosen[number], axis=0, out=bitmask)

    def own(number: int) -> Any:
        prepare(number)
        row_map, positions = list(range(batch)), [number] * batch
        return lambda: sample(logits, state.rows(slots, positions), bitmask, row_map).tokens

    def peer(number: int) -> Any:
        prepare(number)
        return draw if temperature else take

    def draw() -> Any:
        xgrammar.apply_token_bitmask_inplace(logits, packed)
        return torch.multinomial(torch.softmax(logits.div_(temperature), dim=-1), 1).squeeze(-1)

    def take() -> Any:
        xgrammar.apply_token_bitmask_inplace(logits, packed)
        return logits.argmax(dim=-1)

    return {timing.OWN: own, "xgrammar + torch": peer}
