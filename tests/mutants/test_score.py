"""Every faulty backend falls to the kit: the mutation score."""

import pytest

from tests.mutants import MUTANTS
from tests.mutants.score import caught

pytestmark = pytest.mark.mutants


@pytest.mark.parametrize("name", MUTANTS)
def test_the_kit_catches_it(name: str) -> None:
    catch = caught(MUTANTS[name])
    assert catch.law is not None, f"{catch.mutant.description} got through"
