"""The sampler on a CUDA GPU beside what engines do there today: ``python -m benchmarks.gpu_sampler --json``

Each contender is captured in a CUDA graph and replayed by turns with the others, on the same bfloat16 logits and masks:

- `ours`: `DeviceSampler`, all that a step launches;
- `apply`: xgrammar's ``apply_token_bitmask_inplace``, then torch's softmax and multinomial, or argmax; for top-k and
  top-p torch's sort between them. Left out where xgrammar is not installed;
- `gumbel`: one kernel that writes -inf where the mask forbids, one that adds Gumbel noise to each logit and takes each
  block's largest, then torch's max over the blocks; with a temperature other than 1, a float32 copy is divided by it
  first. It knows no top-k and top-p.

Times are medians of the rounds, ratios are of them. Before anything is timed, our tokens are checked: each is one that
its mask allows, nearly all are those of the torch path (a draw may lie within rounding of the border of two tokens),
and in every split they are the same to the last bit.
"""

import contextlib
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import typer

from benchmarks.output import show
from engine_adapter.sampling import SamplingParams, SamplingRows, request_uniform

if TYPE_CHECKING:
    import torch

    from engine_adapter.sampling.triton_sampler import DeviceSampler

Masks = npt.NDArray[np.int32]
Step = Callable[[], object]

SIZE: Final = 128_256
SPARSE: Final = 1024
SETTINGS: Final = {
    "greedy": SamplingParams(temperature=0),
    "T=1": SamplingParams(temperature=1.0),
    "T=0.8": SamplingParams(temperature=0.8),
    "top-k 50, top-p 0.95": SamplingParams(temperature=0.8, top_k=50, top_p=0.95),
}


def read_masks(path: Path) -> Masks:
    """The array ``masks`` of an .npz file, int32 [masks, words]."""
    with np.load(path) as arrays:
        masks: Masks = arrays["masks"]
    return masks


