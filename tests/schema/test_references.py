"""What references lead to, and which subschemas can be reached."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.result import Err, Ok
from structout.schema import pointer, reachable, walk
from structout.schema.keywords import DIALECTS
from structout.schema.references import ReferenceIndex
from structout.schema.walk import Schema, root
from structout.spec import Dialect
from tests.schema.strategies import schemas


def reached(
    schema: Schema, dialect: Dialect = Dialect.DRAFT_2020_12, registry: dict[str, Schema] | None = None
) -> list[str]:
    return [node.location for node in reachable(schema, dialect, registry=registry)]


def test_unused_definitions_are_not_reached() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/used"}},
        "$defs": {"unused": {"not": {}}, "used": {"$ref": "#/$defs/indirect"}, "indirect": {"items": {}}},
    }
    assert reached(schema) == ["", "/properties/a", "/$defs/used", "/$defs/indirect", "/$defs/indirect/items"]


def test_content_schemas_are_not_reached() -> None:
    assert reached({"contentSchema": {}}) == [""]


def test_recursion_ends() -> None:
    assert reached({"properties": {"child": {"$ref": "#"}}}) == ["", "/properties/child"]


def test_a_reference_into_what_is_already_there_adds_nothing() -> None:
    schema = {"properties": {"a": {"items": True}, "b": {"$ref": "#/properties/a/items"}}}
    assert reached(schema) == ["", "/properties/a", "/properties/a/items", "/properties/b"]


def test_a_reference_makes_a_schema_of_any_place() -> None:
    schema = {"$ref": "#/components/schemas/0", "components": {"schemas": [{"items": {"not": {}}}]}}
    assert reached(schema) == [
        "",
        "/components/schemas/0",
        "/components/schemas/0/items",
        "/components/schemas/0/items/not",
    ]


@pytest.mark.parametrize(
    ("dialect", "reference", "target"),
    [
        (Dialect.DRAFT_2020_12, "#name", {"$anchor": "name"}),
        (Dialect.DRAFT_2020_12, "#name", {"$dynamicAnchor": "name"}),
        (Dialect.DRAFT_2020_12, "http://x/target", {"$id": "http://x/target"}),
        (Dialect.DRAFT_2020_12, "target", {"$id": "http://x/target"}),
        (Dialect.DRAFT_2020_12, "http://x/target#/$defs/inner", {"$id": "target", "$defs": {"inner": {}}}),
        (Dialect.DRAFT_2020_12, "target#name", {"$id": "target", "$defs": {"inner": {"$anchor": "name"}}}),
        (Dialect.DRAFT_2020_12, "urn:x:target#name", {"$id": "urn:x:target", "$anchor": "name"}),
        (Dialect.DRAFT_7, "#name", {"$id": "#name"}),
        (Dialect.DRAFT_7, "target#name", {"$id": "target#name"}),
        (Dialect.DRAFT_4, "#name", {"id": "#name"}),
        (Dialect.DRAFT_4, "target", {"id": "target"}),
    ],
)
def test_schemas_are_found_by_name(dialect: Dialect, reference: str, target: dict[str, Any]) -> None:
    identifier = "id" if dialect is Dialect.DRAFT_4 else "$id"
    schema = {identifier: "http://x/root", "properties": {"a": {"$ref": reference}}, "definitions": {"b": target}}
    found = reached(schema, dialect)
    assert found[:2] == ["", "/properties/a"]
    assert found[2].startswith("/definitions/b")


def test_a_fragment_is_relative_to_the_resource_around_it() -> None:
    inner = {"$id": "urn:x:inner", "$ref": "#/$defs/a", "$defs": {"a": {}}}
    assert reached({"allOf": [inner], "$defs": {"a": {}}}) == ["", "/allOf/0", "/allOf/0/$defs/a"]


def test_a_fragment_is_percent_encoded() -> None:
    assert reached({"$ref": "#/$defs/%20a~1b", "$defs": {" a/b": {}}}) == ["", "/$defs/ a~1b"]


def test_documents_of_the_registry_are_reached_and_say_where_they_are() -> None:
    registry: dict[str, Schema] = {
        "http://x/a": {"properties": {"b": {"$ref": "b#/$defs/c"}}, "$defs": {"unused": {}}},
        "http://x/b": {"$defs": {"c": {"not": False}}},
        "http://x/unused": {},
    }
    assert reached({"$ref": "http://x/a"}, registry=registry) == [
        "",
        "http://x/a#",
        "http://x/a#/properties/b",
        "http://x/b#/$defs/c",
        "http://x/b#/$defs/c/not",
    ]


def test_a_dynamic_reference_may_lead_to_every_anchor_of_its_name() -> None:
    schema = {
        "$dynamicRef": "#t",
        "$defs": {"a": {"$dynamicAnchor": "t"}, "b": {"$id": "b", "$dynamicAnchor": "t"}, "c": {"$dynamicAnchor": "u"}},
    }
    assert set(reached(schema)) == {"", "/$defs/a", "/$defs/b"}


def test_a_recursive_reference_may_lead_to_every_recursive_anchor() -> None:
    schema = {"items": {"$recursiveRef": "#"}, "$defs": {"a": {"$id": "a", "$recursiveAnchor": True}, "b": {}}}
    assert set(reached(schema, Dialect.DRAFT_2019_09)) == {"", "/items", "/$defs/a"}


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("#/$defs/b", "no 'b'"),
        ("#/title", "neither an object nor a boolean"),
        ("#nowhere", "no anchor 'nowhere'"),
        ("http://x/elsewhere", "no schema 'http://x/elsewhere'"),
        ("file:///etc/passwd", "no schema 'file:///etc/passwd'"),
        ("http://[", "no schema"),
        ("#/%ff", "UTF-8"),
        ("#/~2", "'~'"),
    ],
)
def test_references_that_lead_nowhere_say_why(reference: str, reason: str) -> None:
    schema: Schema = {"$ref": reference, "title": "text", "$defs": {"a": {}}}
    start = root(schema, Dialect.DRAFT_2020_12)
    match ReferenceIndex(start, {}, Dialect.DRAFT_2020_12).resolve(start, reference):
        case Err(message):
            assert reason in message
        case Ok(node):
            pytest.fail(f"{reference} led to {node}")
    assert reached(schema) == [""]


def test_only_documents_that_are_referred_to_are_used() -> None:
    registry: dict[str, Schema] = {
        "http://x/a": {"$defs": {"z": {"$ref": "b"}}},
        "http://x/b": True,
        "http://x/c": True,
    }
    start = root({"$defs": {"unused": {"$ref": "http://x/a"}}}, Dialect.DRAFT_2020_12)
    assert ReferenceIndex(start, registry, start.dialect).used_documents() == {"http://x/a", "http://x/b"}


def test_a_metaschema_of_the_registry_is_used() -> None:
    start = root({"$schema": "http://x/meta"}, Dialect.DRAFT_2020_12)
    assert ReferenceIndex(start, {"http://x/meta": True}, start.dialect).used_documents() == {"http://x/meta"}


@given(st.sampled_from(DIALECTS).flatmap(lambda dialect: st.tuples(st.just(dialect), schemas(dialect))))
def test_each_place_is_reached_once_and_is_in_the_document(drawn: tuple[Dialect, Schema]) -> None:
    dialect, schema = drawn
    nodes = list(reachable(schema, dialect))
    assert len({node.pointer for node in nodes}) == len(nodes)
    assert all(pointer.resolve(schema, node.pointer).unwrap() is node.schema for node in nodes)


@given(schemas())
def test_without_references_and_definitions_all_is_reached(schema: Schema) -> None:
    text = str(schema)
    if not any(word in text for word in ("Ref'", "$ref'", "$defs'", "definitions'", "contentSchema'")):
        assert reached(schema) == [node.pointer for node in walk(schema)]


def test_long_chains_do_not_recurse() -> None:
    definitions: Any = {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(10_000)}
    found = reached({"$ref": "#/$defs/0", "$defs": definitions | {"10000": True}})
    assert found[-1] == "/$defs/10000"
    assert len(found) == 10_002
