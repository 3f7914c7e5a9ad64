"""Where a constraint stands: what a backend finds at some place of a spec is found there in the request."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.parsing import Place, Placed, placed_backend, placed_request
from structout.parsing.limits import DEFAULT_LIMITS
from structout.parsing.tags import placed_tag
from structout.result import Ok
from structout.schema import pointer as json_pointer
from structout.spec import SPEC_TYPES, GrammarSpec, JsonSchema, StructuralTag
from tests.parsing.accepted import ACCEPTED

NAMES = st.sampled_from(["a", "a/b", "~", "", "0", "$defs", "parameters_0", "é"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
SCHEMAS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


def places(value: Any, pointer: str = "") -> Iterator[str]:
    """Pointers of a value and of all that is in it."""
    yield pointer
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, json_pointer.join(pointer, key))


def at(request: Any, pointer: str) -> Any:
    return json_pointer.resolve(request, pointer).unwrap()


def placed(request: Any) -> Placed[GrammarSpec]:
    found = placed_request(request).unwrap()
    assert found is not None
    return found


def value_of(spec: GrammarSpec) -> Any:
    assert isinstance(spec, JsonSchema | StructuralTag)
    return json.loads(spec.text)


def tool(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_place_of_a_constraint_is_in_the_request(name: str) -> None:
    request, spec = ACCEPTED[name]
    match placed_request(request):
        case Ok(None):
            assert spec is None
        case Ok(Placed(value, place)):
            assert value == spec
            assert isinstance(value, SPEC_TYPES)
            assert at(request, place.of(None)) is not None
            assert at(request, place.of("no pointer at all")) == at(request, place.pointer)


@given(SCHEMAS)
def test_a_place_in_a_schema_is_that_place_in_the_request(schema: Any) -> None:
    for request in (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}},
        {"response_format": {"type": "json_object", "schema": schema}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}},
        {"structured_outputs": {"json": schema, "enforcement": "exact"}},
        {"structured_output": {"type": "json", "schema": schema}},
        {"extra_body": {"guided_json": schema}},
        {"json_schema": {"name": "n", "schema": schema}},
        {"tools": [tool("f", {"b": 1}), tool("g", schema)], "tool_choice": {"type": "function", "name": "g"}},
        {"tools": [{"type": "function", "name": "g", "parameters": schema}], "tool_choice": tool("g", None)},
        {"response_format": {"type": "structural_tag", "format": {"type": "any", "of": schema}}},
    ):
        found = placed(request)
        spec = value_of(found.value)
        for pointer in places(spec):
            assert at(request, found.place.of(pointer)) == at(spec, pointer)


@given(st.lists(SCHEMAS, min_size=1, max_size=3))
def test_a_place_in_the_schema_of_all_calls_is_that_place_in_the_tools(schemas: list[Any]) -> None:
    request = {
        "tools": [tool(f"f{index}", schema) for index, schema in enumerate(schemas)],
        "tool_choice": "required",
    }
    found = placed(request)
    for index, schema in enumerate(schemas):
        for pointer in places(schema):
            assert at(request, found.place.of(f"/$defs/parameters_{index}{pointer}")) == at(schema, pointer)
    for elsewhere in (None, "", "/items/anyOf/0", "/$defs", f"/$defs/parameters_{len(schemas)}/a"):
        assert found.place.of(elsewhere) == "/tools"


def test_parameters_that_are_left_out_stand_where_their_function_does() -> None:
    request = {"tools": [{"type": "function", "function": {"name": "f"}}]}
    named = placed({**request, "tool_choice": {"type": "function", "name": "f"}})
    assert named.place.of("/properties") == named.place.of(None) == "/tools/0/function"
    assert placed({**request, "tool_choice": "required"}).place.of("/$defs/parameters_0/properties") == "/tools"


@given(st.lists(SCHEMAS, min_size=1, max_size=3))
def test_a_place_in_an_older_structural_tag_is_that_place_in_what_was_sent(schemas: list[Any]) -> None:
    tag = {
        "type": "structural_tag",
        "structures": [{"begin": f"<{index}", "schema": schema, "end": ">"} for index, schema in enumerate(schemas)],
        "triggers": ["<"],
        "at_least_one": True,
    }
    found = placed({"response_format": tag})
    assert found.value == placed_tag(json.dumps(tag), limits=DEFAULT_LIMITS, pointer="").unwrap().value
    spec = value_of(found.value)
    for pointer in ("/format/triggers", "/format/triggers/0", "/format/at_least_one", "/format/tags/0/begin"):
        assert at({"response_format": tag}, found.place.of(pointer)) == at(spec, pointer)
    for index, schema in enumerate(schemas):
        for pointer in places(schema):
            inside = f"/format/tags/{index}/content/json_schema{pointer}"
            assert at({"response_format": tag}, found.place.of(inside)) == at(schema, pointer)
        assert found.place.of(f"/format/tags/{index}/content") == f"/response_format/structures/{index}/schema"
    assert found.place.of("/format") == "/response_format"


@pytest.mark.parametrize(
    ("request_", "pointer"),
    [
        ({"structured_outputs": {"json": {}, "backend": "xgrammar"}}, "/structured_outputs/backend"),
        ({"guided_json": {}, "guided_decoding_backend": "outlines"}, "/guided_decoding_backend"),
        ({"extra_body": {"structured_outputs": {"backend": "a"}}}, "/extra_body/structured_outputs/backend"),
    ],
)
def test_a_backend_is_named_at_its_place(request_: Any, pointer: str) -> None:
    found = placed_backend(request_).unwrap()
    assert found is not None
    assert found == Placed(at(request_, pointer), Place(pointer))