def synthetic_masks(size: int, count: int = 256, seed: int = 0) -> Masks:
    """Masks as grammars make them: half allow a few tokens up to 1,024, half nearly all, in runs of ids."""
    rng = np.random.default_rng(seed)
    bits = np.zeros((count, 32 * -(-size // 32)), dtype=np.bool_)
    for row in range(count):
        if row % 2:
            bits[row, :size] = np.repeat(rng.random(-(-size // 64)) < 0.9, 64)[:size]
        bits[row, rng.integers(0, size, int(2 ** rng.uniform(0, 10)))] = True
    return np.packbits(bits, axis=1, bitorder="little").view(np.int32)


def mixes(masks: Masks) -> dict[str, Masks]:
    """All masks, those that allow at most 1,024 tokens, and those that allow more than half of them."""
    allowed = np.bitwise_count(masks.view(np.uint32)).sum(axis=1)
    parts = {"mix": masks, "sparse": masks[allowed <= SPARSE], "dense": masks[allowed > 16 * masks.shape[1]]}
    return {name: part for name, part in parts.items() if len(part)}


@attrs.frozen
class Figure:
    """Medians of one case in microseconds, by contender; None for one that could not be measured."""

    mix: str
    rows: int
    setting: str
    microseconds: Mapping[str, float]

    @property
    def ratios(self) -> dict[str, float]:
        """How many times as long as ours each of the others takes."""
        ours = self.microseconds["ours"]
        return {name: value / ours for name, value in self.microseconds.items() if name != "ours"}

    def line(self) -> str:
        others = ", ".join(f"{name} {ratio:.2f} times" for name, ratio in self.ratios.items())
        return f"{self.microseconds['ours']:.1f} us; {others or 'nothing to compare with'}"

    def to_json(self) -> dict[str, Any]:
        return attrs.asdict(self) | {"ratios": self.ratios}


@attrs.frozen(eq=False)
class Case:
    """One step's arguments on the device."""

    logits: "torch.Tensor"
    bitmask: "torch.Tensor"
    rows: SamplingRows
    params: SamplingParams

    @classmethod
    def of(cls, masks: Masks, count: int, params: SamplingParams, size: int) -> "Case":
        import torch

        rng = np.random.default_rng(count)
        chosen = masks[rng.permutation(np.arange(count) % len(masks))]
        generator = torch.Generator("cuda").manual_seed(count)
        logits = 3 * torch.randn(count, size, generator=generator, device="cuda")
        rows = SamplingRows.of([params] * count, [request_uniform(row, 0) for row in range(count)])
        return cls(logits.bfloat16(), torch.from_numpy(chosen).cuda(), rows, params)


def contenders(case: Case, sampler: "DeviceSampler") -> Iterator[tuple[str, Step]]:
    """What is compared, each by its name."""
    yield "ours", _ours(case, sampler)
    with contextlib.suppress(ImportError):
        yield "apply", _apply(case)
    if not case.rows.truncated.any():
        yield "gumbel", _gumbel(case)


def _ours(case: Case, sampler: "DeviceSampler", splits: int | None = None) -> Step:
    from engine_adapter.sampling.triton_sampler import Outputs

    outputs = Outputs.empty(len(case.rows), case.logits.device)
    truncated = bool(case.rows.truncated.any())

    def step() -> Outputs:
        sampler.launch(case.logits, case.bitmask, outputs, truncated=truncated, splits=splits)
        return outputs

    sampler.stage(case.rows, np.arange(len(case.rows)))
    return step


def _apply(case: Case) -> Step:
    import torch
    from xgrammar import apply_token_bitmask_inplace

    logits = case.logits.clone()

    def step() -> torch.Tensor:
        apply_token_bitmask_inplace(logits, case.bitmask)
        if case.params.is_greedy:
            return logits.argmax(dim=-1)
        scaled = logits.float() / case.params.temperature
        if case.rows.truncated.any():
            scaled = _sorted_and_cut(scaled, case.params)
        return torch.multinomial(scaled.softmax(dim=-1), 1)

    return step


def _sorted_and_cut(scaled: "torch.Tensor", params: SamplingParams) -> "torch.Tensor":
    import torch

    values, order = scaled.sort(dim=-1, descending=True)
    values = values.masked_fill(values < values[:, params.top_k - 1 : params.top_k], -torch.inf)
    shares = values.softmax(dim=-1)
    values = values.masked_fill(shares.cumsum(dim=-1) - shares >= params.top_p, -torch.inf)
    return torch.empty_like(values).scatter_(1, order, values)


def _gumbel(case: Case) -> Step:
    import torch

    from benchmarks import gumbel_kernels

    logits = case.logits.clone()
    temperature = case.params.temperature

    def step() -> torch.Tensor:
        values = logits if temperature in (0.0, 1.0) else logits.float().div_(temperature)
        return gumbel_kernels.sample(values, case.bitmask, noisy=not case.params.is_greedy)

    return step


def captured(step: Step) -> Step:
    """A replay of a step in a CUDA graph."""
    import torch

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def timed(steps: Mapping[str, Step], rounds: int, replays: int) -> dict[str, float]:
    """The median of each step over rounds by turns, in microseconds."""
    import torch

    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(rounds):
        for name, step in steps.items():
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            step()
            began.record()
            for _ in range(replays):
                step()
            ended.record()
            ended.synchronize()
            found[name].append(1000 * began.elapsed_time(ended) / replays)
    return {name: statistics.median(values) for name, values in found.items()}


def checked(case: Case, sampler: "DeviceSampler") -> dict[str, int]:
    """What of our tokens is not as it should be, in rows; ``differ_from_torch`` may be a few."""
    from engine_adapter.sampling import torch_sampler

    row_map = np.arange(len(case.rows))
    found = {splits: _read(_ours(case, sampler, splits)) for splits in (None, 1, 7)}
    tokens, _, logprobs = found[None]
    expected = torch_sampler.sample_batch(case.logits, case.rows, case.bitmask, row_map).tokens.cpu().numpy()
    words = case.bitmask.cpu().numpy()[row_map, tokens // 32]
    return {
        "illegal": int(((words >> (tokens % 32) & 1) == 0).sum()),
        "differ_from_torch": int((tokens != expected).sum()),
        "differ_by_split": sum(
            int(((other[0] != tokens) | ~np.isclose(other[2], logprobs, 0, 0, equal_nan=True)).sum())
            for other in found.values()
        ),
    }


def _read(step: Step) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    outputs: Any = step()
    return outputs.tokens.cpu().numpy(), outputs.flags.cpu().numpy(), outputs.logprobs.cpu().numpy()


def cases(masks: Masks, batches: Sequence[int]) -> Iterator[tuple[str, int, str]]:
    """The names of all cases, those that matter most first."""
    for setting in ("T=0.8", "T=1", "greedy", "top-k 50, top-p 0.95"):
        for mix in mixes(masks):
            for rows in batches:
                yield mix, rows, setting


def summary(figures: Sequence[Figure], left_out: int) -> dict[str, str]:
    """A line for each case, and one for what there was no time for."""
    lines = {f"{figure.mix}, B = {figure.rows}, {figure.setting}": figure.line() for figure in figures}
    return lines | ({"not measured, for want of time": f"{left_out} cases"} if left_out else {})


def main(
    masks_file: Annotated[
        Path | None, typer.Option("--masks", help="An .npz with `masks`, int32 [masks, words]; else synthetic ones.")
    ] = None,
    batches: Annotated[list[int], typer.Option("--rows", help="Rows of a step; may be given several times.")] = [  # noqa: B006
        1,
        32,
        256,
    ],
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each case.")] = 21,
    replays: Annotated[int, typer.Option(min=1, help="Replays in a round.")] = 50,
    seconds: Annotated[float, typer.Option(min=1, help="No case is begun after so long.")] = 400.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compares the device sampler with what engines do today. Needs a CUDA device and Triton."""
    import torch

    if not torch.cuda.is_available():
        typer.echo("there is no CUDA device: nothing was measured", err=True)
        raise typer.Exit(1)
    from engine_adapter.sampling.triton_sampler import DeviceSampler

    began = time.monotonic()
    masks = synthetic_masks(SIZE) if masks_file is None else read_masks(masks_file)
    sampler = DeviceSampler(max(batches), SIZE, torch.device("cuda"))
    figures: list[Figure] = []
    faults: dict[str, dict[str, int]] = {}
    names = list(cases(masks, batches))
    for mix, rows, setting in names:
        if time.monotonic() - began > seconds:
            break
        case = Case.of(mixes(masks)[mix], rows, SETTINGS[setting], SIZE)
        faults[f"{mix}, B = {rows}, {setting}"] = checked(case, sampler)
        steps = {name: captured(step) for name, step in contenders(case, sampler)}
        figures.append(Figure(mix, rows, setting, timed(steps, rounds, replays)))
    if as_json:
        found = {"figures": [figure.to_json() for figure in figures], "checks": faults}
        typer.echo(json.dumps(found | {"device": torch.cuda.get_device_name(), "left_out": len(names) - len(figures)}))
    else:
        show(summary(figures, len(names) - len(figures)) | {"checks": json.dumps(faults)}, as_json=False)
    wrong = any(each["illegal"] or each["differ_by_split"] for each in faults.values())
    raise typer.Exit(1 if wrong else 0)


if __name__ == "__main__":
    typer.run(main)
