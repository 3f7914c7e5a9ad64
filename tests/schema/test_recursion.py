"""How many subschemas apply to one value, each because of the one before."""

from typing import Any

import pytest

from structout.result import Err, Ok
from structout.schema.recursion import in_place_depth
from structout.schema.references import ReferenceIndex
from structout.schema.walk import Schema, root
from structout.spec import Dialect


def depth(schema: Schema, registry: dict[str, Schema] | None = None, limit: int = 10_000) -> int | str:
    """The depth, or the pointer of a subschema on a circle."""
    start = root(schema, Dialect.DRAFT_2020_12)
    match in_place_depth(ReferenceIndex(start, registry or {}, start.dialect), limit):
        case Ok(found):
            return found
        case Err(node):
            return node.pointer


def chain(length: int) -> dict[str, Any]:
    definitions: Any = {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(length)}
    return {"$ref": "#/$defs/0", "$defs": definitions | {str(length): {}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, 1),
        ({"properties": {"a": {"items": {}}}}, 1),
        ({"allOf": [{}, {"anyOf": [{}]}]}, 3),
        ({"allOf": [{"anyOf": [{}]}, {}]}, 3),
        ({"not": {"if": {"else": {}}}}, 4),
        ({"properties": {"a": {"$ref": "#"}}}, 2),
        ({"items": {"allOf": [{"$ref": "#/$defs/a"}]}, "$defs": {"a": {"oneOf": [{}]}}}, 4),
        ({"$defs": {"unused": {"allOf": [{}]}}}, 1),
        (chain(5000), 5002),
        # The longest way counts, in whatever order the ways are found.
        ({"anyOf": [{"$ref": "#/anyOf/1"}, {"allOf": [{"allOf": [{}]}]}]}, 5),
        ({"anyOf": [{"allOf": [{"allOf": [{}]}]}, {"$ref": "#/anyOf/0"}]}, 5),
    ],
)
def test_the_longest_chain_is_measured(schema: Schema, expected: int) -> None:
    assert depth(schema) == expected


def test_chains_lead_through_the_registry() -> None:
    assert depth({"$ref": "urn:a"}, {"urn:a": {"$ref": "urn:b"}, "urn:b": {}}) == 3


@pytest.mark.parametrize("schema", [chain(5000), {"anyOf": [{"$ref": "#/anyOf/1"}, {"allOf": [{"not": {}}]}]}])
@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_above_the_limit_any_number_above_it_will_do(schema: Schema, limit: int) -> None:
    found = depth(schema, limit=limit)
    assert isinstance(found, int)
    assert found > limit


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"$ref": "#"}, ""),
        ({"allOf": [{"$ref": "#"}]}, ""),
        ({"not": {"$dynamicRef": "#a"}, "$dynamicAnchor": "a"}, ""),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "/$defs/a"),
    ],
)
def test_circles_are_found(schema: Schema, place: str) -> None:
    assert depth(schema) == place
