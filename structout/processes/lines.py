"""A child process that is asked in lines and answers in lines, and that can be killed whatever it does.

`LineProcess.ask` always returns: with a line, or with `Ended`, which says what became of the process.
"""

import contextlib
import enum
import os
import re
import select
import selectors
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

import attrs

from structout.processes.fork_server import ForkServer
from structout.processes.started import Started, spawned
from structout.processes.stop import Stop
from structout.processes.usage import cpu_seconds

LONGEST_LINE: Final = 1 << 20
"""Bytes of the longest answer."""
_TAIL_BYTES: Final = 64 << 10
_SAID: Final = 2000
"""Characters that are kept of what a process said."""
_FRAMES: Final = re.compile(r"((?:^ +File .*, line \d+,? in .*\n?){6})(?:^ +File .*\n?)+", re.MULTILINE)
"""A stack longer than six frames, the innermost of which come first."""
_LONG_LINE: Final = re.compile(r"(?<=^.{300}).+", re.MULTILINE)
_ENDING_S: Final = 1.0
"""How long after its output a process that ends by itself may take for the rest: until then its status is its own."""
_CHUNK: Final = 1 << 16


class Cause(enum.Enum):
    """EXITED: by itself, by a signal, or killed by somebody else. DEADLINE, STOPPED: killed by `LineProcess.ask`.
    GARBAGE: killed because its answer was none, or had no end within `LONGEST_LINE`."""

    EXITED = "exited"
    DEADLINE = "deadline"
    STOPPED = "stopped"
    GARBAGE = "garbage"


@attrs.frozen
class Ended:
    """Why there is no answer; the process is gone.

    Attributes:
        cause: see `Cause`.
        status: its exit status: minus the signal's number if a signal ended it.
        stderr: the end of what it wrote to standard error since it was asked, long stacks and lines shortened.
        cpu_s: seconds of processor time that it used since it was asked; None where the system does not tell.
    """

    cause: Cause
    status: int
    stderr: str = attrs.field(repr=False)
    cpu_s: float | None = None

    @property
    def signal(self) -> str | None:
        """Name of the signal that ended the process, if one did."""
        with contextlib.suppress(ValueError):
            return signal.Signals(-self.status).name
        return None

    def describe(self) -> str:
        """How it ended and what it said, for an operator's log."""
        how = self.signal or f"exit status {self.status}"
        used = f" after {self.cpu_s:.2f} s of processor time" if self.cpu_s is not None else ""
        said = f"; stderr: {self.stderr}" if self.stderr else ""
        return f"the process ended with {how}{used}{said}"


