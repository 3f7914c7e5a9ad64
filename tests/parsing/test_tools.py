"""Forced calls: the schema that a tool choice comes down to."""

import json
from typing import Any

import jsonschema_rs
import pytest

from structout.parsing import SpecLimits, parse_request, parse_tools
from structout.result import Err, Ok
from structout.spec import JsonSchema

ADD = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/number"}, "b": {"$ref": "#/$defs/number"}},
    "required": ["a", "b"],
    "additionalProperties": False,
    "$defs": {"number": {"type": "integer"}},
}
TREE = {
    "type": "object",
    "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}, "$ref": {"const": {"$ref": "#/a"}}},
    "additionalProperties": False,
    "$defs": {"number": {"type": "string"}},
}


def function(name: str, parameters: Any = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}


TOOLS = [function("add", ADD), function("tree", TREE), function("now")]


def chosen(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize("choice", [None, "none", "auto"])
def test_a_free_choice_is_no_constraint(choice: str | None) -> None:
    assert parse_tools(TOOLS, choice) == Ok(None)
    assert parse_tools("not looked at", choice) == Ok(None)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("add", json.dumps(ADD)),
        ("tree", json.dumps(TREE)),
        ("now", '{"type": "object", "properties": {}}'),
    ],
)
def test_a_function_by_name_is_its_parameters(name: str, text: str) -> None:
    responses_tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
    assert parse_tools(TOOLS, chosen(name)) == Ok(JsonSchema(text))
    assert parse_tools(responses_tools, {"type": "function", "name": name}) == Ok(JsonSchema(text))
    assert parse_request({"tools": TOOLS, "tool_choice": chosen(name)}) == Ok(JsonSchema(text))


def test_a_tool_that_is_no_function_does_not_matter_to_a_named_one() -> None:
    assert isinstance(parse_tools([{"type": "web_search"}, *TOOLS], chosen("add")), Ok)
    result = parse_tools([{"type": "web_search"}], chosen("add"))
    assert isinstance(result, Err)
    assert result.error.pointer == "/tool_choice"


def call(name: str, **parameters: Any) -> dict[str, Any]:
    return {"name": name, "parameters": parameters}


REQUIRED = [
    ([call("add", a=1, b=2)], True),
    ([call("add", a=1, b=2), call("tree"), call("now", anything=1)], True),
    ([call("tree", kids=[{"kids": []}, {}])], True),
    ([call("tree", **{"$ref": {"$ref": "#/a"}})], True),
    ([], False),
    ([call("subtract")], False),
    ([call("add", a=1)], False),
    ([call("add", a=1, b="2")], False),
    ([call("add", a=1, b=2) | {"id": 1}], False),
    ([call("tree", kids=[3])], False),
    ([call("tree", **{"$ref": {"$ref": "#/b"}})], False),
    ([{"name": "now"}], False),
    (call("now"), False),
]


@pytest.mark.parametrize(("calls", "valid"), REQUIRED)
def test_a_required_call_is_a_list_of_calls(calls: Any, valid: bool) -> None:
    """Definitions of the same name, and references to the root, stay with their function."""
    spec = parse_tools(TOOLS, "required").unwrap()
    assert spec is not None
    assert jsonschema_rs.validator_for(spec.schema()).is_valid(calls) is valid


@pytest.mark.parametrize(("parallel", "two"), [(None, True), (True, True), (False, False)])
def test_calls_that_are_not_parallel_are_one(parallel: bool | None, two: bool) -> None:
    spec = parse_request({"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": parallel}).unwrap()
    assert isinstance(spec, JsonSchema)
    validator = jsonschema_rs.validator_for(spec.schema())
    assert validator.is_valid([call("now")])
    assert validator.is_valid([call("now"), call("now")]) is two


def test_the_dialect_moves_to_the_root() -> None:
    draft_7 = "http://json-schema.org/draft-07/schema#"
    spec = parse_tools([function("f", {"$schema": draft_7, "items": [{"type": "null"}]})], "required").unwrap()
    assert spec is not None
    schema = spec.schema()
    assert schema["$schema"] == draft_7
    assert "$schema" not in schema["$defs"]["parameters_0"]


def test_references_of_a_schema_with_an_id_are_its_own() -> None:
    parameters = {"$id": "https://example.com/f", "$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}
    spec = parse_tools([function("f", parameters)], "required").unwrap()
    assert spec is not None
    assert spec.schema()["$defs"]["parameters_0"] == parameters


def test_the_schema_of_all_calls_is_within_the_limits_too() -> None:
    tools = [function(f"f{n}", {"description": "x" * 400}) for n in range(3)]
    assert isinstance(parse_tools(tools, chosen("f1"), limits=SpecLimits(max_text_bytes=1_000)), Ok)
    result = parse_tools(tools, "required", limits=SpecLimits(max_text_bytes=1_000))
    assert isinstance(result, Err)
    assert (result.error.pointer, "max_text_bytes" in result.error.message) == ("/tools", True)


def test_the_request_is_left_as_it_was() -> None:
    tools = [function("f", {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a"})]
    before = json.dumps(tools)
    parse_tools(tools, "required").unwrap()
    assert json.dumps(tools) == before
