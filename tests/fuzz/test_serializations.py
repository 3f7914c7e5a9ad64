"""Serializations: the same value, as the policy allows it."""

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.fuzz.choices import Seeded
from structout.fuzz.instances import find_instances
from structout.fuzz.json_text import COMPACT, Style, write
from structout.fuzz.ordering import declared
from structout.fuzz.serializations import NUMBER_FORM, serializations
from structout.fuzz.subject import Subject
from structout.schema.loading import parse_json
from structout.spec import Escapes, KeyOrder, Serialization, Whitespace
from tests.fuzz.strategies import ordered_json, seeds, subject, subjects

policies = st.builds(
    Serialization, st.sampled_from(Whitespace), key_order=st.sampled_from(KeyOrder), escapes=st.sampled_from(Escapes)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


@given(subjects(policies), seeds)
def test_all_texts_are_valid_and_of_the_same_value(subject: Subject, seed: int) -> None:
    for value in find_instances(Seeded(seed), subject, 2):
        texts = serializations(Seeded(seed), subject, value)
        assert texts[0].note == "plain"
        assert len({each.text for each in texts}) == len(texts)
        assert all(subject.validator.is_valid(each.text) for each in texts)
        assert all(parse_json(each.text, exact=True) == parse_json(texts[0].text, exact=True) for each in texts)


@given(subjects(policies), seeds)
def test_all_texts_are_as_the_policy_says(subject: Subject, seed: int) -> None:
    policy = subject.spec.serialization
    for value in find_instances(Seeded(seed), subject, 2):
        plain, *others = serializations(Seeded(seed), subject, value)
        for each in [plain, *others]:
            bare = _STRING.sub('""', each.text)
            assert each.text == each.text.strip()
            assert policy.whitespace is not Whitespace.COMPACT or not re.search(r"\s", bare)
            assert policy.whitespace is not Whitespace.SPACED or re.fullmatch(r"([^\s,:]|[,:] (?!\s))*", bare)
            assert policy.escapes is Escapes.ANY or each.note == NUMBER_FORM or write_again(each.text) in each.text
            in_order = ordered_json(each.text) == ordered_json(plain.text)
            assert in_order or (policy.key_order is KeyOrder.ANY and each.note == "reordered")


def write_again(text: str) -> str:
    """The longest string in a text, with no more escapes than JSON demands."""
    return max(
        (json.dumps(json.loads(each), ensure_ascii=False) for each in _STRING.findall(text)), key=len, default=""
    )


def test_every_way_to_write_is_found() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    notes: dict[str, set[str]] = {}
    for seed in range(20):
        for each in serializations(Seeded(seed), subject(schema, serialization=_ANY), {"b": 1, "a": "é/\n"}):
            notes.setdefault(each.note, set()).add(each.text)
    assert notes["plain"] == {'{"a": "é/\\n", "b": 1}'}
    assert notes["compact"] == {'{"a":"é/\\n","b":1}'}
    assert notes["reordered"] == {'{"b": 1, "a": "é/\\n"}'}
    assert any("\\u00e9" in text.lower() for text in notes["escapes"])
    assert any("\\/" in text for text in notes["escapes"])
    assert any('{"a": "é/\\n", "b": 1.0}' in text for text in notes[NUMBER_FORM])
    assert any("\t" in text for text in notes["white space"])


_ANY = Serialization(key_order=KeyOrder.ANY)


def test_a_number_form_that_a_schema_forbids_is_left_out() -> None:
    """What counts is the reference validator: a pattern says nothing of numbers, so all of them stay."""
    texts = serializations(Seeded(0), subject({"const": 1}), 1)
    assert {each.note for each in texts} == {"plain", NUMBER_FORM}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"properties": {"b": {}, "a": {}}}, {"z": 0, "a": 1, "b": 2}, '{"b":2,"a":1,"z":0}'),
        ({"required": ["b"], "properties": {"c": {}}}, {"a": 1, "b": 2, "c": 3}, '{"c":3,"b":2,"a":1}'),
        ({"items": {"properties": {"b": {}, "a": {}}}}, [{"a": 1, "b": 2}], '[{"b":2,"a":1}]'),
        (
            {"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"b": {"$ref": "#/$defs/x"}, "a": {}}}}},
            {"a": 1, "b": {"a": 1, "b": 2}},
            '{"b":{"b":2,"a":1},"a":1}',
        ),
        ({"allOf": [{"properties": {"c": {}}}], "properties": {"b": {}}}, {"c": 1, "b": 2}, '{"b":2,"c":1}'),
        ({"patternProperties": {"x": {"properties": {"b": {}}}}}, {"x": {"a": 1, "b": 2}}, '{"x":{"b":2,"a":1}}'),
        ({"additionalProperties": {"properties": {"b": {}}}}, {"x": {"a": 1, "b": 2}}, '{"x":{"b":2,"a":1}}'),
        ({"prefixItems": [{"properties": {"b": {}}}]}, [{"a": 1, "b": 2}], '[{"b":2,"a":1}]'),
    ],
)
def test_members_come_in_declared_order(schema: Any, value: Any, text: str) -> None:
    assert write(declared(subject(schema).structure, value), COMPACT) == text


@given(values, seeds)
def test_what_is_written_reads_back(value: Any, seed: int) -> None:
    choices = Seeded(seed)
    for style in (Style(), COMPACT, Style(white_space=choices, escapes=choices), Style(numbers=choices)):
        assert json.loads(write(value, style), parse_float=Decimal) == json.loads(write(value), parse_float=Decimal)
        assert json.loads(write(value)) == value