class LineProcess:
    """A module's ``main`` in a process of its own, with this process's ``sys.path`` and the lowest priority.

    Safe to use from any thread; questions are put one after the other. The child uses `structout.processes.child`, and
    dies when the thread that started it ends, unless it was forked: keep that thread.

    Args:
        module: what to run: its ``main`` if it is forked, else ``python -m module``.
        pass_fds: file descriptors that the child gets under the same numbers, beside the three that all have.
        server: forks it, if that can be done; what is wrong with the server costs time, and no more.
        stop: ends the waiting for the server.

    Raises:
        OSError: the system starts no more processes.
    """

    def __init__(
        self, module: str, *, pass_fds: Sequence[int] = (), server: ForkServer | None = None, stop: Stop | None = None
    ) -> None:
        self._asking = threading.Lock()
        self._buffer = b""
        self._cpu_s_before: float | None = None
        self._closed = False
        with contextlib.ExitStack() as undo:
            self._stderr = undo.enter_context(tempfile.TemporaryFile(buffering=0))
            if server is None or not self._is_started(lambda fds: server.fork(module, fds, stop or Stop()), pass_fds):
                # On other pipes than whoever did not answer in time may have got.
                assert self._is_started(lambda fds: spawned(module, fds), pass_fds), "or that raises"
            undo.pop_all()
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)

    def _is_started(self, start: Callable[[Mapping[int, int]], Started | None], pass_fds: Sequence[int]) -> bool:
        with contextlib.ExitStack() as undo:
            with contextlib.ExitStack() as theirs:
                stdin, self._stdin = _pipe(theirs, undo)
                self._stdout, stdout = _pipe(undo, theirs)
                fds = {0: stdin, 1: stdout, 2: self._stderr}
                numbers = {number: file.fileno() for number, file in fds.items()} | {fd: fd for fd in pass_fds}
                if (child := start(numbers)) is None:
                    return False
            self._child = child
            undo.pop_all()
        return True

    @property
    def pid(self) -> int:
        return self._child.pid

    def ask(self, question: bytes, *, deadline: float, stop: Stop) -> bytes | Ended:
        """Writes a line and returns the next one that the child writes, without its end.

        Args:
            question: the line, without its end; empty to only listen, for the second line of an answer.
            deadline: of `time.monotonic`; the process is killed when it passes.
            stop: when it is set, the process is killed at once.
        """
        with self._asking:
            if self._closed:
                return self._gone(Cause.EXITED)
            if question:
                self._forget_stderr()
                self._cpu_s_before = cpu_seconds(self.pid)
            with stop.calling(self.kill):
                answer = self._exchange(question + b"\n" if question else b"", deadline)
            if isinstance(answer, bytes) and not stop.is_set:
                return answer
            return self._post_mortem(Cause.STOPPED if stop.is_set or isinstance(answer, bytes) else answer)

    def _exchange(self, unsent: bytes, deadline: float) -> bytes | Cause:
        """The next line, or why there is none. The child may read and write in any order."""
        with selectors.PollSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if unsent:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            while b"\n" not in self._buffer:
                if len(self._buffer) > LONGEST_LINE:
                    return Cause.GARBAGE
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready and time.monotonic() >= deadline:
                    return Cause.DEADLINE
                for key, _ in ready:
                    if key.fileobj is self._stdin:
                        unsent = self._send(unsent)
                        if not unsent:
                            selector.unregister(self._stdin)
                    elif not self._receive():
                        return Cause.EXITED
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _send(self, unsent: bytes) -> bytes:
        """Writes what fits; returns the rest. A child that reads no more is found by reading from it."""
        try:
            return unsent[os.write(self._stdin.fileno(), unsent[:_CHUNK]) :]
        except BlockingIOError:
            return unsent
        except BrokenPipeError:
            return b""

    def _receive(self) -> bool:
        """Reads what is there; False at the end."""
        try:
            chunk = os.read(self._stdout.fileno(), _CHUNK)
        except BlockingIOError:
            return True
        self._buffer += chunk
        return bool(chunk)

    def is_quiet(self) -> bool:
        """Whether the child lives and has said nothing that was not asked: whether it can take a question."""
        with self._asking:
            if self._closed or self._buffer:
                return False
            poll = select.poll()
            poll.register(self._stdout, select.POLLIN)
            return not poll.poll(0)

    def wait(self) -> None:
        """Blocks until the child has gone, or has closed its output. Not together with `close`."""
        poll = select.poll()
        poll.register(self._stdout, 0)  # the end of the pipe is always reported
        poll.poll()

    def reject(self) -> Ended:
        """Kills the child because its last answer was none."""
        with self._asking:
            return self._gone(Cause.GARBAGE) if self._closed else self._post_mortem(Cause.GARBAGE)

    def kill(self) -> None:
        """Kills the child and what it has started. Returns at once."""
        self._child.kill()

    def close(self) -> None:
        """Kills the child, if it lives, and gives everything back; ends a question that is being put."""
        self.kill()
        with self._asking:
            self._reap()
            self._closed = True
            for file in (self._stdin, self._stdout, self._stderr):
                file.close()

    def _forget_stderr(self) -> None:
        # The child writes at the same offset: it is one open file.
        os.lseek(self._stderr.fileno(), 0, os.SEEK_SET)
        os.ftruncate(self._stderr.fileno(), 0)

    def _post_mortem(self, cause: Cause) -> Ended:
        if cause is Cause.EXITED:
            self._child.ends_within(_ENDING_S)
        self.kill()
        cpu_s = self._cpu_s()
        status = self._reap()
        size = os.fstat(self._stderr.fileno()).st_size
        tail = os.pread(self._stderr.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        return Ended(cause, status, _shortened(tail.decode("utf-8", "replace")), cpu_s)

    def _cpu_s(self) -> float | None:
        """What it has used since it was asked. To be called before anybody has waited for it."""
        now = cpu_seconds(self.pid)
        return None if now is None or self._cpu_s_before is None else now - self._cpu_s_before

    def _gone(self, cause: Cause) -> Ended:
        """What is left to say after `close`."""
        assert self._child.status is not None, "it was reaped"
        return Ended(cause, self._child.status, "")

    def _reap(self) -> int:
        """Its exit status. Killing what has ended by itself does not change that."""
        self.kill()
        return self._child.reap()


def _shortened(stderr: str) -> str:
    """What native code says when it gives up is followed by reports of the crash, of Python and of libraries, each with
    a stack."""
    brief = _LONG_LINE.sub("...", _FRAMES.sub(r"\1  ...\n", stderr))
    return brief.strip()[-_SAID:]


def _pipe(reads: contextlib.ExitStack, writes: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    """The end to read from and the one to write to, each closed with its stack."""
    read, write = os.pipe()
    return (
        reads.enter_context(open(read, "rb", buffering=0)),
        writes.enter_context(open(write, "wb", buffering=0)),
    )
