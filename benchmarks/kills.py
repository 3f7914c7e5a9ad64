"""Does it matter who kills workers? ``python -m benchmarks.kills [--seconds S] [--every S] [--json]``

The same requests go twice through an engine with a scripted model (`benchmarks.models.ScriptedModel`): first with
every grammar compiled in the engine's process, then with a sandbox and isolated grammars, while a random one of their
processes is killed by SIGKILL every so often. Each request has to end as it did the first time, text for text. The
figures:

- ``killed``: how many processes were.
- ``requests``, and of them ``tried`` ones, which went through a process that could be killed.
- ``lost``: requests that have not ended two deadlines after the last was sent.
- ``failed``: those that ended in an error, by kind.
- ``wrong``: those that ended in another text than the first time.

The vocabulary is SmolLM2's.
"""

import contextlib
import functools
import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import attrs
import typer

from benchmarks.bounds import vocabulary
from benchmarks.models import ScriptedModel
from benchmarks.output import show
from engine_adapter.embedded.engine import Engine
from engine_adapter.embedded.request import Request
from engine_adapter.filling.isolation import Isolation
from engine_adapter.filling.risky import RiskyGrammars
from engine_adapter.outcome import Delta, Failed, Finished, Outcome
from engine_adapter.sampling import SamplingParams
from structout.compile import CompileService
from structout.compile.sandbox import Sandbox
from structout.discovery import discover
from structout.result import Err
from structout.spec import Choice, GrammarSpec, JsonSchema, Regex

_TOKENS: Final = 24
_ROWS: Final = 64


def _spec(number: int) -> tuple[str | None, GrammarSpec]:
    """A spec that no other number has, and the backend that is named: every second one has to be tried first."""
    match number % 4:
        case 0:
            return None, Choice((f"yes n{number}", f"no n{number}"))
        case 1:
            return "outlines", Regex(f"n{number}: [a-z]{{1,{4 + number % 13}}}")
        case 2:
            return None, Regex(f"n{number}: (yes|no)+")
    text = {"type": "string", "maxLength": 40 + number % 7}
    schema = {"type": "object", "properties": {f"n{number}": text}, "required": [f"n{number}"]}
    return "xgrammar", JsonSchema(json.dumps(schema | {"additionalProperties": False}))


@attrs.frozen
class Plan:
    """How many requests, how fast, and how often somebody kills.

    Attributes:
        seconds: for which requests come.
        rate: requests a second.
        every_s: seconds from one kill to the next.
        deadline_s: of each request's grammar.
    """

    seconds: float
    rate: float
    every_s: float
    deadline_s: float


class Killer:
    """Kills a random one of some processes every so often, when it is asked to.

    Attributes:
        killed: how many it has killed.
    """

    def __init__(self, every_s: float, pids: Callable[[], tuple[int, ...]]) -> None:
        self._every_s, self._pids = every_s, pids
        self._random, self._next = random.Random(0), time.monotonic() + every_s
        self.killed = 0

    def __call__(self) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every_s
        if pids := self._pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._random.choice(pids), signal.SIGKILL)
                self.killed += 1


def _ends(engine: Engine, plan: Plan, each_step: Callable[[], None]) -> dict[str, Outcome]:
    """What the requests end in, by id. Those that do not end in time are not in it."""
    ends: dict[str, Outcome] = {}
    began, sent, total = time.monotonic(), 0, int(plan.seconds * plan.rate)
    until = began + plan.seconds + 2 * plan.deadline_s
    while len(ends) < total and time.monotonic() < until:
        while sent < min(total, (time.monotonic() - began) * plan.rate):
            backend, spec = _spec(sent)
            request = Request(
                id=str(sent),
                prompt=(1, 2, sent % 1000),
                max_tokens=_TOKENS,
                sampling=SamplingParams(temperature=0.0),
                spec=spec,
                backend=backend,
                deadline_s=plan.deadline_s,
            )
            if isinstance(refused := engine.add(request), Err):
                ends[request.id] = Failed(refused.error)
            sent += 1
        each_step()
        if engine.wait_for_work(0.01):
            found = engine.step().events
            ends |= {event.request_id: event.outcome for event in found if not isinstance(event.outcome, Delta)}
    return ends


@contextlib.contextmanager
def _service(*, guarded: bool) -> Iterator[tuple[CompileService, Callable[[], tuple[int, ...]]]]:
    """A service, and the processes of it that may be killed."""
    words, registry = vocabulary(), discover()
    with contextlib.ExitStack() as close:
        if not guarded:
            service = CompileService(registry, words, deadline_s=600.0)
            close.callback(service.close)
            yield service, tuple
            return
        sandbox = close.enter_context(contextlib.closing(Sandbox(registry, words, warm=list(registry.backends))))
        isolation = close.enter_context(
            contextlib.closing(Isolation(functools.partial(RiskyGrammars, registry, words)))
        )
        service = CompileService(registry, words, sandbox=sandbox, isolate=isolation.compile)
        close.callback(service.close)
        sandbox.wait_until_full()
        yield service, lambda: (*sandbox.pids(), *isolation.pids())


def _run(plan: Plan, *, guarded: bool) -> tuple[dict[str, Outcome], int]:
    with _service(guarded=guarded) as (service, pids):
        engine = Engine(
            ScriptedModel(service.vocabulary.padded_size, max_rows=_ROWS, max_len=64), service, max_misses=10**6
        )
        killer = Killer(plan.every_s, pids)
        ends = _ends(engine, plan, killer)
        engine.close()
        return ends, killer.killed


def figures(plan: Plan) -> dict[str, Any]:
    """See the module."""
    expected, _ = _run(attrs.evolve(plan, deadline_s=600.0), guarded=False)
    ends, killed = _run(plan, guarded=True)
    failed = {number: end for number, end in ends.items() if isinstance(end, Failed)}
    wrong = [number for number, end in ends.items() if number not in failed and end != expected[number]]
    return {
        "killed": killed,
        "requests": len(expected),
        "tried": sum(_spec(int(number))[0] is not None for number in expected),
        "first_failed": sum(not isinstance(end, Finished) for end in expected.values()),
        "lost": len(expected) - len(ends),
        "failed": dict(Counter(end.error.kind.value for end in failed.values())),
        "wrong": len(wrong),
    }


def main(
    seconds: Annotated[float, typer.Option(help="For which requests come.")] = 60.0,
    rate: Annotated[float, typer.Option(help="Requests a second.")] = 4.0,
    every_s: Annotated[float, typer.Option("--every", help="Seconds from one kill to the next.")] = 2.0,
    deadline_s: Annotated[float, typer.Option("--deadline", help="Seconds that a grammar may take.")] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Prints what became of requests whose processes somebody killed."""
    show(figures(Plan(seconds, rate, every_s, deadline_s)), as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
