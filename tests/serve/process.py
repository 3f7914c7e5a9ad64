"""``structout serve`` as a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import attrs

COMMAND: Final = (sys.executable, "-c", "from structout.cli import main; main()", "serve", "--port", "0")

_SAYS: Final = re.compile(r"is served at (http://\S+)/v1(?:, and over gRPC at (\S+))?\n")
_LOOKS_EVERY_S: Final = 0.1


@attrs.frozen
class ServeProcess:
    """The process and what it listens on.

    Attributes:
        address: ``http://host:port``.
        grpc_address: ``host:port``; empty without gRPC.
        log: what it writes to standard error. A file: nobody has to read it for the server to go on.
    """

    process: subprocess.Popen[bytes]
    address: str
    grpc_address: str
    log: Path

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def structout_serve(*options: str) -> Iterator[ServeProcess]:
    """The packaged model, served until the block ends, and ended as an operator ends it."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as written:
            process = subprocess.Popen(
                [*COMMAND, *options], stderr=written, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
        try:
            address, grpc_address = _addresses(process, log)
            yield ServeProcess(process, address, grpc_address, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        assert process.returncode == 0, log.read_text()


def _addresses(process: subprocess.Popen[bytes], log: Path) -> tuple[str, str]:
    """What it says when it listens."""
    while (found := _SAYS.search(log.read_text())) is None:
        assert process.poll() is None, f"the server has ended: {log.read_text()}"
        time.sleep(_LOOKS_EVERY_S)
    return found[1], found[2] or ""
