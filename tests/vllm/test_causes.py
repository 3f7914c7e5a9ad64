"""A cause goes to the client as it is; nothing else is taken for one."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine_adapter.vllm import causes
from structout.errors import CONSEQUENCES, GrammarError

ERRORS = [
    GrammarError(kind=kind, fault=fault, message="no, for a “reason”", pointer="/a~1b", hint="do that", backend="x")
    for kind, faults in CONSEQUENCES.items()
    for fault in faults
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error.kind}-{error.fault}")
def test_a_cause_comes_back_as_it_was(error: GrammarError) -> None:
    assert causes.cause(causes.stop_reason(error)) == error


def test_what_is_for_the_log_stays_here() -> None:
    secret = GrammarError(kind=ERRORS[0].kind, message="no", detail="the secret key")
    assert "key" not in causes.stop_reason(secret)


@given(st.none() | st.integers() | st.text() | st.text().map("structout:".__add__) | st.just('structout:{"kind": 1}'))
def test_other_stop_reasons_are_no_causes(stop_reason: object) -> None:
    assert causes.cause(stop_reason) is None
