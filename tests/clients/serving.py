"""``structout serve`` as a process of its own, for clients in others."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import attrs

ROOT: Final = Path(__file__).parents[2]

_COMMAND: Final = (sys.executable, "-c", "from structout.cli import main; main()", "serve")
_START_S: Final = 300.0
_STOP_S: Final = 60.0
"""Guards against a hang, far above what either takes."""

_SHOWN: Final = 6_000
"""How many characters of the log's end are shown with a failed test."""


@attrs.frozen
class Server:
    """A server that is ready.

    Attributes:
        url: of its HTTP API, without a path.
        grpc_address: host and port.
        log: what it writes to standard error.
    """

    url: str
    grpc_address: str
    log: Path

    @property
    def log_end(self) -> str:
        return self.log.read_text(errors="replace")[-_SHOWN:]


@contextmanager
def serving(log: Path) -> Iterator[Server]:
    """A server with the packaged SmolLM2, until the block ends; then it has to stop orderly at a SIGTERM."""
    http, grpc = _free_ports(2)
    server = Server(f"http://127.0.0.1:{http}", f"127.0.0.1:{grpc}", log)
    command = [*_COMMAND, "--port", str(http), "--grpc-port", str(grpc)]
    with log.open("wb") as written, subprocess.Popen(command, stderr=written, cwd=ROOT, env=_environment()) as process:
        try:
            _wait_until_ready(server, process)
            yield server
            process.send_signal(signal.SIGTERM)
            assert process.wait(_STOP_S) == 0, server.log_end
        finally:
            process.kill()


def _environment() -> dict[str, str]:
    """Of the checkout, whatever else is installed."""
    path = [str(ROOT), str(ROOT / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on now."""
    with ExitStack() as stack:
        bound = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in bound]


def _wait_until_ready(server: Server, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_S
    while not _is_healthy(server):
        assert process.poll() is None, server.log_end
        assert time.monotonic() < until, server.log_end
        time.sleep(0.2)


def _is_healthy(server: Server) -> bool:
    try:
        with urllib.request.urlopen(f"{server.url}/health", timeout=_STOP_S):
            return True
    except (urllib.error.URLError, OSError):
        return False
