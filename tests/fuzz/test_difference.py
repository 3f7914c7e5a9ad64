"""Two backends are compared state by state, and a difference is a fault that can be shown again."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from structout import Choice, Policy, Regex
from structout.cli.app import app
from structout.fuzz import Budget, Campaign, Case, Child, Law, Target
from structout.fuzz.cases import any_case
from structout.fuzz.difference import mask_difference, process_difference
from tests.fuzz.hazards import hash_choices, target

TWO = Case(Choice(("a", "b")))


@pytest.fixture(scope="module")
def reference() -> Iterator[Child]:
    with Child(Target("reference")) as child:
        yield child


def test_backends_that_agree_do_not_differ(reference: Child, good: Child) -> None:
    assert mask_difference(reference, good, TWO) is None


@pytest.mark.parametrize("turned", [False, True])
def test_the_first_state_in_which_they_differ_is_told(reference: Child, faulty: Child, turned: bool) -> None:
    one, other = (faulty, reference) if turned else (reference, faulty)
    found = mask_difference(one, other, TWO)
    assert found is not None
    assert found.law is Law.MASK_DIFFERENCE
    assert found.evidence["tokens"] == []
    assert found.evidence["only reference"]
    assert found.evidence["only faulty_choices"] == []


def test_only_what_both_take_under_exact_is_compared(reference: Child, faulty: Child) -> None:
    assert mask_difference(reference, faulty, Case(Regex("a|b", policy=Policy.BEST_EFFORT))) is None


def test_two_processes_of_a_backend_are_compared(good: Child) -> None:
    with good.twin() as other:
        assert process_difference(good, other, TWO) is None
    with Child(target(hash_choices)) as child, child.twin() as other:
        found = process_difference(child, other, TWO)
    assert found is not None
    assert found.law is Law.DETERMINISM
    assert len(found.evidence["only in one process"]) == len(found.evidence["only in the other"]) == 1


def test_what_two_processes_disagree_on_is_seen_again_in_a_replay() -> None:
    with Child(target(hash_choices)) as child:
        campaign = Campaign(child, Budget())
        campaign.replay([TWO], {Law.DETERMINISM})
    assert [fault.law for fault in campaign.tally.faults] == [Law.DETERMINISM]


def test_a_campaign_finds_a_difference_and_makes_it_small(reference: Child, faulty: Child) -> None:
    campaign = Campaign(faulty, Budget(examples=6, seconds=600.0), against=reference)
    tally = campaign.search(any_case({"choice"}), seed=0)
    [fault] = [fault for fault in tally.faults if fault.law is Law.MASK_DIFFERENCE]
    assert isinstance(fault.case.spec, Choice)
    assert len(fault.case.spec.options) == 2


def test_the_command_line_names_the_other_backend_in_what_shows_it_again(tmp_path: Path) -> None:
    planted = ["--backend", "faulty_choices", "--plugin", "tests.fuzz.hazards:faulty_choices"]
    kept = ["--faults", str(tmp_path / "faults")]
    budget = ["--max-examples", "6", "--time", "600"]
    result = CliRunner().invoke(app, ["fuzz", "--generate", "--against", "reference", *planted, *budget, *kept])
    assert result.exit_code == 1, result.output
    [command] = re.findall(r"again: structout (fuzz .*mask_difference.*)", result.output)
    assert "--against reference" in command
    again = CliRunner().invoke(app, [*shlex.split(command), "--faults", str(tmp_path / "again")])
    assert again.exit_code == 1, again.output
    assert "mask_difference" in again.output
