"""What the compile service adds to a plain spec: ``python -m benchmarks.service_overhead [--json]``

The same kind of schema, a fresh one each time, goes in turn to

    direct     `BoundBackend.compile`
    work       what a thread of the service does with it, done on this thread
    named      `CompileService.compile`, the backend named
    unnamed    the same, no backend named

and a pair of threads hands an object over as the service does (``handover``: wake a thread, be woken by it). Times are
CPU seconds of the whole process, and of the clock; what is added is the median over the rounds of the differences
within a round, each divided by the number of specs. The vocabulary is SmolLM2's.
"""

import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Final

import attrs
import typer

from benchmarks.bounds import vocabulary
from structout.compile import CompileService
from structout.compile.jobs import Job, Key
from structout.compile.lanes import Lane
from structout.compile.pending import Pending
from structout.compile.sandbox import Sandbox
from structout.compile.work import Done
from structout.discovery import discover
from structout.processes.usage import share_freed_memory
from structout.result import Ok
from structout.spec import GrammarSpec, JsonSchema

LIMIT_MS: Final = 0.2
"""What a plain spec may cost more through the service than directly."""


@attrs.frozen
class Cost:
    """Milliseconds for each spec."""

    cpu: float
    wall: float

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.cpu - other.cpu, self.wall - other.wall)


def schemas() -> Iterator[GrammarSpec]:
    """Plain schemas, no two alike."""
    number = 0
    while True:
        number += 1
        properties = {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            f"field_{number}": {"type": "array", "items": {"type": "number"}},
            "tag": {"enum": ["a", "b", "c"]},
        }
        schema = {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}
        yield JsonSchema(json.dumps(schema))


def cost(call: Callable[[GrammarSpec], object], specs: list[GrammarSpec]) -> Cost:
    """What ``call`` takes for each of the specs."""
    cpu, wall = time.process_time(), time.perf_counter()
    for spec in specs:
        call(spec)
    return Cost(*(1e3 * each / len(specs) for each in (time.process_time() - cpu, time.perf_counter() - wall)))


class Echo:
    """A thread that settles what it is handed, as the service's threads do."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: list[Pending[None]] = []
        threading.Thread(target=self._run, daemon=True).start()

    def __call__(self, _spec: GrammarSpec) -> None:
        pending = Pending[None]()
        with self._changed:
            self._asked.append(pending)
            self._changed.notify_all()
        pending.wait()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked)
                pending = self._asked.pop()
            pending.settle(Ok(None))


def ways(service: CompileService, backend: str) -> dict[str, Callable[[GrammarSpec], object]]:
    """What is compared, by name."""

    def work(spec: GrammarSpec) -> None:
        done = service._workshop.do(Job(Key(spec.key, "", backend, ""), spec, "", Lane.QUICK, 0.0))
        assert isinstance(done, Done)
        done.result.unwrap()

    return {
        "direct": service.backend(backend).unwrap().compile,
        "work": work,
        "named": lambda spec: service.compile(spec, backend=backend).unwrap(),
        "unnamed": lambda spec: service.compile(spec).unwrap(),
        "handover": Echo(),
    }


def main(
    rounds: Annotated[int, typer.Option(help="How often each way has its turn.")] = 30,
    specs: Annotated[int, typer.Option(help="Specs in a turn.")] = 10,
    backend: Annotated[str, typer.Option(help="The backend that is named.")] = "llguidance",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Prints what the service adds, in milliseconds for each spec."""
    share_freed_memory()  # as `open_local` does
    registry, tokens, fresh, shuffle = discover(), vocabulary(), schemas(), random.Random(0).shuffle
    sandbox = Sandbox(registry, tokens, workers=1)
    sandbox.wait_until_full()
    try:
        service = CompileService(registry, tokens, sandbox=sandbox)
        compared = ways(service, backend)
        order = list(compared)
        costs: dict[str, list[Cost]] = {name: [] for name in compared}
        for turn in range(rounds + 1):
            shuffle(order)
            for name in order:
                found = cost(compared[name], [next(fresh) for _ in range(specs)])
                if turn:  # the first warms up
                    costs[name].append(found)
        service.close()
    finally:
        sandbox.close()
    report(costs, as_json)


def report(costs: dict[str, list[Cost]], as_json: bool) -> None:
    """Prints medians, and what each way takes more than the direct one in the same round."""
    direct = costs["direct"]
    found: dict[str, dict[str, float]] = {}
    for name, each in costs.items():
        more = each if name in ("direct", "handover") else [a - b for a, b in zip(each, direct, strict=True)]
        label = name if name in ("direct", "handover") else f"{name} - direct"
        found[label] = {
            "cpu_ms": round(statistics.median(cost.cpu for cost in more), 3),
            "wall_ms": round(statistics.median(cost.wall for cost in more), 3),
        }
    if as_json:
        typer.echo(json.dumps({"limit_ms": LIMIT_MS, **found}))
        return
    for label, values in found.items():
        typer.echo(f"{label}: {values['cpu_ms']:.3f} ms of CPU, {values['wall_ms']:.3f} ms of the clock")


if __name__ == "__main__":
    typer.run(main)
