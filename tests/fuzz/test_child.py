"""What a backend does to its process becomes a verdict, and the next job finds a process that lives.

The limits are far above what the jobs take; only what never ends meets one.
"""

import sys
from collections.abc import Iterator

import pytest

from structout import Choice, JsonSchema
from structout.fuzz.case import Case, Text
from structout.fuzz.child import Child, ChildError, Ended
from structout.fuzz.laboratory import examine_in
from structout.fuzz.law import Law
from structout.fuzz.target import Target, registry
from structout.spec import GrammarSpec, spec_to_json
from tests.fuzz.hazards import SAID, cannot_start, good_choices, hazards, target

LONG_S = 300.0
TARGET = target(hazards)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(TARGET, memory_bytes=1 << 30) as child:
        yield child


def accepted(child: Child, spec: GrammarSpec, *texts: str, limit_s: float = LONG_S) -> list[bool]:
    found: list[bool] = child.run({"do": "accepts", "spec": spec_to_json(spec), "texts": texts}, limit_s=limit_s)[
        "accepted"
    ]
    return found


def test_it_answers(child: Child) -> None:
    assert accepted(child, Choice(("yes", "no")), "yes", "ye", "no", "é") == [True, False, True, False]
    assert accepted(child, JsonSchema('{"type": "integer"}'), "12", "x") == [True, False]


@pytest.mark.parametrize(
    ("deed", "law", "how"),
    [
        ("abort", Law.CRASH, "the process ended with SIGABRT"),
        ("segfault", Law.CRASH, "the process ended with SIGSEGV"),
        ("exit", Law.CRASH, "the process ended with exit status 0"),
        ("hang", Law.HANG, "it did not answer within 2 s"),
    ],
)
def test_what_ends_the_process_is_a_verdict(child: Child, deed: str, law: Law, how: str) -> None:
    with pytest.raises(Ended) as caught:
        accepted(child, Choice((deed,)), limit_s=2.0 if deed == "hang" else LONG_S)
    assert caught.value.violation.law is law
    assert caught.value.violation.message == how
    if deed == "abort":
        assert SAID in caught.value.violation.evidence["stderr"]
    assert accepted(child, Choice(("no",)), "no") == [True]


def test_what_is_over_the_memory_limit_is_a_verdict_and_harms_nobody(child: Child) -> None:
    report = examine_in(child, Case(Choice(("allocate",))), set(Law), limit_s=LONG_S)
    assert [violation.law for violation in report.violations] == [Law.MEMORY]
    assert accepted(child, Choice(("no",)), "no") == [True]


def test_what_is_printed_does_not_get_between_the_answers(child: Child) -> None:
    assert accepted(child, Choice(("print", "no")), "no", "yes") == [True, False]


def test_what_raises_an_exit_is_no_end(child: Child) -> None:
    report = examine_in(child, Case(Choice(("raise",))), {Law.LIVENESS}, limit_s=LONG_S)
    [violation] = report.violations
    assert violation.law is Law.RESULT_DISCIPLINE
    assert "SystemExit: not me" in violation.message


def test_a_case_that_ends_the_process_is_reported_like_any_other(child: Child) -> None:
    case = Case(Choice(("abort",)), members=(Text("abort", "plain"),))
    [violation] = examine_in(child, case, {Law.LIVENESS}, limit_s=LONG_S).violations
    assert violation.law is Law.CRASH


def test_a_hang_is_asked_for_twice(child: Child) -> None:
    [violation] = examine_in(child, Case(Choice(("hang",))), {Law.LIVENESS}, limit_s=1.0).violations
    assert violation.law is Law.HANG


@pytest.mark.parametrize(
    ("missing", "why"),
    [
        (Target("nobody"), "there is no backend 'nobody'"),
        (target(cannot_start), "libgrammar.so is missing"),
        (Target("hazards", ("tests.fuzz.nowhere:hazards",)), "tests.fuzz.nowhere"),
        (Target("hazards", ("tests.fuzz.hazards",)), "MODULE:ATTRIBUTE"),
        (Target("hazards", pickled=b"nonsense"), "could not be loaded"),
    ],
    ids=["unknown", "raises", "no module", "no attribute", "no pickle"],
)
def test_a_backend_that_cannot_be_loaded_says_why(missing: Target, why: str) -> None:
    with Child(missing) as child, pytest.raises(ChildError, match=why):
        child.run({"do": "accepts"}, limit_s=LONG_S)


def test_a_description_at_hand_crosses_to_the_child() -> None:
    with Child(Target.of_info(good_choices.info), vocabulary="bytes") as child:
        assert accepted(child, Choice(("no",)), "no") == [True]


def test_a_target_survives_the_way_through_json() -> None:
    path = list(sys.path)
    for each in (TARGET, Target.of_info(good_choices.info)):
        assert Target.from_json(each.to_json()) == each
    assert sys.path == path


def test_a_plugin_may_be_a_class_an_object_or_a_module() -> None:
    for name in ("tests.fakes:TriePlugin", "tests.fuzz.hazards:hazards"):
        assert set(registry([name]).backends) > set(registry().backends)
