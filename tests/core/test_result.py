"""`Ok` and `Err`."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from structout import Err, Ok, Result
from structout.result import UnwrapError


def halved(number: int) -> Result[int, str]:
    return Err(f"{number} is odd") if number % 2 else Ok(number // 2)


@given(st.integers())
def test_results_chain_like_the_functions_they_stand_for(number: int) -> None:
    doubled: Result[int, str] = Ok(number).map(lambda value: value * 2)
    assert doubled.and_then(halved) == Ok(number)
    assert Err("no").map(lambda value: value * 2).and_then(halved) == Err("no")


def test_a_result_is_taken_apart_with_match() -> None:
    match halved(3):
        case Ok(value):
            pytest.fail(f"{value}")
        case Err(error):
            assert error == "3 is odd"


@pytest.mark.parametrize("result", [Ok(1), Ok(0), Err("no")])
def test_a_result_has_no_truth_value(result: Result[int, str]) -> None:
    with pytest.raises(TypeError, match="use `match`"):
        bool(result)


def test_unwrap_returns_the_value_or_raises_with_the_error_and_its_cause() -> None:
    assert Ok(1).unwrap() == 1
    cause = ValueError("why")
    with pytest.raises(UnwrapError, match="why") as raised:
        Err(cause).unwrap()
    assert raised.value.error is cause
    assert raised.value.__cause__ is cause
