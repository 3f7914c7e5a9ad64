"""``vllm serve`` with structout in it, as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from engine_adapter.embedded.pretrained import packaged_folder
from engine_adapter.vllm.settings import SCHEDULER
from tests.engines.vllm import PATIENT, environment, python

START_S: Final = 300.0
"""A guard against a hang: it takes half a minute, most of it imports."""

_LOOKS_EVERY_S: Final = 0.25
_OPTIONS: Final = ("--enforce-eager", "--max-model-len", "1024", "--max-num-seqs", "64", "--dtype", "bfloat16")


@attrs.frozen
class VllmServer:
    """The process, where it listens (``http://host:port``), and what it writes."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path

    @property
    def model(self) -> str:
        return "smollm2"


@contextmanager
def vllm_serve(folder: Path, *options: str, path: Sequence[Path] = ()) -> Iterator[VllmServer]:
    """The packaged model, served until the block ends.

    Args:
        folder: for its log.
        options: more of the command line.
        path: more folders to import from.
    """
    log, port = folder / "vllm.log", _free_port()
    command = [str(Path(python()).with_name("vllm")), "serve", str(packaged_folder()), *_OPTIONS, *options]
    given = environment()
    given["PYTHONPATH"] = os.pathsep.join([*map(str, path), given["PYTHONPATH"]])
    ours = ["--scheduler-cls", SCHEDULER, "--served-model-name", "smollm2", "--port", str(port)]
    ours += ["--additional-config", json.dumps(PATIENT)]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, *ours], stdout=written, stderr=written, env=given, cwd=folder, start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(address, process, log)
        yield VllmServer(process, address, log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            _kill_group(process)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """What is left of the processes that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    since = time.monotonic()
    while time.monotonic() - since < START_S:
        assert process.poll() is None, log.read_text()[-8000:]
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(_LOOKS_EVERY_S)
    raise AssertionError(f"it does not answer: {log.read_text()[-8000:]}")
