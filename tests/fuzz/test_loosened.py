"""A schema without what is listed as not enforced."""

import json
from typing import Any

import pytest

from structout import JsonSchema
from structout.backend import Finding
from structout.fuzz.loosened import loosened

SCHEMA = {"if": {"type": "string"}, "then": {"not": {}}, "properties": {"a/b": {"anyOf": [{"minLength": 1}, False]}}}


@pytest.mark.parametrize(
    ("pointer", "keyword", "expected"),
    [
        ("", "if", SCHEMA | {"if": None}),
        ("/then", "not", SCHEMA | {"then": {}}),
        ("/properties/a~1b/anyOf/0", "minLength", SCHEMA | {"properties": {"a/b": {"anyOf": [{}, False]}}}),
        ("/properties/a~1b/anyOf/1", "type", SCHEMA),
        ("/nowhere", "type", SCHEMA),
        ("http://example.com/other#/properties", "type", SCHEMA),
    ],
)
def test_the_keyword_at_its_place_is_left_out(pointer: str, keyword: str, expected: dict[str, Any]) -> None:
    spec = loosened(JsonSchema(json.dumps(SCHEMA)), [Finding(pointer, keyword, "is ignored")])
    assert spec.schema() == {name: value for name, value in expected.items() if value is not None}
