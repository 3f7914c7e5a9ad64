"""Near misses: invalid, for the one reason that they name."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings

from structout.fuzz.choices import Seeded
from structout.fuzz.instances import find_instances
from structout.fuzz.keywords.table import generated
from structout.fuzz.near_misses import keywords_on, near_misses
from structout.fuzz.schemas import keyword_schema
from structout.fuzz.subject import Subject
from structout.spec import Dialect
from tests.fuzz.strategies import seeds, subject, subjects


def found(subject: Subject, seed: int) -> list[tuple[str, ...]]:
    choices = Seeded(seed)
    return [each.path for each in near_misses(choices, subject, find_instances(choices, subject, 3))]


@settings(max_examples=40)
@given(subjects(), seeds)
def test_a_near_miss_violates_the_keyword_that_it_names_and_no_other(subject: Subject, seed: int) -> None:
    choices = Seeded(seed)
    misses = near_misses(choices, subject, find_instances(choices, subject, 3))
    for miss in misses:
        assert not subject.validator.is_valid(miss.text)
        assert {keywords_on(path) for path in subject.validator.violations(miss.text)} == {miss.path}
        assert miss.keyword == miss.path[-1]
    assert len({miss.text for miss in misses}) == len(misses) <= 12
    assert all(times <= 2 for times in Counter(miss.path for miss in misses).values())


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ({"type": "integer", "minimum": 2, "maximum": 9}, {("type",), ("minimum",), ("maximum",)}),
        ({"type": "string", "minLength": 2, "maxLength": 3}, {("type",), ("minLength",), ("maxLength",)}),
        ({"type": "array", "uniqueItems": True, "maxItems": 4}, {("type",), ("uniqueItems",), ("maxItems",)}),
        (
            {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False},
            {("type",), ("properties", "const"), ("required",), ("additionalProperties",)},
        ),
        ({"allOf": [{"maximum": 3}], "type": "number"}, {("allOf", "maximum"), ("type",)}),
        ({"type": "array", "items": {"type": "boolean"}, "maxItems": 17}, {("items", "type"), ("maxItems",)}),
    ],
)
def test_every_keyword_is_missed_by_something(schema: Any, paths: set[tuple[str, ...]]) -> None:
    assert paths <= {path for seed in range(3) for path in found(subject(schema), seed)}


@pytest.mark.parametrize("dialect", [Dialect.DRAFT_2020_12, Dialect.DRAFT_7])
def test_all_keywords_that_restrict_something_are_missed(dialect: Dialect) -> None:
    missed: set[str] = set()
    for keyword in generated(dialect):
        for seed in range(12):
            schema = keyword_schema(Seeded(seed), keyword, dialect=dialect)
            missed.update(name for path in found(subject(schema, dialect=dialect), seed) for name in path)
            if keyword in missed:
                break
    assert set(generated(dialect)) - missed <= {"if"}, "what fails in a conditional is in then or else"


def test_the_keywords_on_a_path_are_told_from_names() -> None:
    path = ("properties", "type", "$ref", "allOf", 0, "dependentSchemas", "items", "items", "minItems")
    assert keywords_on(path) == ("properties", "$ref", "allOf", "dependentSchemas", "items", "minItems")
    assert keywords_on(("items", 0, "type")) == ("items", "type")
