"""Processes that have their libraries loaded when they begin: forked by one that loads them once and does no more.

The other side is `structout.processes.forking`.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from structout.processes.started import Forked, Started, give_way, search_path
from structout.processes.stop import Stop

ANSWER_S: Final = 60.0
"""How long a fork may take: milliseconds of work, but at low priority on a busy machine."""
MESSAGE_BYTES: Final = 1 << 16
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A process with several threads cannot be forked, and what is forked here does one thing at a time."""


class ForkServer:
    """A process that imports libraries and then forks for whoever asks. Safe to use from any thread.

    It has the lowest priority, and lives as long as this object, or anybody holds a process that it has forked. Where
    it cannot be had, because the system has no such thing, a library starts threads when it is imported, or it was
    killed, `fork` says so, and processes have to be started in another way.

    Args:
        distributions: names of the distributions whose modules it imports. One that cannot be imported is left out.
    """

    _shared: ClassVar[weakref.WeakValueDictionary[frozenset[str], "ForkServer"]] = weakref.WeakValueDictionary()
    _sharing: ClassVar = threading.Lock()

    def __init__(self, distributions: Collection[str]) -> None:
        self._changed = threading.Condition()
        self._is_ready: bool | None = None
        self._asking = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # It dies with the thread that starts it, so that thread stays; and holds nothing that keeps this object.
        threading.Thread(
            target=_serve,
            args=(theirs, sorted(distributions), weakref.WeakMethod(self._turn)),
            name="structout-fork-server",
            daemon=True,
        ).start()
        weakref.finalize(self, _end, self._socket)

    @classmethod
    def shared(cls, distributions: Collection[str]) -> "ForkServer":
        """The one that has these libraries: it is made if there is none, or none that lives."""
        wanted = frozenset(distributions)
        with cls._sharing:
            server = cls._shared.get(wanted)
            if server is None or server._is_ready is False:
                server = cls._shared[wanted] = cls(wanted)
            return server

    def _turn(self, is_ready: bool) -> None:
        """Told by the thread: once when the process is ready, or is not going to be; and when it has ended."""
        with self._changed:
            self._is_ready = is_ready
            self._changed.notify_all()

    def fork(self, module: str, fds: Mapping[int, int], stop: Stop) -> Started | None:
        """Runs a module's ``main`` in a fork; None if that cannot be done here, or ``stop`` is set.

        Waits until the libraries are imported.

        Args:
            module: whose ``main`` to run, without arguments.
            fds: by its number there, the descriptor here that it gets.
            stop: ends the waiting.
        """
        if not hasattr(os, "pidfd_open"):
            return None
        with stop.calling(self._wake), self._changed:
            self._changed.wait_for(lambda: self._is_ready is not None or stop.is_set)
            if not self._is_ready or stop.is_set:
                return None
        question = {"module": module, "fds": list(fds), "path": search_path()}
        with self._asking, contextlib.suppress(OSError, ValueError, KeyError):
            socket.send_fds(self._socket, [json.dumps(question).encode()], list(fds.values()))
            self._socket.settimeout(ANSWER_S)
            pid: int = json.loads(self._socket.recv(MESSAGE_BYTES))["pid"]
            give_way(pid)
            return Forked(pid, lambda: self._forget(pid))
        self._turn(False)
        return None

    def _forget(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps({"reap": pid}).encode())

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _serve(theirs: socket.socket, distributions: list[str], turn: "weakref.WeakMethod[Any]") -> None:
    """Starts the process, and stays until it has ended."""
    try:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "structout.processes.forking", str(theirs.fileno()), *distributions],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                process_group=0,
                env=os.environ | _ONE_THREAD | {"PYTHONPATH": os.pathsep.join(search_path())},
            )
            give_way(process.pid)
        with process:
            assert process.stdout is not None
            if process.stdout.readline() == READY:
                _tell(turn, True)
                process.wait()
    except OSError:
        pass  # out of processes, or of descriptors: there is no server
    _tell(turn, False)


READY: Final = b"ready\n"


def _tell(turn: "weakref.WeakMethod[Any]", is_ready: bool) -> None:
    if (method := turn()) is not None:
        method(is_ready)


def _end(ours: socket.socket) -> None:
    """The process ends when nobody can ask it any more."""
    ours.close()
