"""What the tests of the sandbox share: sandboxes of hazards, and ways to see what became of their workers.

Limits are far above what the jobs take; only what never ends meets one.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from structout import Choice, GrammarError, Result
from structout.compile.sandbox import Limits, Sandbox, Tried
from structout.discovery import discover
from structout.processes import Stop
from tests.compile.hazards import HazardsPlugin

LONG_S: Final = 300.0
LIMITS: Final = Limits(wall_s=LONG_S, cpu_s=2.0, memory_bytes=1 << 28)
HAZARDS: Final = discover(plugins={"hazards": HazardsPlugin()})
Make = Callable[..., Sandbox]


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
    """Whether there is no such process, nor what is left of one that nobody has waited for."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
