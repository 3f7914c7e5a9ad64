"""``vllm serve`` with structout in it, as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

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
    """The process, where it listens (``http://host:port``), what it writes, and structout's settings."""

    process: subprocess.Popen[bytes]
    address: str
    log: Path
    settings: Mapping[str, Any]

    @property
    def model(self) -> str:
        return "smollm2"

    def metrics(self, place: int = 0) -> dict[str, float]:
        """structout's metrics, of one of the engine cores, as they are written."""
        address = f"http://127.0.0.1:{self.settings['metrics_port'] + place}/metrics"
        with urllib.request.urlopen(address, timeout=60) as reply:
            lines = reply.read().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


@contextmanager
def vllm_serve(
    folder: Path, *options: str, path: Sequence[Path] = (), settings: Mapping[str, Any] | None = None
) -> Iterator[VllmServer]:
    """The packaged model, served until the block ends.

    Args:
        folder: for its log.
        options: more of the command line.
        path: more folders to import from.
        settings: more of structout's.
    """
    log, port = folder / "vllm.log", free_port()
    command = [str(Path(python()).with_name("vllm")), "serve", str(packaged_folder()), *_OPTIONS, *options]
    given = environment()
    given["PYTHONPATH"] = os.pathsep.join([*map(str, path), given["PYTHONPATH"]])
    ours = ["--scheduler-cls", SCHEDULER, "--served-model-name", "smollm2", "--port", str(port)]
    all_settings = {**PATIENT["structout"], **(settings or {})}
    ours += ["--additional-config", json.dumps({"structout": all_settings})]
    with log.open("wb") as written:
        process = subprocess.Popen(
            [*command, *ours], stdout=written, stderr=written, env=given, cwd=folder, start_new_session=True
        )
    try:
        address = f"http://127.0.0.1:{port}"
        _wait_for(address, process, log)
        yield VllmServer(process, address, log, all_settings)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            _kill_group(process)


def install_failing_plugin(folder: Path) -> None:
    """Has ``tests.engines.failing_plugin`` found as installed by who imports from a folder."""
    installed = folder / "failing-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: failing\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[structout]\nfailing = tests.engines.failing_plugin\n")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """What is left of the processes that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def free_port() -> int:
    """One that nobody listens on."""
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
