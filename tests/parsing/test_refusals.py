"""Requests that are refused, and requests that just are not."""

import json
from typing import Any

import pytest

from structout.parsing import SpecLimits, parse_request
from structout.result import Err, Ok
from tests.parsing.refused import GROUPS, TOO_COMPLEX, Refused, Request, doubling, nested


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{group}: {name}") for group, cases in GROUPS.items() for name, case in cases.items()],
)
def test_refused(case: Refused) -> None:
    result = parse_request(case.request)
    assert isinstance(result, Err)
    error = result.error
    assert (error.kind, error.pointer, error.offset) == (case.kind, case.pointer, case.offset), error
    said = f"{error.message} ({error.hint})"
    assert [word for word in case.words if word not in said] == [], said


@pytest.mark.parametrize("request_", [None, [], "{}", 3])
def test_a_request_is_an_object(request_: Any) -> None:
    result = parse_request(request_)
    assert isinstance(result, Err)
    assert "the request must be an object" in result.error.message


def test_the_limits_are_the_callers() -> None:
    limits = SpecLimits(max_depth=2, max_choices=1, max_text_bytes=20)
    requests: list[Request] = [
        {"guided_json": nested(3)},
        {"guided_choice": ["a", "b"]},
        {"regex": "a" * 21},
        {"regex": "(((a)))"},
    ]
    for request in requests:
        result = parse_request(request, limits=limits)
        assert isinstance(result, Err)
        assert result.error.kind is TOO_COMPLEX


LONG = "~" * 1_000_000


@pytest.mark.parametrize(
    "request_",
    [
        {f"guided_{LONG}": 1},
        {"structured_outputs": {LONG: 1}},
        {"structured_outputs": {"\ud800" * 1_000_000: 1}},
        {"guided_json": {LONG: {"\ud800": 1}}},
    ],
    ids=["of the request", "of a constraint", "half a pair", "in a schema"],
)
def test_a_long_name_does_not_come_back_at_its_length(request_: Request) -> None:
    result = parse_request(request_)
    assert isinstance(result, Err)
    assert len(json.dumps(result.error.to_json())) < 6000


def test_a_value_that_contains_one_part_many_times_is_as_large_as_its_text() -> None:
    result = parse_request({"guided_json": {"enum": doubling(60)}}, limits=SpecLimits(max_text_bytes=10_000))
    assert isinstance(result, Err)
    assert (result.error.kind, "max_text_bytes" in result.error.message) == (TOO_COMPLEX, True)


@pytest.mark.parametrize(
    "request_",
    [
        {"guided_json": nested(64)},
        {"guided_json": json.dumps(nested(64))},
        {"guided_json": {"maximum": 10**640 - 1, "minimum": 1 - 10**640}},
        {"guided_json": f'{{"maximum": {"9" * 640}}}'},
        {"guided_choice": ["a"] * 10_000},
        {"regex": "a" * 1_048_576},
        {"regex": "(" * 64 + ")" * 64},
        {str(n): n for n in range(1_000)},
    ],
    ids=["depth", "depth of a text", "digits", "digits in a text", "options", "bytes", "groups", "fields"],
)
def test_what_just_fits_is_accepted(request_: Request) -> None:
    assert isinstance(parse_request(request_), Ok)
