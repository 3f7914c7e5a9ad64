"""What do a thousand equal requests cost? ``python -m benchmarks.single_flight [--json]``

All ask for the same spec at the same time, from several threads; the spec has to be tried in the sandbox first, and
outlines, which is named, takes a while for it. The figures:

- ``compiles``: how many there were for them.
- ``same``: how many requests got the one grammar.
- ``one_left``: whether the last request still gets its grammar when all others are cancelled.
- ``stopped_ms``: from the last cancellation of all to the end of the worker that was compiling; each of three times.

The vocabulary is SmolLM2's.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final

import typer

from benchmarks.bounds import vocabulary
from benchmarks.output import show
from structout import hookimpl
from structout.compile import CompileService, PendingGrammar
from structout.compile.sandbox import Sandbox
from structout.discovery import Registry, discover
from structout.grammar import Grammar
from structout.hookspecs import CompileEvent
from structout.processes.usage import cpu_seconds
from structout.result import Ok
from structout.spec import Regex

_THREADS: Final = 8
_TIMES: Final = 3


class Counter:
    """Counts compiles."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.compiles = 0

    @hookimpl
    def structout_compile_finished(self, event: CompileEvent) -> None:
        with self._lock:
            self.compiles += 1


def _ask(service: CompileService, count: int, spec: Regex) -> list[PendingGrammar]:
    """That many requests, from several threads at a time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda _: service.submit(spec, backend="outlines", deadline_s=120.0), range(count)))


def _grammars(pendings: list[PendingGrammar]) -> list[Grammar]:
    return [result.value for pending in pendings if isinstance(result := pending.wait(120.0), Ok)]


def _seconds_until(condition: Callable[[], bool], longest_s: float = 10.0) -> float:
    began = time.monotonic()
    while not condition() and time.monotonic() - began < longest_s:
        time.sleep(0.0005)
    return time.monotonic() - began


def _stopped_s(service: CompileService, sandbox: Sandbox, count: int, number: int) -> float:
    """Seconds from the last cancellation to the worker's end."""
    sandbox.wait_until_full()
    [worker] = sandbox.pids()
    pendings = _ask(service, count, Regex(f"{number}(a|b)*a(a|b){{18}}"))
    time.sleep(1.0)  # it computes by now
    for pending in pendings:
        pending.cancel()
    return _seconds_until(lambda: cpu_seconds(worker) is None)


def figures(registry: Registry, counter: Counter, count: int) -> dict[str, Any]:
    """See the module."""
    words = vocabulary()
    sandbox = Sandbox(discover(), words, workers=1, warm=["outlines"])
    service = CompileService(registry, words, sandbox=sandbox)
    try:
        sandbox.wait_until_full()
        equal = _grammars(_ask(service, count, Regex("equal [a-z]{1,40}")))
        compiles = counter.compiles
        pendings = _ask(service, count, Regex("one left [a-z]{1,40}"))
        for pending in pendings[1:]:
            pending.cancel()
        return {
            "requests": count,
            "compiles": compiles,
            "same": sum(grammar is equal[0] for grammar in equal),
            "one_left": len(_grammars(pendings[:1])) == 1,
            "stopped_ms": [round(1000 * _stopped_s(service, sandbox, count, each), 1) for each in range(_TIMES)],
        }
    finally:
        service.close()
        sandbox.close()


def main(
    count: Annotated[int, typer.Option(help="Equal requests.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Prints what became of equal requests."""
    counter = Counter()
    show(figures(discover(plugins={"counter": counter}), counter, count), as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
