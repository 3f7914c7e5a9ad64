"""What structout costs inside of vLLM: ``python -m benchmarks.vllm_cost [--json]``, with STRUCTOUT_VLLM_PYTHON set.

vLLM with its own xgrammar backend, and vLLM with structout and its xgrammar backend, each in a process that stays,
answer the same requests in turn. For each pair of rounds there are two ratios of structout to stock: of the throughput
(tokens by the clock), and of the processor time that filling rows, applying them and accepting tokens take. It prints,
for each number of requests at once, the geometric means over the pairs with a 95 % interval from a bootstrap.
"""

import json
import os
import random
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, Final

import typer

from benchmarks.output import show
from engine_adapter.embedded.pretrained import packaged_folder

BATCHES: Final = (1, 8, 32)
RESAMPLED: Final = 2000


class Engine:
    """A process that answers rounds."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, batch: int, seed: int) -> Mapping[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"batch": batch, "seed": seed}) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("\t"):
                spent: Mapping[str, Any] = json.loads(line)
                return spent
        raise RuntimeError("the engine has ended; see above")


@contextmanager
def engine(kind: str) -> Iterator[Engine]:
    """vLLM, until the block ends."""
    command = [os.environ["STRUCTOUT_VLLM_PYTHON"], "-m", "benchmarks.vllm_engine", kind, str(packaged_folder())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Engine(process)
    finally:
        process.kill()
        process.communicate()


def interval(ratios: Sequence[float], seed: int = 0) -> dict[str, float]:
    """The geometric mean of ratios, and where 95 % of those of samples drawn from them lie."""
    draw = random.Random(seed)
    means = sorted(statistics.geometric_mean(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLED))
    low, high = means[round(0.025 * RESAMPLED)], means[round(0.975 * RESAMPLED) - 1]
    return {"mean": round(statistics.geometric_mean(ratios), 4), "low": round(low, 4), "high": round(high, 4)}


def main(pairs: Annotated[int, typer.Option(min=1)] = 10, *, json: bool = False) -> None:
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        stock, ours = (stack.enter_context(engine(kind)) for kind in ("stock", "structout"))
        for batch in BATCHES:
            for warm in (stock, ours):
                warm.run(batch, 0)
            throughput, masks = [], []
            for pair in range(pairs):
                order = (stock, ours) if pair % 2 else (ours, stock)
                spent = {each: each.run(batch, pair) for each in order}
                throughput.append(spent[stock]["wall_s"] / spent[ours]["wall_s"])
                masks.append(spent[ours]["masks_s"] / spent[stock]["masks_s"])
            found[f"throughput at batch {batch}"] = interval(throughput)
            found[f"masks at batch {batch}"] = interval(masks)
    show({"pairs": pairs, **found}, as_json=json)


if __name__ == "__main__":
    typer.run(main)
