"""Writes reference.md from the code: ``python docs/reference.py``. A test checks that it is up to date."""

import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from engine_adapter.serve.http.fields import UNSUPPORTED
from structout import hookspecs
from structout.cli.app import app
from structout.discovery import DISABLE_VARIABLE
from structout.errors import CONSEQUENCES
from structout.fuzz.law import Law
from structout.selection import DEFAULT_ORDER
from structout.spec import SPEC_TYPES
from structout.testing.levels import LAWS, PROTECTS

TARGET = Path(__file__).with_name("reference.md")


def render() -> str:
    """The whole page."""
    sections = (errors(), specs(), hooks(), laws(), settings(), unsupported_fields(), commands())
    return "# Reference\n\nWritten by `docs/reference.py` from the code.\n\n" + "\n".join(sections)


def errors() -> str:
    header = "| kind | whose fault | HTTP | gRPC | finish reason | exit | retry | cached | next backend tried |"
    lines = ["## Errors", "", header, "|" + "---|" * 9]
    for kind, faults in CONSEQUENCES.items():
        for fault, row in faults.items():
            flags = " | ".join("yes" if flag else "no" for flag in (row.retry, row.cacheable, row.try_next))
            codes = f"{row.http_status} | {row.grpc_code} | {row.finish_reason} | {row.exit_code}"
            lines.append(f"| `{kind.value}` | {fault.value} | {codes} | {flags} |")
    return "\n".join([*lines, ""])


def specs() -> str:
    lines = ["## Kinds of specs", "", "| kind | class | what it is |", "|---|---|---|"]
    for spec_type in SPEC_TYPES:
        first = inspect.getdoc(spec_type).splitlines()[0]  # type: ignore[union-attr]
        lines.append(f"| `{spec_type.kind}` | `structout.{spec_type.__name__}` | {first} |")
    return "\n".join([*lines, ""])


def unsupported_fields() -> str:
    header = "| field | values that change nothing |"
    text = "Where an endpoint reads a field of these, it does not refuse it."
    lines = ["## Fields that `structout serve` refuses", "", text, "", header, "|---|---|"]
    for name, values in UNSUPPORTED.items():
        shown = ", ".join(f"`{json.dumps(value)}`" for value in (None, *values))
        lines.append(f"| `{name}` | {shown} |")
    return "\n".join([*lines, ""])


def hooks() -> str:
    lines = ["## Hooks", ""]
    for name, hook in vars(hookspecs).items():
        if name.startswith("structout_"):
            signature = str(inspect.signature(hook)).replace("structout.backend.", "").replace("structout.spec.", "")
            lines += [
                f"### `{name}`",
                "",
                "```python",
                f"def {name}{signature}",
                "```",
                "",
                inspect.getdoc(hook) or "",
                "",
            ]
    return "\n".join(lines)


def laws() -> str:
    header = "| law | level of the kit | what must hold | what it protects from |"
    lines = ["## Laws of backends", "", header, "|" + "---|" * 4]
    levels = {law: level.value for level, held in LAWS.items() for law in held}
    for law in Law:
        level, harm = levels.get(law, "none: of two backends"), PROTECTS.get(law, "")
        lines.append(f"| `{law.value}` | {level} | {law.meaning} | {harm} |")
    return "\n".join([*lines, ""])


def settings() -> str:
    return textwrap.dedent(
        f"""\
        ## Settings

        | environment variable | meaning |
        |---|---|
        | `{DISABLE_VARIABLE}` | names of plugins, distributions or backends to switch off, separated by commas |

        Default order of backends: {", ".join(f"`{backend}`" for backend in DEFAULT_ORDER)}, then by id.
        """
    )


def commands() -> str:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    lines = ["## Command line", ""]
    for name, command in _commands(group):
        lines += [
            f"### `structout {name}`",
            "",
            inspect.cleandoc(command.help or ""),
            "",
            "| option | meaning |",
            "|---|---|",
        ]
        lines += [*_options(command.params), ""]
    return "\n".join(lines)


def _commands(group: TyperGroup, above: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}", command


def _options(options: Iterable[Any]) -> Iterator[str]:
    for option in options:
        default = "" if option.required or option.default in (None, False) else f" Default: {option.default}."
        help_text = getattr(option, "help", None) or ""
        needed = " Required." if option.required else ""
        yield f"| `{' '.join(option.opts)}` | {help_text}{needed}{default} |"


if __name__ == "__main__":
    TARGET.write_text(render(), encoding="utf-8")
