"""Which places of a schema are subschemas."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.schema import pointer, walk
from structout.schema.keywords import DIALECTS
from structout.schema.walk import Node, Schema
from structout.spec import Dialect
from tests.schema.strategies import schemas


def pointers(schema: Schema, dialect: Dialect = Dialect.DRAFT_2020_12) -> list[str]:
    return [node.pointer for node in walk(schema, dialect)]


def test_a_schema_in_document_order() -> None:
    schema = {
        "type": "object",
        "properties": {"a/b": {"items": False}, "~": True},
        "allOf": [{"not": {}}, {"if": {}, "then": {}}],
        "$defs": {"unused": {"contains": {}}},
    }
    assert pointers(schema) == [
        "",
        "/properties/a~1b",
        "/properties/a~1b/items",
        "/properties/~0",
        "/allOf/0",
        "/allOf/0/not",
        "/allOf/1",
        "/allOf/1/if",
        "/allOf/1/then",
        "/$defs/unused",
        "/$defs/unused/contains",
    ]


@pytest.mark.parametrize("keyword", ["const", "enum", "default", "examples", "x-unknown", "required", "title", "$ref"])
def test_data_is_not_mistaken_for_schemas(keyword: str) -> None:
    assert pointers({keyword: {"not": {}}}) == [""]
    assert pointers({keyword: [{"not": {}}]}) == [""]


@pytest.mark.parametrize("holder", [{"properties": {"const": {}}}, {"$defs": {"enum": {}}}])
def test_properties_may_be_called_like_keywords(holder: Any) -> None:
    assert len(pointers(holder)) == 2


@pytest.mark.parametrize(
    ("schema", "dialect", "expected"),
    [
        ({"items": [{}, True]}, Dialect.DRAFT_7, ["", "/items/0", "/items/1"]),
        ({"items": {}}, Dialect.DRAFT_7, ["", "/items"]),
        ({"items": [{}]}, Dialect.DRAFT_2020_12, [""]),
        ({"prefixItems": [{}]}, Dialect.DRAFT_7, [""]),
        ({"prefixItems": [{}]}, Dialect.DRAFT_2020_12, ["", "/prefixItems/0"]),
        ({"dependencies": {"a": ["b"], "c": {}}}, Dialect.DRAFT_7, ["", "/dependencies/c"]),
        ({"$defs": {"a": {}}}, Dialect.DRAFT_7, [""]),
        ({"definitions": {"a": {}}}, Dialect.DRAFT_2020_12, ["", "/definitions/a"]),
        ({"if": {}}, Dialect.DRAFT_6, [""]),
        ({"additionalProperties": False}, Dialect.DRAFT_4, ["", "/additionalProperties"]),
    ],
)
def test_dialects_differ(schema: Schema, dialect: Dialect, expected: list[str]) -> None:
    assert pointers(schema, dialect) == expected


def test_the_schema_names_its_own_dialect() -> None:
    assert pointers({"$schema": str(Dialect.DRAFT_7), "items": [{}]}) == ["", "/items/0"]


def test_a_resource_inside_may_have_another_dialect() -> None:
    old = {"$id": "http://x/old", "$schema": str(Dialect.DRAFT_7), "items": [{}]}
    assert pointers({"$defs": {"old": old}}) == ["", "/$defs/old", "/$defs/old/items/0"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_keywords_beside_a_reference_count_since_2019(dialect: Dialect) -> None:
    schema = {"$ref": "#/definitions/a", "not": {}, "definitions": {"a": {}}}
    [start, *inner] = walk(schema, dialect)
    counts = dialect in (Dialect.DRAFT_2019_09, Dialect.DRAFT_2020_12)
    assert ("not" in start.keywords) is counts
    assert [node.pointer for node in inner] == (["/not"] if counts else []) + ["/definitions/a"]


def test_nodes_know_what_holds_them() -> None:
    [start, inner] = walk({"allOf": [{"x-unknown": 1, "minimum": 3}]})
    assert start.keyword is None
    assert start.parent is None
    assert inner.keyword == "allOf"
    assert inner.parent is start
    assert inner.keywords == {"minimum": 3}
    assert repr(inner) == "Node('/allOf/0')"


def test_a_base_uri_follows_the_identifiers() -> None:
    schema = {"$id": "http://x/a/", "properties": {"b": {"$id": "b/c", "items": {}}}}
    assert [node.base_uri for node in walk(schema)] == ["http://x/a/", "http://x/a/b/c", "http://x/a/b/c"]


@given(st.sampled_from(DIALECTS).flatmap(lambda dialect: st.tuples(st.just(dialect), schemas(dialect))))
def test_every_pointer_resolves_to_its_node_and_comes_once(drawn: tuple[Dialect, Schema]) -> None:
    dialect, schema = drawn
    nodes = list(walk(schema, dialect))
    assert len({node.pointer for node in nodes}) == len(nodes)
    for node in nodes:
        assert pointer.resolve(schema, node.pointer).unwrap() is node.schema


@given(schemas())
def test_a_node_comes_after_the_one_around_it(schema: Schema) -> None:
    seen: set[Node | None] = {None}
    for node in walk(schema):
        assert node.parent in seen
        seen.add(node)


@pytest.mark.parametrize("keyword", ["not", "items", "properties", "anyOf"])
def test_deep_nesting_does_not_recurse(keyword: str) -> None:
    schema: Any = {}
    for _ in range(10_000):
        schema = {keyword: {"properties": {"a": schema}, "anyOf": [schema]}.get(keyword, schema)}
    *_, last = walk(schema)
    assert last.schema == {}
    assert last.pointer.count("/") == {"properties": 20_000, "anyOf": 20_000}.get(keyword, 10_000)
