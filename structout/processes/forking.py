"""The process that forks: ``python -m structout.processes.forking SOCKET DISTRIBUTION...``. See
`structout.processes.fork_server`.

It imports what the distributions bring, says that it is ready, and then forks whenever it is asked, until nobody can
ask any more. It has one thread, or it would not be safe to fork.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import importlib.metadata
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, Final, Never

from structout.processes.child import be_expendable
from structout.processes.fork_server import MESSAGE_BYTES, READY
from structout.processes.usage import running_threads

_MOST_FDS: Final = 64


def main() -> None:
    be_expendable()
    ready = os.dup(1)
    os.dup2(2, 1)  # what libraries print when they are imported
    asked = socket.socket(fileno=int(sys.argv[1]))
    for module in modules_of(sys.argv[2:]):
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    if running_threads() != 1:
        os._exit(0)  # also where a thread would not end, or threads cannot be counted
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whatever libraries have set: nobody else waits for what is forked
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    gc.collect()
    gc.freeze()  # what is shared with forks is not written to
    os.write(ready, READY)
    os.close(ready)
    while question := _next(asked):
        if (pid := question.get("reap")) is not None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        else:
            _fork(asked, question)


def modules_of(distributions: Iterable[str]) -> Iterator[str]:
    """The top-level modules that these distributions bring."""
    wanted = {_normal(name) for name in distributions}
    for module, names in importlib.metadata.packages_distributions().items():
        if wanted.intersection(map(_normal, names)) and module.isidentifier():
            yield module


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _next(asked: socket.socket) -> dict[str, Any] | None:
    """The next question, with the descriptors that came with it; None at the end."""
    message, received, _, _ = socket.recv_fds(asked, MESSAGE_BYTES, _MOST_FDS)
    return json.loads(message) | {"received": received} if message else None


def _fork(asked: socket.socket, question: dict[str, Any]) -> None:
    parent = os.getpid()
    with contextlib.suppress(Exception):
        importlib.import_module(question["module"])  # once for all; what is wrong with it, the fork says
    pid: int | None = None
    with contextlib.suppress(OSError):  # out of processes, or of memory
        pid = os.fork()
    if pid == 0:
        asked.close()
        _become(question, parent)
    for fd in question["received"]:
        os.close(fd)
    asked.send(json.dumps({"pid": pid}).encode())


def _become(question: dict[str, Any], parent: int) -> Never:
    """In the fork: runs the module's ``main``, in a process that ends with its parent."""
    status = 1
    try:
        os.setpgid(0, 0)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # see `be_expendable`
        if os.getppid() == parent:
            _take(question["received"], question["fds"])
            sys.argv = [question["module"]]
            importlib.import_module(question["module"]).main()
            status = 0
    except SystemExit as exit:
        status = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
        if status and status is not exit.code:
            print(exit.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(status)


def _take(received: list[int], numbers: list[int]) -> None:
    """Gives the descriptors that came their numbers, by way of higher ones, so that none is in the way of another."""
    apart = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(numbers) + 1) for fd in received]
    for fd in received:
        os.close(fd)
    for fd, number in zip(apart, numbers, strict=True):
        os.dup2(fd, number)
    for fd in apart:
        os.close(fd)


if __name__ == "__main__":
    main()
