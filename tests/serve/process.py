"""``structout serve`` as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

COMMAND = [sys.executable, "-c", "from structout.cli import main; main()", "serve", "--port", "0"]


@attrs.frozen
class ServeProcess:
    """The process, and where it listens: ``http://host:port``."""

    process: subprocess.Popen[str]
    address: str

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)


@contextmanager
def structout_serve() -> Iterator[ServeProcess]:
    """The packaged model, served until the block ends, and ended as an operator ends it."""
    process = subprocess.Popen(COMMAND, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        served = ServeProcess(process, _address(process))
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 0


def _address(process: subprocess.Popen[str]) -> str:
    """What it says when it listens."""
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"(http://\S+)/v1", line):
            return found[1]
    raise AssertionError("the server has ended")
