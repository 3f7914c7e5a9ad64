"""How long to wait for a process that may hang, on a machine that others use as well."""

import time
from typing import Final

import attrs

from structout.processes.usage import cpu_seconds, is_running

MOST: Final = 6
"""Times the limit that it may take by the clock in any case."""


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
        return cpu_seconds(self.pid) or 0.0

    @property
    def left_s(self) -> float:
        """Seconds of the clock before which there is no need to ask again."""
        return self.limit_s - (time.monotonic() - self._begun)

    @property
    def is_over(self) -> bool:
        if self.left_s > 0:
            return False
        is_late = self.left_s <= self.limit_s * (1 - MOST)
        used = (cpu_seconds(self.pid) or 0.0) - self._used
        return is_late or used >= self.limit_s or not is_running(self.pid)
