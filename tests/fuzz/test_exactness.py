"""What a backend does on labelled texts: verdicts, their shares, and which of them break a law."""

from collections.abc import Iterator

import attrs
import pytest

from structout import Choice, ErrorKind, JsonSchema, Regex
from structout.backend import Finding
from structout.fuzz.case import Text
from structout.fuzz.child import Child
from structout.fuzz.corpus import Example
from structout.fuzz.exactness import Exactness, Shares, faults_of, measure, shares_by_part
from structout.fuzz.law import Law
from structout.fuzz.target import Target
from tests.fuzz.hazards import hazards, loses_the_last, target

ARRAY = JsonSchema('{"type": "array", "items": {"type": "integer"}}')
NOTHING = JsonSchema('{"type": "integer", "minimum": 3, "maximum": 2}')


@pytest.fixture(scope="module")
def good() -> Iterator[Child]:
    with Child(Target("reference"), vocabulary="bytes") as child:
        yield child


@pytest.fixture(scope="module")
def faulty() -> Iterator[Child]:
    with Child(target(loses_the_last), vocabulary="bytes") as child:
        yield child


def example(spec: JsonSchema | Choice | Regex, members: tuple[str, ...], strangers: tuple[str, ...]) -> Example:
    return Example("x", spec, tuple((each,) for each in members), tuple((each,) for each in strangers))


def verdict(child: Child, example: Example) -> Exactness:
    [found] = measure(child, [example])
    return found


def test_a_good_backend_is_exact(good: Child) -> None:
    examples = [
        example(ARRAY, ("[1, 2]", "[]"), ('["a"]', "1")),
        Example("forms", ARRAY, (("[1, 2]", "[1,2]"),), (('["a"]', '[ "a" ]'),)),
        example(Choice(("a",)), ("a",), ("b", "")),
    ]
    assert [(each.name, each.exact) for each in measure(good, examples)] == [("x", True), ("forms", True), ("x", True)]


def test_what_has_no_instance_is_rightly_refused(good: Child) -> None:
    found = verdict(good, example(NOTHING, (), ("3",)))
    assert found.refused is ErrorKind.UNSATISFIABLE
    assert found.exact
    assert not verdict(good, example(NOTHING, ("3",), ())).exact


def test_a_refusal_is_not_exact(good: Child) -> None:
    found = verdict(good, example(Regex("(?<=a)b"), ("b",), ()))
    assert found.refused is ErrorKind.UNSUPPORTED
    assert found.message
    assert not found.exact


def test_what_a_faulty_backend_does_is_seen(faulty: Child) -> None:
    case = Example("x", ARRAY, (("[1]",),), (('["a"]', '[ "a" ]'), ("1",)))
    found = verdict(faulty, case)
    assert (found.exact, found.over_accepted, found.rejected) == (False, ('["a"]',), ())
    found = verdict(faulty, example(Choice(("a", "b")), ("a", "b"), ()))
    assert (found.exact, found.over_accepted, found.rejected) == (False, (), ("b",))


def test_only_the_first_form_has_to_be_accepted(good: Child) -> None:
    found = verdict(good, Example("x", Choice(("a",)), (("a", "A"),), ()))
    assert (found.exact, found.rejected, found.rejected_forms) == (True, (), ("A",))


def test_the_process_may_die() -> None:
    with Child(target(hazards), vocabulary="bytes") as child:
        crashed, after = measure(
            child, [example(Choice(("abort",)), ("abort",), ()), example(Choice(("a",)), ("a",), ())]
        )
    assert crashed.died is Law.CRASH
    assert not crashed.exact
    assert after.exact


def test_shares_are_of_all_examples_of_a_part() -> None:
    verdicts = [
        Exactness("a", exact=True, rejected_forms=("x",)),
        Exactness("b", over_accepted=("x",), rejected=("y",)),
        Exactness("c", refused=ErrorKind.UNSUPPORTED),
        Exactness("d", died=Law.HANG),
    ]
    names = ("exact", "refused", "over_accepts", "rejects_valid", "rejects_forms", "died")
    first = Example("x", ARRAY, (), (), part="optional")
    pairs = [(first, Exactness("x", exact=True)), *((attrs.evolve(first, part="required"), each) for each in verdicts)]
    assert shares_by_part(pairs) == {
        "required": Shares(4, dict.fromkeys(names, 0.25)),
        "optional": Shares(1, dict.fromkeys(names, 0.0) | {"exact": 1.0}),
    }
    assert list(shares_by_part(pairs)) == ["required", "optional"]
    assert shares_by_part([]) == {}


LISTED = (Finding("", "items", "is ignored"),)


@pytest.mark.parametrize(
    ("verdict", "laws"),
    [
        (Exactness("x", exact=True), []),
        (Exactness("x", refused=ErrorKind.UNSUPPORTED), []),
        (Exactness("x", died=Law.HANG, message="m"), [Law.HANG]),
        (Exactness("x", over_accepted=("1",)), [Law.OVER_ACCEPTANCE]),
        (Exactness("x", over_accepted=("1",), unenforced=LISTED), []),
        (Exactness("x", rejected=("1",)), [Law.WRONG_REJECTION]),
        (Exactness("x", rejected=("1",), narrowed=LISTED), []),
        (Exactness("x", over_accepted=("1",), rejected=("2",)), [Law.OVER_ACCEPTANCE, Law.WRONG_REJECTION]),
    ],
)
def test_what_is_not_listed_is_a_fault(verdict: Exactness, laws: list[Law]) -> None:
    faults = list(faults_of("trie", [(example(ARRAY, (), ()), verdict)]))
    assert [fault.law for fault in faults] == laws
    for fault in faults:
        assert fault.case.spec == ARRAY
        assert fault.backend == "trie"
        if fault.law is Law.OVER_ACCEPTANCE:
            assert fault.case.strangers == (Text("1", "syntax"),)
