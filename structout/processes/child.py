"""The child's side of `structout.processes`: a process that answers lines, harms nobody and outlives nobody."""

import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

_STDERR_BYTES: Final = 64 << 20
_PR_SET_PDEATHSIG: Final = 1


class Lines:
    """JSON objects, one a line, from the standard input and to the standard output that the process was started with.

    Both are moved out of the way: what native code prints goes to standard error, and what it reads is empty.
    """

    def __init__(self) -> None:
        self._questions = os.fdopen(os.dup(0), "rb")
        self._answers = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The questions, until the parent closes its end."""
        for line in self._questions:
            yield json.loads(line)

    def write(self, answer: Mapping[str, Any]) -> None:
        self._answers.write(json.dumps(answer).encode() + b"\n")
        self._answers.flush()


def be_expendable() -> None:
    """Makes this process the one to suffer: first to go when memory is short, no core file, no flood of messages, and
    it dies with the thread that started it. A crash shows where it was on standard error."""
    _show_crashes()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_STDERR_BYTES, _STDERR_BYTES))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _show_crashes() -> None:
    """By Python's handlers alone: libraries bring theirs, one of which looks up names for a stack for seconds."""
    faulthandler.disable()
    for crash in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL):
        signal.signal(crash, signal.SIG_DFL)
    faulthandler.enable(all_threads=False)
