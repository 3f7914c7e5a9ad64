"""Instances: valid, found for every keyword, and given up cheaply."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structout.fuzz.choices import Choices, Seeded
from structout.fuzz.instances import find_instances, instances
from structout.fuzz.json_text import write
from structout.fuzz.keywords.table import generated
from structout.fuzz.patterns import sample
from structout.fuzz.schemas import keyword_schema
from structout.fuzz.subject import Subject
from structout.schema import reference_validator
from structout.spec import Dialect, JsonSchema
from tests.fuzz.strategies import seeds, subject, subjects


@settings(max_examples=40)
@given(subjects(), seeds)
def test_instances_are_valid_and_different(subject: Subject, seed: int) -> None:
    texts = [write(value) for value in find_instances(Seeded(seed), subject, 3)]
    assert all(reference_validator(subject.spec).unwrap().is_valid(text) for text in texts)
    assert len(set(texts)) == len(texts) <= 3


@settings(max_examples=40)
@given(st.data())
def test_instances_can_be_drawn(data: st.DataObject) -> None:
    spec = JsonSchema('{"type": "array", "items": {"minimum": 3, "type": "integer"}, "minItems": 1}')
    drawn = data.draw(instances(spec))
    assert drawn
    assert all(min(value) >= 3 for value in drawn)


@pytest.mark.parametrize("dialect", [Dialect.DRAFT_2020_12, Dialect.DRAFT_7])
def test_instances_are_found_for_every_keyword(dialect: Dialect) -> None:
    for keyword in generated(dialect):
        tries = (Seeded(seed) for seed in range(8))
        assert any(
            find_instances(choices, subject(keyword_schema(choices, keyword, dialect=dialect), dialect=dialect), 1)
            for choices in tries
        ), keyword


_TREE = {
    "type": "object",
    "properties": {"left": {"$ref": "#"}, "right": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
    "required": ["right"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "exclusiveMinimum": 2, "exclusiveMaximum": 4},
        {"type": "number", "exclusiveMinimum": 0.1, "maximum": 0.2, "multipleOf": 0.05},
        {"type": "number", "exclusiveMinimum": 1, "exclusiveMaximum": 1.0001},
        {"type": "integer", "multipleOf": 2.5, "minimum": 1},
        {"type": "string", "pattern": "^a{2,}$", "minLength": 4, "maxLength": 6},
        {"type": "string", "pattern": r"^[^\W\d_]\u00e9?\x41$"},
        {"type": "string", "format": "uuid"},
        {"type": "string", "minLength": 1000},
        {"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 2, "items": {"type": "integer"}},
        {"type": "array", "prefixItems": [{"const": "a"}, False]},
        {"type": "array", "uniqueItems": True, "minItems": 3, "items": {"type": "integer"}},
        {"type": "array", "items": {"type": "boolean"}, "unevaluatedItems": False, "minItems": 2},
        {"type": "object", "propertyNames": {"pattern": "^x[0-9]$"}, "minProperties": 2},
        {"type": "object", "required": ["a"], "dependentRequired": {"a": ["b"], "b": ["c"]}},
        {"type": "object", "required": ["a"], "dependentSchemas": {"a": {"required": ["b"]}}},
        {
            "type": "object",
            "patternProperties": {"^k": {"const": 1}},
            "additionalProperties": False,
            "minProperties": 1,
        },
        {"allOf": [{"type": ["string", "array"]}, {"type": ["array", "null"], "minItems": 1}]},
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "not": {"type": "integer"}},
        {"type": "integer", "if": {"minimum": 5}, "then": {"multipleOf": 7}, "else": {"maximum": -1}},
        {"enum": [1, "a", None], "type": "string"},
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"const": {"x": [1.5]}}}},
        _TREE,
        True,
        {},
    ],
)
def test_what_schemas_ask_for_is_built(schema: Any) -> None:
    assert find_instances(Seeded(1), subject(schema), 1)


@pytest.mark.parametrize(
    "schema", [False, {"not": {}}, {"type": "string", "const": 1}, {"minItems": 10**9, "type": "array"}]
)
def test_where_there_is_none_none_is_found(schema: Any) -> None:
    assert find_instances(Seeded(0), subject(schema), 3) == []


class _Counting(Seeded):
    def __init__(self) -> None:
        super().__init__(0)
        self.made = 0

    def below(self, bound: int) -> int:
        self.made += 1
        return super().below(bound)


def test_recursion_that_cannot_end_is_given_up() -> None:
    """Three items, each of which has three items, and so on: 3 ** 12 of them without a limit."""
    choices: Choices = _Counting()
    endless = {"type": "array", "items": {"$ref": "#"}, "minItems": 3}
    assert find_instances(choices, subject(endless), 1) == []
    assert isinstance(choices, _Counting)
    assert choices.made < 50_000


@pytest.mark.parametrize(
    "pattern", ["^a+b*$", "[0-9]{2,4}|x", r"^\d\w\s\S$", "^(?:ab|c){2}[^a-z]?$", r"^\[\]\.$", "^.$", "é"]
)
@given(seeds)
def test_samples_of_a_pattern_match_it(pattern: str, seed: int) -> None:
    assert subject({"pattern": pattern}).validator.is_valid(write(sample(Seeded(seed), pattern)))
