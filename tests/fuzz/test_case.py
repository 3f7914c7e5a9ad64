"""A case crosses processes as JSON, whatever kind of spec it is about."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from structout import Choice, Ebnf, GrammarSpec, JsonObject, JsonSchema, Lark, Policy, Regex, StructuralTag
from structout.fuzz import Case, Text, Violation
from structout.fuzz.examine import Report
from structout.fuzz.law import Law
from structout.spec import SPEC_KINDS, Dialect, Escapes, FormatMode, KeyOrder, Serialization, Whitespace

text = st.text(max_size=8)
serializations = st.builds(
    Serialization, st.sampled_from(Whitespace), st.sampled_from(KeyOrder), st.sampled_from(Escapes)
)
SPECS: dict[str, SearchStrategy[GrammarSpec]] = {
    "json_schema": st.builds(
        JsonSchema,
        text,
        dialect=st.sampled_from(Dialect),
        format_mode=st.sampled_from(FormatMode),
        serialization=serializations,
        registry=st.dictionaries(text, text, max_size=2),
    ),
    "json_object": st.builds(JsonObject, serialization=serializations, policy=st.sampled_from(Policy)),
    "regex": st.builds(Regex, text),
    "ebnf": st.builds(Ebnf, text, root=text),
    "lark": st.builds(Lark, text),
    "choice": st.builds(Choice, st.lists(text, max_size=3)),
    "structural_tag": st.builds(StructuralTag, text),
}
texts = st.lists(st.builds(Text, text, text), max_size=3).map(tuple)
cases = st.one_of(*SPECS.values()).flatmap(
    lambda spec: st.builds(Case, st.just(spec), texts, texts, st.integers(0, 2**32), text)
)
json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | text, lambda inner: st.lists(inner, max_size=2), max_leaves=3
)
violations = st.builds(Violation, st.sampled_from(Law), text, st.dictionaries(text, json_values, max_size=2))


def test_every_kind_is_tried() -> None:
    assert SPECS.keys() == set(SPEC_KINDS)


@given(cases)
def test_a_case_survives_the_way_through_json(case: Case) -> None:
    assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case


@given(violations)
def test_so_does_a_violation(violation: Violation) -> None:
    assert Violation.from_json(json.loads(json.dumps(violation.to_json()))) == violation


@given(st.builds(Report, unenforced=st.lists(text).map(tuple), violations=st.lists(violations, max_size=2).map(tuple)))
def test_so_does_a_report(report: Report) -> None:
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report


@pytest.mark.parametrize("change", [{"spec": {"kind": "none"}}, {"members": [["one", "two", "three"]]}, {"more": 1}])
def test_what_is_no_case_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Case.from_json(Case(Regex("a")).to_json() | change)


def test_every_law_says_what_must_hold() -> None:
    assert len({law.meaning for law in Law}) == len(Law)
