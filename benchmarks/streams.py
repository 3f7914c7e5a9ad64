"""Do many streams come whole, and what does their beginning cost? ``python -m benchmarks.streams``

``--soak S`` keeps 256 streams under way over real HTTP against a scripted model in a process of its own, for that many
seconds. A fifth ask for a grammar that fails, and a tenth leave at a random moment. Each of the others has a text of
its own to come to. The figures:

- ``streams``, ``failing``, ``left``: how many there were of each kind.
- ``lost``: that ended without their end, or with another status, a cause that is not theirs, or less than their text.
- ``duplicated``: of which something came twice, or that had more than their text.
- ``hung``: that had not ended after 60 s.
- ``unfinished``: requests that the server's engine still has in the end.
- ``resident_mb``, ``early_resident_mb``: of the server's process in the end, and after the first fifth of the time.

``--first-chunk`` compares streams that are held back until their first real event, which is what the server does, with
the same streams begun at once: pairs of each, one after the other, by processor time of the whole process. The figures:

- ``pairs``, ``chunks``: how many, and how many chunks a stream has.
- ``ratio``, ``ratio_low``, ``ratio_high``: of their times, and its 95 % confidence interval (bootstrap over the pairs).
- ``us_per_chunk``: the difference in microseconds for each chunk.
"""

from typing import Annotated, Final

import typer

from benchmarks.output import show
from benchmarks.soak import soak

SOAK_S: Final = 180.0


def main(
    soak_s: Annotated[
        float | None, typer.Option("--soak", help="For so many seconds; 180 is what reliability.md tells of.")
    ] = None,
    first_chunk: Annotated[bool, typer.Option("--first-chunk", help="Compare the beginnings of streams.")] = False,
    streams: Annotated[int, typer.Option(help="How many streams are under way.")] = 256,
    pairs: Annotated[int, typer.Option(help="How many pairs of streams are compared.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Prints what became of many streams, and what their beginnings cost; a soak of 180 s if nothing is asked for."""
    figures: dict[str, float] = {}
    if first_chunk:
        from benchmarks.first_chunk import compare  # brings torch, which who soaks another process need not wait for

        figures |= compare(pairs)
    if soak_s is not None or not first_chunk:
        figures |= soak(SOAK_S if soak_s is None else soak_s, streams)
    show(figures, as_json=as_json)


if __name__ == "__main__":
    typer.run(main)
