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


def needs(client: str) -> pytest.MarkDecorator:
    """Skips a test where the client has no environment."""
    variable = _variable(client)
    return pytest.mark.skipif(not os.environ.get(variable), reason=f"{variable} is not set: make test-clients")


def _variable(client: str) -> str:
    """What names the Python of the client's environment."""
    return f"STRUCTOUT_{client.upper()}_PYTHON"


def run(client: str, *arguments: str, cwd: Path, **environment: str) -> str:
    """What the client's Python prints to standard output. It sees nothing of this checkout but its script."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    finished = subprocess.run(
        [os.environ[_variable(client)], *arguments],
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
