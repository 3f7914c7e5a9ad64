"""``structout backends``: what is installed, and what is not and why."""

import json
from typing import Any

import attrs
from rich.console import Console
from rich.table import Table

from structout.discovery import Registry, discover
from structout.selection import DEFAULT_ORDER
from structout.spec import SPEC_KINDS


def run(*, as_json: bool) -> int:
    """Prints the backends. Returns the exit code: 0, also when there is none."""
    registry = discover()
    if as_json:
        print(json.dumps(describe(registry), indent=2))
    else:
        _print_tables(registry, Console())
    return 0


def describe(registry: Registry) -> dict[str, Any]:
    """The registry as JSON-able data."""
    backends = [
        {
            "id": each.info.id,
            "description": each.info.description,
            "spec_kinds": [kind for kind in SPEC_KINDS if kind in each.info.spec_kinds],
            "plugin": each.plugin,
            "distribution": each.distribution,
        }
        for each in registry.backends.values()
    ]
    return {
        "backends": backends,
        "problems": [attrs.asdict(problem) for problem in registry.problems],
        "default_order": list(DEFAULT_ORDER),
    }


def _print_tables(registry: Registry, console: Console) -> None:
    table = Table("backend", "takes", "from", box=None, pad_edge=False)
    for each in registry.backends.values():
        kinds = ", ".join(kind for kind in SPEC_KINDS if kind in each.info.spec_kinds)
        table.add_row(each.info.id, kinds, each.distribution or "this process")
    console.print(table)
    for problem in registry.problems:
        name = problem.backend or problem.plugin
        console.print(f"\n[bold]{name}[/bold] is {problem.kind.value}: {problem.reason}", highlight=False)
        if problem.hint:
            console.print(f"  {problem.hint}", highlight=False, markup=False)
    console.print(f"\nWithout --backend, they are tried in this order: {', '.join(DEFAULT_ORDER)}, then by id.")
