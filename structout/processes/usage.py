"""What a process uses, as Linux tells it."""

import os
import resource
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")


def address_space() -> int | None:
    """Bytes of address space that this process has reserved, most of which is no memory; None where the system does
    not tell."""
    return _pages(0) if _STATM.exists() else None


def resident_bytes() -> int:
    """Memory of this process that is in use, in bytes; 0 where the system does not tell."""
    return _pages(1) if _STATM.exists() else 0


def cpu_seconds(pid: int) -> float | None:
    """Seconds of processor time that a process has used, of all its threads together, also if it has ended and nobody
    has waited for it yet; None if it is gone, or where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # See proc(5): behind the name in parentheses, which may hold anything, field 3 follows. These are 14 and 15.
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _pages(field: int) -> int:
    return int(_STATM.read_text().split()[field]) * resource.getpagesize()
