"""Definitions in a document of their own mean what they meant in the schema."""

from typing import Any

import pytest
from hypothesis import given

from structout import JsonSchema
from structout.fuzz.apart import URI, apart
from structout.fuzz.choices import Seeded
from structout.fuzz.instances import find_instances
from structout.fuzz.json_text import write
from structout.fuzz.near_misses import near_misses
from structout.fuzz.subject import subject_of
from tests.fuzz.strategies import dialects, schemas, seeds


@given(schema=dialects.flatmap(lambda dialect: schemas(dialect=dialect)), seed=seeds)
def test_the_language_is_the_same(schema: Any, seed: int) -> None:
    rest, registry = apart(schema)
    whole, parted = (
        subject_of(JsonSchema(write(one), registry=other)).unwrap() for one, other in ((schema, {}), (rest, registry))
    )
    found = find_instances(Seeded(seed), whole, 3)
    assert all(parted.validator.is_valid(write(value)) for value in found)
    assert not any(parted.validator.is_valid(each.text) for each in near_misses(Seeded(seed), whole, found, 4))


@pytest.mark.parametrize("holder", ["$defs", "definitions"])
def test_references_lead_to_the_other_document(holder: str) -> None:
    definitions = {"a": {"items": {"$ref": f"#/{holder}/a"}}}
    schema = {"$ref": f"#/{holder}/a", "properties": {"$ref": {"$ref": f"#/{holder}/a"}}, holder: definitions}
    there = f"{URI}#/{holder}/a"
    assert apart(schema) == (
        {"$ref": there, "properties": {"$ref": {"$ref": there}}},
        {URI: write({holder: definitions})},
    )


@pytest.mark.parametrize(
    "schema", [True, {"type": "null"}, {"$defs": {"a": {"items": {"$ref": "#"}}}, "$ref": "#/$defs/a"}]
)
def test_what_cannot_be_parted_stays_whole(schema: Any) -> None:
    assert apart(schema) == (schema, {})
