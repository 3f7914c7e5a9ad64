"""vLLM's own Python, and what is run in it."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from engine_adapter.embedded.pretrained import packaged_folder

ROOT: Final = Path(__file__).parents[2]
SCRIPTS: Final = Path(__file__).parent / "scripts"
LIMIT_S: Final = 480
"""A guard against a hang: it is about a minute of work, most of it imports and the loading of the model."""

PATIENT: Final[Mapping[str, Any]] = {"structout": {"deadline_s": 120, "slowest_fill_s": 5}}
"""What is not about time is not to fail because the machine is slow or busy."""


def environment() -> dict[str, str]:
    """Of a process that has this checkout before everything else."""
    checkout = os.pathsep.join([str(ROOT), str(ROOT / "plugins"), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    return {**os.environ, **settings, "PYTHONPATH": checkout}


def python() -> str:
    """vLLM's."""
    return os.environ["STRUCTOUT_VLLM_PYTHON"]


def run(script: str, *arguments: str, cwd: Path, text: str = "") -> Any:
    """What a script of ours, with ``text`` as its input, prints as its last line, which is JSON."""
    finished = subprocess.run(
        [python(), str(SCRIPTS / script), *arguments],
        input=text,
        env=environment(),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-6000:]
    return json.loads(finished.stdout.splitlines()[-1])


def in_process(
    batches: Sequence[Sequence[Mapping[str, Any]]], *, cwd: Path, asynchronous: bool = False, **options: Any
) -> Mapping[str, Any]:
    """What ``scripts/vllm_in_process.py`` reports of batches, run in an engine with these options."""
    options = {"additional_config": PATIENT, **options}
    job = json.dumps({"options": options, "batches": batches, "asynchronous": asynchronous})
    report: Mapping[str, Any] = run("vllm_in_process.py", str(packaged_folder()), cwd=cwd, text=job)
    return report
