"""What holds for every request, however odd: an answer, and no internals in it."""

import json
import math
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from structout.parsing import json_schema, parse_request, parse_tools, requested_backend
from structout.parsing.fields import (
    CARRIERS,
    KNOWN_FIELDS,
    STRUCTURED_OUTPUT_TYPES,
    STRUCTURED_OUTPUTS,
    STRUCTURED_OUTPUTS_OPTIONS,
)
from structout.parsing.openai import FIELDS_OF_TYPES
from structout.result import Err, Ok
from structout.spec import SPEC_TYPES, JsonSchema
from tests.parsing.accepted import ACCEPTED


class Odd:
    """Nothing that JSON knows, and unwilling to be compared or counted; shown, it shows."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __bool__(self) -> bool:
        raise ZeroDivisionError

    def __repr__(self) -> str:
        return "<class Odd, {'a': Error}>"


# No quotes or angle brackets: what a client sent may be quoted, and must not be taken for the mark of a repr.
PLAIN = st.text(alphabet="ab{}[]()\\/~:=\n\0é\ud800 1", max_size=12)
NAMES = st.sampled_from(
    [
        *KNOWN_FIELDS,
        *CARRIERS,
        *STRUCTURED_OUTPUTS,
        *STRUCTURED_OUTPUTS_OPTIONS,
        *(name for names in FIELDS_OF_TYPES.values() for name in names),
        *(name for _, names in STRUCTURED_OUTPUT_TYPES.values() for name in names),
        *("type", "text", "tools", "function", "parameters", "name", "begin", "end", "guided_jsno", "$ref", "$schema"),
    ]
)
TYPES = st.sampled_from([*FIELDS_OF_TYPES, *STRUCTURED_OUTPUT_TYPES, "function", "required", "auto", "exact", "jsn"])
ODD_VALUES: st.SearchStrategy[Any] = st.one_of(
    st.builds(Odd),
    st.builds(object),
    st.builds(set),
    st.just(Odd),
    st.binary(max_size=3),
    st.sampled_from([math.nan, math.inf, 10**700, 1j, (), ("a",), frozenset(), range(3), len]),
    st.builds(pow, st.just(-10), st.just(5_001)),
)
JSON_TEXTS = st.sampled_from(["{}", "true", "[]", '{"a": {"a": 1, "a": 2}}', '{"a": NaN}', "[" * 200, '"\\ud800"'])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), PLAIN, TYPES, JSON_TEXTS, ODD_VALUES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(NAMES, inner, max_size=4),
        st.fixed_dictionaries({"type": TYPES}, optional={"schema": inner, "function": inner, "format": inner}),
        st.dictionaries(st.one_of(PLAIN, st.integers(), st.none(), st.builds(Odd)), inner, max_size=3),
    ),
    max_leaves=12,
)
REQUESTS = st.dictionaries(st.one_of(NAMES, PLAIN, st.integers(), st.builds(Odd)), VALUES, max_size=4)


@st.composite
def _mutants(draw: st.DrawFn, value: Any) -> Any:
    """The value with one of its parts, wherever it lies, replaced."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 5)) == 0:
        return draw(VALUES)
    key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
    copy: Any = value.copy()
    copy[key] = draw(_mutants(value[key]))
    return copy


TOOL_REQUEST = {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "tool_choice": "required"}
NEAR_MISSES = st.sampled_from([TOOL_REQUEST, *(dict(request) for request, _ in ACCEPTED.values())]).flatmap(_mutants)

INTERNALS = ("{'", "['", "<class", "<object", " object at 0x", "Error", "Exception", "Traceback", "structout.")


def in_order(error: Err[Any]) -> bool:
    said = str(error.error)
    said.encode("utf-8")
    json.dumps(error.error.to_json(), ensure_ascii=False).encode("utf-8")
    return not any(mark in said for mark in INTERNALS) and error.error.detail is None


@settings(max_examples=500)
@given(REQUESTS | NEAR_MISSES)
@example({"response_format": Odd()})
@example({"structured_outputs": {"json": Odd(), Odd(): 1}})
@example({"tools": Odd(), "tool_choice": Odd()})
def test_every_request_has_an_answer(request_: Any) -> None:
    match parse_request(request_):
        case Ok(spec):
            assert spec is None or isinstance(spec, SPEC_TYPES)
            assert spec is None or spec.key.encode("utf-8")
        case Err() as error:
            assert in_order(error)


@given(REQUESTS)
def test_every_request_names_a_backend_or_none(request_: Any) -> None:
    match requested_backend(request_):
        case Ok(backend):
            assert backend is None or backend.isascii()
        case Err() as error:
            assert in_order(error)


@given(VALUES, VALUES)
def test_every_tool_choice_has_an_answer(tools: Any, tool_choice: Any) -> None:
    result = parse_tools(tools, tool_choice)
    assert isinstance(result, Ok) or in_order(result)


JSON_NAMES = st.text(max_size=5)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(JSON_NAMES, inner, max_size=4),
    max_leaves=20,
)
SCHEMAS = st.booleans() | st.dictionaries(JSON_NAMES, JSON)


def pairs(text: str) -> Any:
    """A JSON text's value with the order of its members, which a dict's equality does not see."""
    return json.loads(text, object_pairs_hook=lambda pairs: ("object", pairs))


@given(SCHEMAS)
def test_a_value_is_frozen_as_it_is(schema: Any) -> None:
    spec = json_schema(schema).unwrap()
    assert spec.schema() == schema
    assert pairs(spec.text) == pairs(json.dumps(schema))


@given(SCHEMAS, st.booleans(), st.sampled_from([None, 1]))
def test_a_text_is_kept_as_it_is(schema: Any, ensure_ascii: bool, indent: int | None) -> None:
    text = json.dumps(schema, ensure_ascii=ensure_ascii, indent=indent)
    assert json_schema(text) == Ok(JsonSchema(text))
    if not ensure_ascii:
        assert json_schema(text).unwrap().key == json_schema(schema).unwrap().key


@given(SCHEMAS)
def test_a_schema_is_the_same_in_every_dialect(schema: Any) -> None:
    spec = json_schema(schema)
    for request in (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}},
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": schema}}},
        {"structured_outputs": {"json": schema}},
        {"structured_output": {"type": "json_schema", "schema": schema}},
        {"guided_json": schema},
    ):
        assert parse_request(request) == spec
