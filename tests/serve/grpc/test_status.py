"""A failure's status is the table's, says what to do, shows nothing of the inside, and fits what clients take."""

import json

import grpc
import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine_adapter.serve.grpc.status import ERROR_KEY, status_of
from structout.errors import CONSEQUENCES, ErrorKind, Fault, GrammarError

PAIRS = [(kind, fault) for kind, faults in CONSEQUENCES.items() for fault in faults]


@pytest.mark.parametrize(("kind", "fault"), PAIRS)
def test_the_code_is_the_tables(kind: ErrorKind, fault: Fault) -> None:
    status = status_of(GrammarError(kind=kind, fault=fault, message="m"))
    assert status.code.name == CONSEQUENCES[kind][fault].grpc_code
    assert status.code is not grpc.StatusCode.OK


def test_the_message_says_where_and_what_to_do_but_no_detail() -> None:
    error = GrammarError(
        kind=ErrorKind.INVALID_SPEC, message="no such thing", pointer="/a", hint="leave it out", detail="secret"
    )
    status = status_of(error)
    assert status.message == "no such thing (at /a); leave it out"
    [(key, value)] = status.metadata
    assert key == ERROR_KEY
    assert json.loads(value) == error.to_json()
    assert b"secret" not in value


LONG = st.text(max_size=20_000) | st.integers(0, 20_000).map(lambda n: "é" * n)


@given(message=LONG, pointer=st.none() | LONG, hint=st.none() | LONG, candidates=st.lists(st.text(), max_size=50))
def test_whatever_an_error_says_its_status_is_bounded(
    message: str, pointer: str | None, hint: str | None, candidates: list[str]
) -> None:
    error = GrammarError(
        kind=ErrorKind.INVALID_SPEC, message=message, pointer=pointer, hint=hint, candidates=tuple(candidates)
    )
    status = status_of(error)
    [(_, value)] = status.metadata
    assert GrammarError.from_json(json.loads(value)).kind is error.kind
    # In headers each byte of the message may take three, and four stand for three of the metadata.
    assert 3 * len(status.message.encode()) + 4 * len(value) / 3 < 7_500
