"""Processes that have their libraries loaded when they begin: forked by one that loads them once and does no more.

The other side is `structout.processes.forking`.
"""

import contextlib
import json
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Collection, Mapping
from typing import ClassVar, Final

import attrs

from structout.processes.started import Forked, Started, give_way, search_path
from structout.processes.stop import Stop

logger = logging.getLogger(__name__)

LOADING_S: Final = 600.0
"""What importing the libraries may take: seconds of work, but at low priority on a busy machine."""
ANSWER_S: Final = 60.0
"""What a fork may take: milliseconds of work, and the same."""
MESSAGE_BYTES: Final = 1 << 16
READY: Final = b"ready\n"
_STOPPED_S: Final = 1.0
"""How long after a stop an answer is still waited for: it is likely to come, and the server to be of use to others."""
_ENDING_S: Final = 1.0
_GLANCE_MS: Final = 50
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""A process with several threads cannot be forked, and what is forked here does one thing at a time."""


@attrs.define(eq=False)
class _Server:
    """The process, shared with the thread that starts it and stays until its end.

    Attributes:
        state: True once it is ready; False once it has ended or is not going to be ready; None before.
        is_hopeless: whether it has ended by itself before it was ready: another one would as well.
    """

    changed: threading.Condition = attrs.field(factory=threading.Condition)
    process: "subprocess.Popen[bytes] | None" = None
    state: bool | None = None
    is_hopeless: bool = False
    is_unwanted: bool = False

    def turn(self, state: bool) -> None:
        with self.changed:
            self.state = state if self.state is not False else False
            self.changed.notify_all()

    def end(self) -> None:
        """Kills it, and what its libraries have started; what it has forked dies with it."""
        with self.changed:
            self.is_unwanted = True
            if self.process is not None and self.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
        self.turn(False)


class ForkServer:
    """A process that imports libraries and then forks for whoever asks. Safe to use from any thread.

    It has the lowest priority, and lives as long as this object, or anybody holds a process that it has forked. What it
    forks has the environment and the folder that this process had when the server was made. Where there can be no
    server, because the system has no such thing, a library starts threads when it is imported, or it was killed,
    `fork` says so, and processes have to be started in another way.

    Args:
        distributions: names of the distributions whose modules it imports. One that cannot be imported is left out.
    """

    _shared: ClassVar[weakref.WeakValueDictionary[object, "ForkServer"]] = weakref.WeakValueDictionary()
    _hopeless: ClassVar[dict[object, "ForkServer"]] = {}
    _sharing: ClassVar = threading.Lock()

    def __init__(self, distributions: Collection[str]) -> None:
        self._made_in = os.getpid()
        self._server = _Server()
        self._asking = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # It dies with the thread that starts it, so that thread stays; and holds nothing that keeps this object.
        arguments = (self._server, theirs, sorted(distributions))
        threading.Thread(target=_serve, args=arguments, name="structout-fork-server", daemon=True).start()
        weakref.finalize(self, _end, self._server, self._socket, os.getpid())

    @classmethod
    def shared(cls, distributions: Collection[str]) -> "ForkServer":
        """The one that has these libraries, found where this process finds them now: it is made if there is none, or
        none that lives."""
        wanted = (os.getpid(), frozenset(distributions), tuple(search_path()), _folder())
        with cls._sharing:
            server = cls._hopeless.get(wanted) or cls._shared.get(wanted)
            if server is not None and server._server.is_hopeless:
                cls._hopeless[wanted] = server
            elif server is None or server._server.state is False:
                server = cls._shared[wanted] = cls(distributions)
            return server

    def fork(self, module: str, fds: Mapping[int, int], stop: Stop) -> Started | None:
        """Runs a module's ``main`` in a fork; None if that cannot be done here, or ``stop`` is set.

        Waits until the libraries are imported.

        Args:
            module: whose ``main`` to run, without arguments.
            fds: by its number there, the descriptor here that it gets.
            stop: ends the waiting.
        """
        if self._made_in != os.getpid() or not hasattr(os, "pidfd_open") or not self._is_ready(stop):
            return None
        question = json.dumps({"module": module, "fds": list(fds)}).encode()
        with self._asking:
            try:
                socket.send_fds(self._socket, [question], list(fds.values()))
                pid: int | None = json.loads(self._answer(stop))["pid"]
            except (OSError, ValueError, KeyError) as exc:
                # What it may yet fork has to die before its descriptors are given to another.
                logger.warning("the process that forks does not answer, and is ended: %r", exc)
                self._server.end()
                return None
        return None if pid is None else self._held(pid)

    def _is_ready(self, stop: Stop) -> bool:
        """Waits until it is, or is not going to be."""
        server = self._server
        with stop.calling(self._wake), server.changed:
            server.changed.wait_for(lambda: server.state is not None or stop.is_set)
            return server.state is True and not stop.is_set

    def _wake(self) -> None:
        with self._server.changed:
            self._server.changed.notify_all()

    def _answer(self, stop: Stop) -> bytes:
        """The answer to the question that was just put. Raises OSError if none comes in time."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        deadline = time.monotonic() + ANSWER_S
        while not poll.poll(_GLANCE_MS):
            deadline = min(deadline, time.monotonic() + _STOPPED_S) if stop.is_set else deadline
            if time.monotonic() >= deadline:
                raise TimeoutError("no answer")
        return self._socket.recv(MESSAGE_BYTES)

    def _held(self, pid: int) -> Started | None:
        give_way(pid)
        try:
            return Forked(pid, lambda: self._forget(pid))
        except OSError:
            os.kill(pid, signal.SIGKILL)  # out of descriptors; the server keeps the id until it is told
            self._forget(pid)
            return None

    def _forget(self, pid: int) -> None:
        """Lets the server wait for a process that it has forked: its id is free then."""
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps({"reap": pid}).encode())


def _forget_the_parents() -> None:
    """In a fork of this process: the servers are its parent's, and so may the lock be."""
    ForkServer._sharing = threading.Lock()
    ForkServer._shared = weakref.WeakValueDictionary()
    ForkServer._hopeless = {}


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_parents)


def _folder() -> str | None:
    """The current one; None if it was removed."""
    with contextlib.suppress(OSError):
        return os.getcwd()
    return None


def _serve(server: _Server, theirs: socket.socket, distributions: list[str]) -> None:
    """Starts the process, and stays until it has ended."""
    try:
        with theirs, server.changed:
            if server.is_unwanted:
                return
            server.process = _started(theirs, distributions)
        with server.process as process:
            give_way(process.pid)
            if _says_ready(process):
                server.turn(True)
                process.wait()
            elif not server.is_unwanted:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_ENDING_S)
                server.is_hopeless = process.returncode is None or process.returncode >= 0
                server.end()
    except OSError as exc:
        logger.warning("the process that forks cannot be started: %r", exc)
    finally:
        server.turn(False)


def _started(theirs: socket.socket, distributions: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "structout.processes.forking", str(theirs.fileno()), *distributions],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        process_group=0,
        env=os.environ | _ONE_THREAD | {"PYTHONPATH": os.pathsep.join(search_path())},
    )


def _says_ready(process: "subprocess.Popen[bytes]") -> bool:
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    return bool(poll.poll(1000 * LOADING_S)) and process.stdout.readline() == READY


def _end(server: _Server, ours: socket.socket, made_in: int) -> None:
    """Nobody can ask it any more."""
    ours.close()
    if os.getpid() == made_in:
        server.end()
