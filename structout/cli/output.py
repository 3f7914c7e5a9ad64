"""How every command says what went wrong, and shows that a model is loading."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from structout.errors import ErrorKind, GrammarError
from structout.vocabulary import VocabularyError

if TYPE_CHECKING:
    # Brings torch, which the commands that run no model do without.
    from engine_adapter.embedded.pretrained import ModelLoadError
    from engine_adapter.embedded.pretrained import Progress as Report


def error_json(error: GrammarError) -> dict[str, Any]:
    """The error object of the command line: always the same fields."""
    return {
        "kind": error.kind.value,
        "message": error.message,
        "pointer": error.pointer,
        "backend": error.backend,
        "hint": error.hint,
    }


def print_error(error: GrammarError, *, as_json: bool) -> int:
    """Prints the error, as JSON to standard output or as text to standard error. Returns its exit code."""
    if as_json:
        print(json.dumps({"error": error_json(error)}))
    else:
        console = Console(stderr=True)
        where = "".join(
            (
                f" [{error.backend}]" if error.backend else "",
                f" at {error.pointer or 'the root'}" if error.pointer is not None else "",
                f" at character {error.offset}" if error.offset is not None else "",
            )
        )
        console.print(f"{error.kind.value}{where}: {error.message}", markup=False, highlight=False, soft_wrap=True)
        if error.hint:
            console.print(f"  {error.hint}", markup=False, highlight=False, soft_wrap=True)
    return error.consequence.exit_code


def load_error(exc: "ModelLoadError | VocabularyError") -> GrammarError:
    """The error of a command whose model could not be loaded."""
    if isinstance(exc, VocabularyError):
        return GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=str(exc))
    return GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=exc.message, hint=exc.hint)


@contextmanager
def loading_bar() -> "Iterator[Report | None]":
    """Shows a bar on standard error while a model is loaded; nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: float) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(f"{stage} the model", total=1.0)
            bar.update(tasks[stage], completed=done)

        yield report
