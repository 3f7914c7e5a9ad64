"""The judge knows members from strangers, says which keyword is violated, and when it does not know."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structout import Choice, Ebnf, GrammarSpec, JsonObject, JsonSchema, Lark, Regex, StructuralTag
from structout.fuzz.case import Case
from structout.fuzz.json_cases import json_cases
from structout.fuzz.judge import Judge, breach_of, judge_of
from structout.fuzz.languages import choice_cases, ebnf_cases, regex_cases, tag_cases
from structout.spec import Escapes, Serialization, Whitespace

TAG = '{"type": "structural_tag", "format": {"type": "const_string", "value": "yes"}}'
SPECS: list[tuple[GrammarSpec, str, str]] = [
    (JsonSchema('{"type": "integer", "minimum": 3}'), "4", "2"),
    (JsonObject(), '{"a": 1}', "[]"),
    (Regex("[a-c]+"), "abc", "abd"),
    (Ebnf('root ::= "a" root | "b"'), "aab", "aa"),
    (Choice(("yes", "no")), "no", "n"),
    (StructuralTag(TAG), "yes", "no"),
]


def judge(spec: GrammarSpec) -> Judge:
    found = judge_of(spec)
    assert found is not None
    return found


@pytest.mark.parametrize(("spec", "member", "stranger"), SPECS, ids=lambda each: getattr(each, "kind", None))
def test_every_kind_is_judged(spec: GrammarSpec, member: str, stranger: str) -> None:
    assert judge(spec).decide(member.encode()) is True
    assert judge(spec).decide(stranger.encode()) is False


@settings(max_examples=60)
@given(json_cases() | regex_cases() | ebnf_cases() | choice_cases() | tag_cases())
def test_it_agrees_with_those_who_made_the_texts(case: Case) -> None:
    if found := judge_of(case.spec):
        assert all(found.decide(member.text.encode()) is not False for member in case.members)
        assert not any(found.decide(stranger.text.encode()) for stranger in case.strangers)


@pytest.mark.parametrize("spec", [Lark('start: "a"'), Regex("(?<=a)b"), JsonSchema("{"), JsonSchema('{"type": 1}')])
def test_what_nobody_knows_better_has_no_judge(spec: GrammarSpec) -> None:
    assert judge_of(spec) is None


def test_half_a_character_is_no_text() -> None:
    assert judge(JsonSchema("{}")).decide('"é"'.encode()[:-2]) is False


@pytest.mark.parametrize("number", ["1e10000", "-0.1E+99999", "1e-00001"])
def test_numbers_beyond_the_validator_are_left_open(number: str) -> None:
    known = judge(JsonSchema('{"type": "string"}'))
    assert known.decide(number.encode()) is None
    assert known.decide(f"[1, {number}]".encode()) is None
    assert known.decide(b"1e10") is False


@pytest.mark.parametrize(
    ("schema", "text", "keyword"),
    [
        ({"type": "string"}, "1", "type"),
        ({"properties": {"minimum": {"type": "string"}}}, '{"minimum": 1}', "type"),
        ({"properties": {"name": False}}, '{"name": 1}', "properties"),
        ({"items": {"anyOf": [{"type": "null"}, {"const": 1}]}}, "[2]", "anyOf"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"maximum": 1}}}, "2", "maximum"),
        ({}, "nothing", "syntax"),
        ({"type": "integer"}, "1", ""),
    ],
)
def test_it_names_the_innermost_keyword(schema: object, text: str, keyword: str) -> None:
    path = judge(JsonSchema(json.dumps(schema))).violated(text.encode())
    assert "".join(path[-1:]) == keyword


COMPACT = Serialization(whitespace=Whitespace.COMPACT)
SPACED = Serialization(whitespace=Whitespace.SPACED)
MINIMAL = Serialization(escapes=Escapes.MINIMAL)
json_texts = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(json_texts)
def test_the_standard_writers_keep_the_policies(value: object) -> None:
    spaced = json.dumps(value, ensure_ascii=False)
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert breach_of(spaced, SPACED) is None
    assert breach_of(compact, COMPACT) is None
    assert breach_of(spaced.replace("\x7f", ""), MINIMAL) is None
    assert breach_of(spaced, COMPACT) is None or spaced != compact
    assert breach_of(compact, SPACED) is None or spaced != compact


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("[1, 2]", COMPACT),
        (' "a b"', COMPACT),
        ("[1,2]", SPACED),
        ("[1,  2]", SPACED),
        ("[ 1]", SPACED),
        ('{"a" : 1}', SPACED),
        ('{"a": 1}\n', SPACED),
        (r'"\/"', MINIMAL),
        (r'"\u0041"', MINIMAL),
        (r'"\\\u00E9"', MINIMAL),
    ],
)
def test_a_breach_of_a_policy_is_seen(text: str, policy: Serialization) -> None:
    assert breach_of(text, policy) is not None
    assert breach_of(text, Serialization()) is None


@pytest.mark.parametrize("text", [r'"\n"', r'"\u0001"', r'"\u001F"', r'"\\u0041"', r'"\\/"', r'"\ud83d"'])
def test_escapes_that_json_demands_are_none(text: str) -> None:
    assert breach_of(text, MINIMAL) is None
