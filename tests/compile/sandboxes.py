"""What the tests of the sandbox share: sandboxes of hazards, and ways to see what became of their workers.

Limits are far above what the jobs take; only what never ends meets one.
"""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from structout import Choice, Err, ErrorKind, GrammarError, Ok, Result
from structout.compile.risk import BOUNDS, Measures, measures_of
from structout.compile.sandbox import Limits, Sandbox, Tried
from structout.discovery import discover
from structout.processes import Stop
from structout.spec import GrammarSpec
from tests.compile.hazards import HazardsPlugin

LONG_S: Final = 300.0
LIMITS: Final = Limits(wall_s=LONG_S, cpu_s=2.0, memory_bytes=1 << 28)
HAZARDS: Final = discover(plugins={"hazards": HazardsPlugin()})
Make = Callable[..., Sandbox]


@attrs.define(eq=False)
class MeasuresHere:
    """The part of a sandbox that measures, without one; it keeps what it was asked for."""

    measured: list[GrammarSpec] = attrs.field(factory=list, kw_only=True)

    def measure(self, spec: GrammarSpec, *, stop: Stop, due: float) -> Result[Measures, GrammarError]:
        self.measured.append(spec)
        return Ok(measures_of(spec, BOUNDS))


TRIED: Final = Tried(backend="trie", compile_s=1.0, slowest_fill_s=0.0, fills=1, grown_bytes=0)


@attrs.define(eq=False)
class Through(MeasuresHere):
    """A sandbox that everything comes through; it keeps when each job had to be over."""

    workers: int = 1
    tried: Tried = TRIED
    due: list[float] = attrs.field(factory=list)

    def run(self, spec: GrammarSpec, *, backend: str | None, stop: Stop, due: float) -> Result[Tried, GrammarError]:
        self.due.append(due)
        return Ok(self.tried)


@attrs.define(eq=False)
class HeldSandbox(MeasuresHere):
    """A sandbox whose jobs begin, and end when they are let go; each comes through."""

    workers: int = 2
    begun: list[str] = attrs.field(factory=list)
    entered: threading.Semaphore = attrs.field(factory=lambda: threading.Semaphore(0))
    opened: threading.Event = attrs.field(factory=threading.Event)
    stopped: list[str] = attrs.field(factory=list)

    def run(self, spec: GrammarSpec, *, backend: str | None, stop: Stop, due: float) -> Result[Tried, GrammarError]:
        assert isinstance(spec, Choice)
        self.begun.append(spec.options[0])
        self.entered.release()
        ended = threading.Event()
        with stop.calling(ended.set):
            while not self.opened.wait(0.01) and not ended.is_set():
                pass
        if ended.is_set():
            self.stopped.append(spec.options[0])
            return Err(GrammarError(kind=ErrorKind.CANCELLED, message="stopped"))
        return Ok(TRIED)

    def wait_for(self, count: int) -> None:
        for _ in range(count):
            assert self.entered.acquire(timeout=LONG_S)


def run(
    sandbox: Sandbox, *options: str, stop: Stop | None = None, wall_s: float = LONG_S
) -> Result[Tried, GrammarError]:
    if wall_s < LONG_S:
        assert sandbox.wait_until_full(), "starting a worker is not to take any of that time"
    return sandbox.run(Choice(options), backend="hazards", stop=stop or Stop(), due=time.monotonic() + wall_s)


def made_fifo(folder: Path) -> Path:
    os.mkfifo(folder / "fifo")
    return folder / "fifo"


def is_gone(pid: int) -> bool:
    """Whether there is no such process, nor soon what is left of one that nobody has waited for: its parent, if that is
    another process, has been told to."""
    for _ in range(1000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False
