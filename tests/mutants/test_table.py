"""The table in the docs has every faulty backend, with the law that it falls to."""

from pathlib import Path

from structout.fuzz.law import Law
from tests.mutants import MUTANTS
from tests.mutants.score import first_columns

PAGE = Path(__file__).parents[2] / "docs" / "mutants.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.count("|") == 6][2:]


def test_every_mutant_has_its_row() -> None:
    assert [row.split("|")[1].strip() for row in ROWS] == list(MUTANTS)
    for row, mutant in zip(ROWS, MUTANTS.values(), strict=True):
        assert row.startswith(first_columns(mutant))


def test_every_mutant_is_caught_in_time() -> None:
    for row in ROWS:
        law, seconds = (part.strip() for part in row.split("|")[4:6])
        assert law.strip("`") in list(Law)
        assert int(seconds) <= 60
