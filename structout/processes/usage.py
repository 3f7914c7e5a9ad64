"""What a process uses, as Linux tells it."""

import ctypes
import os
import resource
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")

_M_ARENA_MAX: Final = -8
"""Of glibc's mallopt."""


def address_space() -> int | None:
    """Bytes of address space that this process has reserved, most of which is no memory; None where the system does
    not tell."""
    return _pages(0) if _STATM.exists() else None


def resident_bytes() -> int:
    """Memory of this process that is in use, in bytes; 0 where the system does not tell."""
    return _pages(1) if _STATM.exists() else 0


def release_freed_memory() -> None:
    """Gives what this process has freed back to the system, where C's library can do that: glibc keeps much of it."""
    if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(0)


def share_freed_memory() -> None:
    """Has threads that are started from now on allocate where all others do, where C's library can be told: what one
    has freed is then there for the next, instead of new memory for each. To be called before there are any."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_ARENA_MAX, 1)


def open_descriptors() -> int:
    """How many files, sockets and the like this process has open; 0 where the system does not tell."""
    return _entries(Path("/proc/self/fd"))


def running_threads() -> int:
    """How many threads this process has, those of native libraries too; 0 where the system does not tell."""
    return _entries(Path("/proc/self/task"))


def _entries(folder: Path) -> int:
    return len(os.listdir(folder)) if folder.exists() else 0


def cpu_seconds(pid: int) -> float | None:
    """Seconds of processor time that a process has used, of all its threads together, also if it has ended and nobody
    has waited for it yet; None if it is gone, or where the system does not tell."""
    fields = _fields(Path(f"/proc/{pid}/stat"))
    # These are 14 and 15 of proc(5).
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def exit_status(pid: int) -> int | None:
    """How a process ended that nobody has waited for: its exit status, or minus the number of the signal that ended it;
    None if it runs or is gone, or where the system does not tell."""
    fields = _fields(Path(f"/proc/{pid}/stat"))
    # This is 52 of proc(5).
    return os.waitstatus_to_exitcode(int(fields[49])) if fields[:1] == ["Z"] else None


def is_running(pid: int) -> bool:
    """Whether one of a process's threads runs, or waits for nothing but the processor; False where the system does not
    tell."""
    return any(_fields(thread / "stat")[:1] == ["R"] for thread in Path(f"/proc/{pid}/task").glob("*"))


def _fields(stat: Path) -> list[str]:
    """The fields of a stat file from the third on; none where there is no such file. Before them is a name in
    parentheses, which may hold anything."""
    try:
        return stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _pages(field: int) -> int:
    return int(_STATM.read_text().split()[field]) * resource.getpagesize()
