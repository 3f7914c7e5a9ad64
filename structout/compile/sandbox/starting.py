"""What a process with backends in it is told to load, and how it says that it is ready: both sides of that."""

import json
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from structout.compile.sandbox.installed import libraries, same_backends, versions
from structout.compile.sandbox.messages import read_error
from structout.compile.sandbox.vocabulary import pack, unpack
from structout.discovery import Registry
from structout.errors import ErrorKind, Fault, GrammarError
from structout.processes import Ended, ForkServer, LineProcess, Stop
from structout.vocabulary import Vocabulary

START_S: Final = 600.0
"""What loading backends may take: seconds of work, but at low priority on a busy machine."""


class Opening:
    """What to load, for all processes that do. `close` gives its file back.

    Args:
        registry: what this process has. A backend of which another finds another version is unavailable there.
        vocabulary: what to compile for.
        plugins: plugins that are not installed but passed in process, each as ``module:attribute``.
        disable: as given to `structout.discovery.discover`.

    Attributes:
        vocabulary_fd: descriptor of the file with the vocabulary, which the process has to get.
    """

    def __init__(
        self, registry: Registry, vocabulary: Vocabulary, plugins: Iterable[str], disable: Collection[str] | None
    ) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._file.write(pack(vocabulary))
        self._file.flush()
        self.vocabulary_fd = self._file.fileno()
        self._libraries = libraries(registry)
        self._fields = {
            "vocabulary": self.vocabulary_fd,
            "fingerprint": vocabulary.fingerprint,
            "backends": versions(registry),
            "plugins": list(plugins),
            "disable": None if disable is None else list(disable),
        }

    def line(self, **more: Any) -> bytes:
        """The line that says it, and more."""
        return json.dumps(self._fields | more).encode()

    def start(self, module: str, stop: Stop, *, pass_fds: Sequence[int] = ()) -> LineProcess:
        """A process that runs a module and gets the vocabulary, and has the backends' libraries loaded where that can
        be; the waiting for it ends when ``stop`` is set. Raises OSError."""
        server = ForkServer.shared(self._libraries)
        return LineProcess(module, pass_fds=[self.vocabulary_fd, *pass_fds], server=server, stop=stop)

    def close(self) -> None:
        self._file.close()


def load(opening: Mapping[str, Any]) -> tuple[Registry, Vocabulary]:
    """In the process: what the first line describes. Raises whatever goes wrong."""
    file = opening["vocabulary"]
    vocabulary = unpack(os.pread(file, os.fstat(file).st_size, 0))
    if vocabulary.fingerprint != opening["fingerprint"]:
        raise ValueError("the vocabulary has another fingerprint")
    return same_backends(opening["backends"], opening["plugins"], opening["disable"]), vocabulary


def start_error(answer: bytes | Ended, message: str, kind: ErrorKind) -> GrammarError | None:
    """Why a process is not ready, by its answer; None if it is.

    Args:
        answer: to `Opening.line`.
        message, kind: of the error, if the process does not say itself what is wrong.
    """
    if isinstance(answer, Ended):
        return cannot_start(message, answer.describe(), kind)
    try:
        data = json.loads(answer)
        return None if data == {"ready": True} else read_error(data["error"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return cannot_start(message, "it gave no valid answer", kind)


def cannot_start(message: str, detail: str, kind: ErrorKind = ErrorKind.UNAVAILABLE) -> GrammarError:
    """The error for a process that cannot be started; that is never the caller's fault."""
    return GrammarError(kind=kind, fault=Fault.SERVICE, message=message, detail=detail)
