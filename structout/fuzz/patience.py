"""How long to wait for a process that may hang, on a machine that others use as well."""

import os
import time
from pathlib import Path
from typing import Final

import attrs

MOST: Final = 6
"""Times the limit that it may take by the clock in any case."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Patience:
    """A limit on what a process does from now on: in seconds of CPU time as long as it runs, of the clock where it only
    waits. So one that others keep from the CPU is not taken for one that hangs. Where the system does not tell, it is
    the clock alone.

    Attributes:
        pid: of the process.
        limit_s: see above.
    """

    pid: int
    limit_s: float
    _begun: float = attrs.field(init=False, factory=time.monotonic)
    _used: float = attrs.field(init=False)

    @_used.default
    def _used_before(self) -> float:
        return _cpu_seconds(self.pid)

    @property
    def left_s(self) -> float:
        """Seconds of the clock before which there is no need to ask again."""
        return self.limit_s - (time.monotonic() - self._begun)

    @property
    def is_over(self) -> bool:
        if self.left_s > 0:
            return False
        is_late = self.left_s <= self.limit_s * (1 - MOST)
        return is_late or not _is_running(self.pid) or _cpu_seconds(self.pid) - self._used >= self.limit_s


def _fields(stat: Path) -> list[str]:
    """The fields of a stat file behind the name, which may have spaces in it; none where there is no such file."""
    try:
        return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_seconds(pid: int) -> float:
    fields = _fields(Path(f"/proc/{pid}/stat"))
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _is_running(pid: int) -> bool:
    """Whether one of its threads runs, or waits for nothing but the CPU."""
    return any(_fields(thread / "stat")[:1] == ["R"] for thread in Path(f"/proc/{pid}/task").glob("*"))
