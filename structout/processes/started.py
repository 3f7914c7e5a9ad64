"""A child process that was started, however that was: to be killed, and to be waited for."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from structout.processes.usage import exit_status

NICENESS: Final = 19
"""By how much a child's priority is lower than that of the thread that starts it: it gets what others leave."""


class Started(Protocol):
    """A process in a group of its own. Safe to use from any thread."""

    @property
    def pid(self) -> int: ...

    @property
    def status(self) -> int | None:
        """Its exit status, or minus the number of the signal that ended it; None until `reap`."""
        ...

    def ends_within(self, seconds: float) -> bool:
        """Whether it has ended, or does so in that time."""
        ...

    def kill(self) -> None:
        """Kills it and its group. Returns at once; nothing happens once it was reaped."""
        ...

    def reap(self) -> int:
        """Waits for its end; its `status`. It has no process id any more then."""
        ...


def spawned(module: str, fds: Mapping[int, int]) -> Started:
    """``python -m module`` with this process's ``sys.path``.

    Args:
        module: what to run.
        fds: by its number there, the descriptor here that it gets: 0, 1 and 2, and others under the same numbers.

    Raises:
        OSError: the system starts no more processes.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        pass_fds=[fd for fd in fds if fd > 2],
        process_group=0,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(search_path())},
    )
    give_way(process.pid)  # from here, for it has libraries to load before it could do so itself
    return Spawned(process)


def search_path() -> list[str]:
    """This process's ``sys.path``, where it is. What is no text in it, Python itself passes over."""
    try:
        return [os.path.abspath(path) for path in sys.path if isinstance(path, str)]
    except FileNotFoundError:  # the current folder was removed
        return [path for path in sys.path if isinstance(path, str) and os.path.isabs(path)]


def give_way(pid: int) -> None:
    """Lets a process have what others leave of the processors, and on Linux have it taken away as soon as they want it:
    a low priority alone would let it use up its slice of some milliseconds first. As far as this process may do so.

    It stays in this process's session: Linux may schedule each session as a group (see sched(7), autogroup), and
    niceness counts within a group alone."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


class Spawned:
    """A child of this process. See `Started`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._ending = threading.Lock()  # its pid is a pid of ours only as long as nobody has waited for it

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        return self._process.returncode

    def ends_within(self, seconds: float) -> bool:
        with self._ending:
            if self._process.returncode is not None:
                return True
            try:
                handle = os.pidfd_open(self._process.pid)  # to wait for it would be to reap it
            except (AttributeError, OSError):
                return False  # the system has no such thing, or no more of them
            try:
                return _has_ended(handle, seconds)
            finally:
                os.close(handle)

    def kill(self) -> None:
        with self._ending:
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def reap(self) -> int:
        with self._ending:
            return self._process.wait()


class Forked:
    """A child of a process that forks for this one, and keeps the child's id until it is told that it was reaped. See
    `Started`.

    Args:
        pid: its process id.
        reaped: called when nobody needs the id any more.

    Raises:
        OSError: it is gone already.
    """

    def __init__(self, pid: int, reaped: Callable[[], None]) -> None:
        self.pid = pid
        self.status: int | None = None
        self._handle = os.pidfd_open(pid)
        self._reaped = reaped
        self._ending = threading.Lock()

    def ends_within(self, seconds: float) -> bool:
        with self._ending:
            return self.status is not None or _has_ended(self._handle, seconds)

    def kill(self) -> None:
        with self._ending:
            if self.status is None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)
                    os.killpg(self.pid, signal.SIGKILL)  # what it has started

    def reap(self) -> int:
        with self._ending:
            if self.status is None:
                _has_ended(self._handle, None)
                told = exit_status(self.pid)
                self.status = -signal.SIGKILL if told is None else told  # its parent died, and it with it
                os.close(self._handle)
                self._reaped()
            return self.status


def _has_ended(handle: int, seconds: float | None) -> bool:
    """Whether a process has ended, or does so in that time; None is for ever."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(None if seconds is None else 1000 * seconds))
