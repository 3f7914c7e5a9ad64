"""How benchmarks print what they found."""

import json
from collections.abc import Mapping
from typing import Any

import typer


def show(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Prints figures by name: one JSON object, or a line for each."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    for name, value in found.items():
        typer.echo(f"{name}: {value}")
