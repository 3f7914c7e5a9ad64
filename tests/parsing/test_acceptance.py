"""Requests that are accepted."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from structout.parsing import (
    parse_request,
    parse_response_format,
    parse_structured_output,
    parse_structured_outputs,
    requested_backend,
)
from structout.result import Err, Ok
from structout.spec import GrammarSpec, JsonSchema, Policy, StructuralTag
from tests.parsing.accepted import ACCEPTED, SCHEMA, TEXT


@pytest.mark.parametrize(("request_", "spec"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted(request_: Mapping[str, Any], spec: GrammarSpec | None) -> None:
    match parse_request(request_):
        case Ok(parsed):
            assert parsed == spec
            assert parsed is None or spec is None or parsed.key == spec.key
        case Err(error):
            pytest.fail(str(error))


def test_a_legacy_tag_becomes_a_triggered_tag() -> None:
    legacy = {
        "type": "structural_tag",
        "structures": [{"begin": "<f=a>", "schema": {"type": "null"}, "end": "</f>"}],
        "triggers": ["<f="],
    }
    tag = {
        "type": "tag",
        "begin": "<f=a>",
        "content": {"type": "json_schema", "json_schema": {"type": "null"}},
        "end": "</f>",
    }
    expected: dict[str, Any] = {"type": "triggered_tags", "triggers": ["<f="], "tags": [tag]}
    for given, format_ in (
        (legacy, expected),
        (legacy | {"at_least_one": False}, expected),
        (legacy | {"at_least_one": True}, expected | {"at_least_one": True}),
    ):
        spec = parse_response_format(given).unwrap()
        assert isinstance(spec, StructuralTag)
        assert json.loads(spec.text) == {"type": "structural_tag", "format": format_}


def test_the_parsers_of_single_fields_point_into_the_request() -> None:
    for result, pointer in (
        (parse_response_format({"type": "x"}), "/response_format/type"),
        (parse_response_format({"type": "x"}, pointer="/a"), "/a/type"),
        (parse_structured_outputs({"regex": ""}), "/structured_outputs/regex"),
        (parse_structured_outputs({"backend": "xgrammar"}), "/structured_outputs"),
        (parse_structured_outputs({"json": {}, "enforcement": "x"}), "/structured_outputs/enforcement"),
        (parse_structured_output({"type": "x"}), "/structured_output/type"),
    ):
        assert isinstance(result, Err)
        assert result.error.pointer == pointer
    assert parse_response_format(None) == Ok(None)
    assert parse_structured_outputs(None) == Ok(None)
    assert parse_structured_outputs({"json": SCHEMA, "enforcement": "exact"}) == Ok(
        JsonSchema(TEXT, policy=Policy.EXACT)
    )
    assert parse_structured_output(None) == Ok(None)


def test_a_spec_does_not_change_with_the_request() -> None:
    schema: dict[str, Any] = {"type": "object"}
    spec = parse_request({"guided_json": schema}).unwrap()
    schema["type"] = "array"
    assert spec == JsonSchema('{"type": "object"}')


@pytest.mark.parametrize(
    ("request_", "backend"),
    [
        ({}, None),
        ({"structured_outputs": {"json": {}}}, None),
        ({"structured_outputs": {"json": {}, "backend": None}}, None),
        ({"structured_outputs": {"json": {}, "backend": "auto"}}, None),
        ({"structured_outputs": {"json": {}, "backend": "xgrammar"}}, "xgrammar"),
        ({"structured_outputs": {"backend": "llguidance"}, "regex": "a"}, "llguidance"),
        ({"guided_json": {}, "guided_decoding_backend": "outlines"}, "outlines"),
        ({"extra_body": {"structured_outputs": {"backend": "outlines"}}}, "outlines"),
        ({"structured_outputs": {"backend": "a"}, "guided_decoding_backend": "a"}, "a"),
    ],
)
def test_requested_backend(request_: Mapping[str, Any], backend: str | None) -> None:
    assert requested_backend(request_) == Ok(backend)


@pytest.mark.parametrize(
    ("request_", "pointer"),
    [
        ({"structured_outputs": {"backend": 3}}, "/structured_outputs/backend"),
        ({"structured_outputs": {"backend": "XGrammar"}}, "/structured_outputs/backend"),
        ({"guided_decoding_backend": "xgrammar:no-fallback"}, "/guided_decoding_backend"),
        ({"structured_outputs": {"backend": "a"}, "guided_decoding_backend": "b"}, "/guided_decoding_backend"),
        ({"structured_outputs": {"bakend": "a"}}, "/structured_outputs/bakend"),
        ({"structured_outputs": []}, "/structured_outputs"),
        ({"strucured_outputs": {}}, "/strucured_outputs"),
    ],
)
def test_requested_backend_refused(request_: Mapping[str, Any], pointer: str) -> None:
    result = requested_backend(request_)
    assert isinstance(result, Err)
    assert result.error.pointer == pointer
