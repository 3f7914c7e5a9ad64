"""What is particular to xgrammar, tamed: dropped keywords refused with their pointer, clean errors, exact choices."""

import json
from typing import Any

import numpy as np
import pytest

from structout import (
    Choice,
    Ebnf,
    Err,
    ErrorKind,
    GrammarError,
    GrammarSpec,
    JsonSchema,
    Ok,
    Policy,
    Regex,
    Status,
    StructuralTag,
)
from structout.grammar import BoundBackend
from structout.spec import Serialization, Whitespace
from structout_xgrammar import structout_register_backends
from tests.fakes import BYTES, EOS

DROPPED: dict[str, tuple[Any, str]] = {
    "not": ({"properties": {"a": {"not": {"const": 1}}}, "type": "object"}, "/properties/a"),
    "uniqueItems": ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, ""),
    "if": ({"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}, ""),
    "contains": ({"type": "array", "contains": {"const": 1}}, ""),
    "multipleOf": ({"type": "number", "multipleOf": 0.5}, ""),
}


@pytest.fixture(scope="module")
def bound() -> BoundBackend:
    [info] = structout_register_backends()
    return BoundBackend.create(info, "structout 0", BYTES).unwrap()


def accepts(bound: BoundBackend, spec: GrammarSpec, text: str) -> bool:
    """Whether the text and then the end are accepted, each byte where its bit is set."""
    constraint = bound.compile(spec).unwrap().start().unwrap()
    row = np.zeros(BYTES.bitmask_width, np.int32)
    for token in (*text.encode(), EOS):
        if constraint.fill(row) is not Status.OK:
            return False
        allowed = bool(row.view(np.uint32)[token // 32] >> token % 32 & 1)
        assert (constraint.accept(token) is Status.OK) == allowed
        if not allowed:
            return False
    return True


def error(bound: BoundBackend, spec: GrammarSpec) -> GrammarError:
    result = bound.compile(spec)
    assert isinstance(result, Err), result
    return result.error


@pytest.mark.parametrize(("schema", "pointer"), DROPPED.values(), ids=DROPPED)
def test_a_dropped_keyword_is_refused_with_its_pointer_and_listed_under_best_effort(
    bound: BoundBackend, schema: Any, pointer: str
) -> None:
    refused = error(bound, JsonSchema(json.dumps(schema)))
    assert (refused.kind, refused.pointer, refused.backend) == (ErrorKind.UNSUPPORTED, pointer, "xgrammar")
    best_effort = bound.compile(JsonSchema(json.dumps(schema), policy=Policy.BEST_EFFORT)).unwrap()
    assert pointer in {finding.pointer for finding in best_effort.unenforced}


@pytest.mark.parametrize(
    "spec",
    [Regex("(unclosed"), Regex("a(?=b)"), Ebnf("root ::= ("), Ebnf("root ::= nowhere"), StructuralTag('{"type": "x"}')],
    ids=repr,
)
def test_errors_are_the_callers_and_show_nothing_of_the_inside(bound: BoundBackend, spec: GrammarSpec) -> None:
    found = error(bound, spec)
    assert found.consequence.http_status == 400
    text = json.dumps(found.to_json())
    assert not any(inside in text for inside in ("/project/", ".cc:", "Check failed", "RuntimeError"))


@pytest.mark.parametrize("option", ["", "a", "ab", "a.b*c", 'quote " and \\', "é\n\t", "{}[]()|", "\U0001f600"])
def test_choices_are_exact(bound: BoundBackend, option: str) -> None:
    spec = Choice((option, "another option"))
    assert accepts(bound, spec, option)
    assert accepts(bound, spec, "another option")
    assert not accepts(bound, spec, option + "x")
    assert not accepts(bound, spec, "another")


@pytest.mark.parametrize(
    ("whitespace", "text", "allowed"),
    [
        (Whitespace.ANY, '{ "a" :\n1 }', True),
        (Whitespace.COMPACT, '{"a":1}', True),
        (Whitespace.COMPACT, '{"a": 1}', False),
        (Whitespace.SPACED, '{"a": 1}', True),
        (Whitespace.SPACED, '{"a":1}', False),
    ],
)
def test_white_space_is_the_specs(bound: BoundBackend, whitespace: Whitespace, text: str, allowed: bool) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    spec = JsonSchema(json.dumps(schema), serialization=Serialization(whitespace=whitespace))
    match bound.compile(spec):
        case Ok():
            assert accepts(bound, spec, text) == allowed
        case Err(refused):
            assert refused.kind is ErrorKind.UNSUPPORTED
