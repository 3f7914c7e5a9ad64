"""The clients' own Pythons, and what is run in them."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

SCRIPTS: Final = Path(__file__).parent / "scripts"

LIMIT_S: Final = 500
"""A guard against a hang."""


def python_of(client: str) -> str:
    """The Python of a client's environment; the test is skipped where there is none."""
    variable = f"STRUCTOUT_{client.upper()}_PYTHON"
    python = os.environ.get(variable)
    if not python:
        pytest.skip(f"{variable} is not set: make test-clients")
    return python


def run(client: str, *arguments: str, cwd: Path, **environment: str) -> str:
    """What the client's Python prints to standard output. It sees nothing of this checkout but its script."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    finished = subprocess.run(
        [python_of(client), *arguments],
        env={**inherited, **environment},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout[-4000:] + finished.stderr[-4000:]
    return finished.stdout


@attrs.frozen
class Seen:
    """What a client's script has seen, by the names of its functions (see ``scripts/observing.py``)."""

    observations: Mapping[str, Mapping[str, Any]]

    def __getitem__(self, name: str) -> Any:
        """What a function returned; fails with its traceback if it raised."""
        observation = self.observations[name]
        if "raised" in observation:
            pytest.fail(observation["raised"], pytrace=False)
        return observation["returned"]


def seen_by(client: str, address: str, cwd: Path) -> Seen:
    """Runs the client's script against a server."""
    printed = run(client, str(SCRIPTS / f"with_{client}.py"), address, cwd=cwd)
    return Seen(json.loads(printed.splitlines()[-1]))
