"""What vLLM's sampling parameters ask for."""

import json
from typing import Any

import pytest

from engine_adapter.vllm.asking import BACKEND, ENFORCEMENT, Asked, asked, beside, complete
from structout import Choice, Err, JsonSchema, Ok, Regex
from structout.errors import ErrorKind
from structout.parsing import parse_structured_outputs
from structout.spec import Policy, Whitespace
from tests.vllm.support import Params, params

CONSTRAINTS: list[dict[str, Any]] = [
    {"json": {"type": "object"}},
    {"json": '{"type": "object"}'},
    {"regex": "a|b"},
    {"choice": ["yes", "no"]},
    {"grammar": 'root ::= "a"'},
    {"json_object": True},
    {"structural_tag": json.dumps({"type": "structural_tag", "format": {"type": "const_string", "value": "a"}})},
    {"json": {}, "disable_any_whitespace": True},
    {"json": {}, "whitespace_pattern": ""},
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
def test_they_mean_what_the_field_of_the_request_means(constraint: dict[str, Any]) -> None:
    spec = parse_structured_outputs(constraint).unwrap()
    assert spec is not None
    assert asked(params(**constraint)) == Ok(Asked(spec, None))


@pytest.mark.parametrize(
    ("constraint", "pointer"),
    [
        ({"choice": []}, "/structured_outputs/choice"),
        ({"regex": "a", "json": {}}, "/structured_outputs"),
        ({"json": "{"}, "/structured_outputs/json"),
        ({"json_object": False}, "/structured_outputs/json_object"),
    ],
    ids=repr,
)
def test_what_is_wrong_is_said_with_its_place(constraint: dict[str, Any], pointer: str) -> None:
    found = asked(params(**constraint))
    assert isinstance(found, Err)
    assert found.error.consequence.http_status == 400
    assert (found.error.pointer or "").startswith(pointer)


def test_free_text_asks_for_nothing() -> None:
    assert asked(Params()) == Ok(None)
    assert asked(object()) == Ok(None)


def test_backend_and_enforcement_are_extra_arguments() -> None:
    extra = {BACKEND: "xgrammar", ENFORCEMENT: "exact", "another": 1}
    assert asked(params(extra, regex="a")) == Ok(Asked(Regex("a", policy=Policy.EXACT), "xgrammar"))


@pytest.mark.parametrize("extra", [{BACKEND: "No Such!"}, {BACKEND: 3}, {ENFORCEMENT: "roughly"}], ids=repr)
def test_extra_arguments_that_make_no_sense_are_refused(extra: dict[str, Any]) -> None:
    found = asked(params(extra, regex="a"))
    assert isinstance(found, Err)
    assert found.error.kind is ErrorKind.INVALID_SPEC


def test_a_server_may_want_compact_json() -> None:
    found = asked(params(json={}), compact=True).unwrap()
    assert found is not None
    assert isinstance(found.spec, JsonSchema)
    assert found.spec.serialization.whitespace is Whitespace.COMPACT
    assert asked(params(choice=["a"]), compact=True) == Ok(Asked(Choice(("a",)), None))


def test_what_stood_beside_is_added_once_and_only_while_it_lasts() -> None:
    inside, outside = params({BACKEND: "mine"}, regex="a"), params(regex="a")
    with beside({BACKEND: "theirs", ENFORCEMENT: "exact"}):
        complete(inside)
    complete(outside)
    assert inside.extra_args == {BACKEND: "mine", ENFORCEMENT: "exact"}
    assert outside.extra_args is None
