"""The closed set of errors and the table of what follows from each."""

import json
import re

import hypothesis.strategies as st
import pytest
from hypothesis import given

from structout import ErrorKind, Fault, GrammarError, errors
from structout.errors import CONSEQUENCES, Consequence

GRPC_CODES = {
    "INVALID_ARGUMENT", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "UNAVAILABLE", "INTERNAL",
    "CANCELLED",
}  # fmt: skip
ROWS = [(kind, fault, row) for kind, faults in CONSEQUENCES.items() for fault, row in faults.items()]

texts = st.text()
optional_texts = st.none() | texts
grammar_errors = st.builds(
    lambda row, **fields: GrammarError(kind=row[0], fault=row[1], **fields),
    st.sampled_from(ROWS),
    message=texts,
    pointer=optional_texts,
    keyword=optional_texts,
    offset=st.none() | st.integers(0),
    backend=optional_texts,
    distribution=optional_texts,
    hint=optional_texts,
    candidates=st.lists(texts).map(tuple),
    detail=optional_texts,
)


def test_the_table_has_a_row_for_every_kind_and_the_docstring_a_line() -> None:
    assert list(CONSEQUENCES) == list(ErrorKind)
    drawn = re.findall(r"── ([A-Z_]+)", errors.__doc__ or "")
    assert sorted(drawn) == sorted(kind.name for kind in ErrorKind)


@pytest.mark.parametrize(("kind", "fault", "row"), ROWS)
def test_whose_fault_it_is_decides_the_class_of_every_code(kind: ErrorKind, fault: Fault, row: Consequence) -> None:
    assert row.grpc_code in GRPC_CODES
    http_class, exit_code = {Fault.CALLER: (4, 2), Fault.SERVICE: (5, 1), Fault.NOBODY: (4, 130)}[fault]
    assert (row.http_status // 100, row.exit_code) == (http_class, exit_code)
    assert not (row.retry and fault is Fault.CALLER), "sending it again unchanged cannot help"
    assert not (row.cacheable and fault is not Fault.CALLER), "only the client's own faults may be remembered"


@pytest.mark.parametrize("kind", [ErrorKind.TIMED_OUT, ErrorKind.OVERLOADED, ErrorKind.BACKEND_FAILURE])
def test_time_outs_overload_and_crashes_are_never_cached(kind: ErrorKind) -> None:
    assert not any(row.cacheable for row in CONSEQUENCES[kind].values())


def test_a_time_out_is_504_when_ours_and_400_when_the_spec_is_over_its_budget() -> None:
    ours = GrammarError(kind=ErrorKind.TIMED_OUT, message="")
    theirs = GrammarError(kind=ErrorKind.TIMED_OUT, message="", fault=Fault.CALLER)
    assert (ours.consequence.http_status, theirs.consequence.http_status) == (504, 400)


def test_a_fault_that_a_kind_cannot_have_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be the fault"):
        GrammarError(kind=ErrorKind.OVERLOADED, message="", fault=Fault.CALLER)


@given(grammar_errors)
def test_an_error_survives_json(error: GrammarError) -> None:
    assert GrammarError.from_json(json.loads(json.dumps(error.to_json(with_detail=True)))) == error


@given(grammar_errors)
def test_what_clients_see_has_no_detail(error: GrammarError) -> None:
    assert "detail" not in error.to_json()
    assert str(error).startswith(error.kind.value)
