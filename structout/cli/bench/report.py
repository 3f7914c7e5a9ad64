"""A benchmark's figures as a table, as JSON, or drawn."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs
from rich.console import Console
from rich.table import Table

from structout.cli.bench.timing import Figure
from structout.cli.output import print_error
from structout.errors import ErrorKind, GrammarError


@attrs.frozen
class Options:
    """What every benchmark's command takes.

    Attributes:
        quick: less often, about 40 seconds.
        as_json: print one JSON object.
        plot: file for a drawing, SVG or PNG by its name.
    """

    quick: bool = False
    as_json: bool = False
    plot: Path | None = None


class BenchError(Exception):
    """A benchmark cannot run here.

    Attributes:
        error: why, and what to do about it.
    """

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.error = GrammarError(kind=ErrorKind.UNAVAILABLE, message=message, hint=hint)


def check_plot(plot: Path | None) -> None:
    """Raises BenchError before anything is measured, if the drawing could not be made."""
    if plot is None:
        return
    if plot.suffix not in (".svg", ".png"):
        raise BenchError(f"{plot} says neither .svg nor .png", "name the file like figures.svg")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as exc:
        raise BenchError("drawing needs matplotlib, which is not installed", "pip install 'structout[plot]'") from exc


def show(
    benchmark: str,
    machine: Mapping[str, str],
    figures: Sequence[Figure],
    options: Options,
    *,
    unit: str = "microseconds of process time a row",
) -> None:
    """Prints the figures, and draws them if asked to. ``unit`` says what the two sides' times are."""
    if options.as_json:
        found = [attrs.asdict(figure) for figure in figures]
        print(json.dumps({"benchmark": benchmark, "machine": dict(machine), "unit": unit, "figures": found}, indent=2))
    else:
        _print(machine, figures, unit)
    if options.plot is not None:
        _draw(benchmark, figures, unit, options.plot)


def _print(machine: Mapping[str, str], figures: Sequence[Figure], unit: str) -> None:
    console = Console()
    for name, value in machine.items():
        console.print(f"{name}: {value}", highlight=False, markup=False)
    console.print(f"{unit}; the peer: {_peers(figures)}", highlight=False, markup=False)
    table = Table(*figures[0].case, "structout", "peer", "ratio", box=None, pad_edge=False)
    for each in figures:
        values = (f"{each.own_us:.1f}", f"{each.peer_us:.1f}", f"{each.ratio:.2f}")
        table.add_row(*map(str, each.case.values()), *values)
    console.print(table)


def _peers(figures: Iterable[Figure]) -> str:
    return ", ".join(dict.fromkeys(each.peer for each in figures))


def _draw(benchmark: str, figures: Sequence[Figure], unit: str, plot: Path) -> None:
    """How much faster than the peer each case is, as bars."""
    from matplotlib.figure import Figure as Drawing

    labels = [" ".join(map(str, each.case.values())) for each in figures]
    ratios = [each.ratio for each in figures]
    drawing = Drawing(figsize=(9, 1 + 0.28 * len(ratios)), layout="constrained")
    axes = drawing.subplots()
    bars = axes.barh(labels, ratios)
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.margins(x=0.12)  # room for the numbers
    axes.invert_yaxis()
    axes.set_title(f"structout bench {benchmark}")
    axes.set_xlabel(f"{unit}: of {_peers(figures)} by structout's")
    drawing.savefig(plot)


def failed(exc: BenchError, options: Options) -> int:
    """Prints why a benchmark cannot run. Returns the exit code."""
    return print_error(exc.error, as_json=options.as_json)
