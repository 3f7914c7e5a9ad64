"""A campaign finds what was planted, makes it small, and says it once."""

import attrs
import pytest

from structout import Choice
from structout.fuzz import Budget, Campaign, Case, Child, Fault, Law, Text, Violation
from structout.fuzz.campaign import LANGUAGE_LAWS, STATE_LAWS_PER_CASE, laws_for
from structout.fuzz.cases import MAKERS, any_case
from structout.fuzz.choices import Seeded
from structout.fuzz.examine import Report

BUDGET = Budget(examples=12, seconds=600.0)
CHOICES = any_case({"choice"})


def test_nothing_is_found_where_nothing_is(good: Child) -> None:
    tally = Campaign(good, BUDGET).search(CHOICES, seed=0)
    assert (tally.examined, tally.compiled, tally.faults) == (12, 12, [])
    assert tally.counts["walks ended"] > 0


def test_a_planted_fault_is_found_made_small_and_told_once(faulty: Child) -> None:
    told: list[Fault] = []
    looked: list[Case] = []
    campaign = Campaign(faulty, BUDGET, on_fault=told.append, on_case=lambda case, _report: looked.append(case))
    tally = campaign.search(CHOICES, seed=0)
    rejections = [fault for fault in tally.faults if fault.law is Law.WRONG_REJECTION]
    assert rejections
    assert told == tally.faults
    assert len(looked) == tally.examined == 12
    for fault in rejections:
        assert isinstance(fault.case.spec, Choice)
        assert len(fault.case.spec.options) == 2
        assert sum(map(len, fault.case.spec.options)) <= 3
        assert len(fault.case.members) == 1
        assert not fault.case.strangers
    assert len({(fault.direction, fault.keywords) for fault in tally.faults}) == len(tally.faults)


def test_the_same_seed_finds_the_same_and_another_looks_at_others(faulty: Child) -> None:
    def looked(seed: int) -> tuple[list[Case], list[Fault]]:
        cases: list[Case] = []
        campaign = Campaign(faulty, Budget(4, 600.0), on_case=lambda case, _report: cases.append(case))
        return cases, campaign.search(CHOICES, seed=seed).faults

    assert looked(5) == looked(5)
    assert looked(5)[0] != looked(6)[0]


def test_what_is_known_is_not_found_again(faulty: Child) -> None:
    first = Campaign(faulty, BUDGET).search(CHOICES, seed=0).faults
    again = Campaign(faulty, BUDGET)
    for fault in first:
        again.replay([fault.case], {fault.law})
    assert again.tally.faults == first
    found = again.search(CHOICES, seed=0).faults
    assert found[: len(first)] == first
    for number, fault in enumerate(found):
        assert not any(earlier.covers(fault.violation, fault.case) for earlier in found[:number])
    assert again.tally.examined == BUDGET.examples


def test_a_budget_of_no_time_looks_at_nothing(faulty: Child) -> None:
    campaign = Campaign(faulty, Budget(examples=12, seconds=-1.0))
    assert campaign.search(CHOICES, seed=0).examined == 0


def test_refusals_are_counted_by_kind(good: Child) -> None:
    reports: list[Report] = []
    campaign = Campaign(good, Budget(8, 600.0), on_case=lambda _case, report: reports.append(report))
    tally = campaign.search(any_case({"regex"}), seed=0)
    assert (tally.compiled, tally.refused) == (0, {"unsupported": 8})
    assert all(report.error and report.error["backend"] == "good_choices" for report in reports)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_seed_decides_a_case_and_the_laws_that_are_looked_at(kind: str) -> None:
    make = any_case({kind})
    assert make(Seeded(3)) == make(Seeded(3))
    case = make(Seeded(3))
    assert case.spec.kind == kind
    assert laws_for(case) == laws_for(case) > LANGUAGE_LAWS
    assert len(laws_for(case)) == len(LANGUAGE_LAWS) + STATE_LAWS_PER_CASE


def test_there_are_no_cases_of_unknown_kinds() -> None:
    with pytest.raises(ValueError, match="lark"):
        any_case({"lark"})


def test_faults_are_told_apart() -> None:
    rejection = Violation(Law.WRONG_REJECTION, "no", {"written": "plain", "refuses": "a digit", "text": "1"})
    case = Case(Choice(("a",)), members=(Text("a", "plain"),))
    fault = Fault("trie", rejection, case)
    other_text = attrs.evolve(rejection, message="else", evidence={**rejection.evidence, "text": "2"})
    assert fault.covers(other_text, attrs.evolve(case, seed=7))
    assert not fault.covers(attrs.evolve(rejection, evidence={"refuses": "a letter"}), case)
    assert not fault.covers(attrs.evolve(rejection, law=Law.LIVENESS), case)
