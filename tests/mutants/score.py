"""The mutation score: ``python -m tests.mutants.score [NAME ...]`` prints which law each faulty backend falls to.

Of all of them it is the table of docs/mutants.md.
"""

import sys
import time
from collections.abc import Iterator

import attrs

from structout.testing import Check, ConformanceError, conformance_checks
from tests.mutants import MUTANTS
from tests.mutants.wrapping import Mutant


@attrs.frozen
class Catch:
    """What became of one mutant.

    Attributes:
        mutant: which.
        law: the first law that it was seen to break; None if it got through.
        seconds: of wall time, until then.
        message: of the failure.
    """

    mutant: Mutant
    law: str | None
    seconds: float
    message: str = ""


def caught(mutant: Mutant) -> Catch:
    """Runs the kit on a mutant up to the first check that it does not pass."""
    begun = time.monotonic()
    checks = [check for check in conformance_checks(mutant.info, stop_at_first=True) if isinstance(check, Check)]
    try:
        for check in checks:
            try:
                check.run()
            except ConformanceError as failure:
                return Catch(mutant, check.law.value, time.monotonic() - begun, str(failure))
        return Catch(mutant, None, time.monotonic() - begun)
    finally:
        checks[0].bench.close()


def score(names: list[str]) -> Iterator[Catch]:
    return (caught(MUTANTS[name]) for name in names or MUTANTS)


def row(catch: Catch) -> str:
    """A line of the table."""
    law = f"`{catch.law}`" if catch.law else "NOT CAUGHT"
    return f"{first_columns(catch.mutant)} {law} | {catch.seconds:.0f} |"


def first_columns(mutant: Mutant) -> str:
    """What stands in the table whatever comes of the mutant."""
    return f"| {mutant.name} | {mutant.base} | {mutant.description} |"


if __name__ == "__main__":
    for each in score(sys.argv[1:]):
        print(row(each), flush=True)
