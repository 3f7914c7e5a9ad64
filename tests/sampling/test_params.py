"""What clients send as sampling parameters."""

from typing import Any

import pytest

from engine_adapter.sampling import SamplingParams
from structout.errors import ErrorKind
from structout.result import Err, Ok


def test_what_is_not_given_or_null_has_its_default() -> None:
    assert SamplingParams.parse() == Ok(SamplingParams())
    nulls = SamplingParams.parse(temperature=None, top_k=None, top_p=None, min_p=None, seed=None, logprobs=None)
    assert nulls == Ok(SamplingParams())


def test_legal_values() -> None:
    parsed = SamplingParams.parse(temperature=2, top_k=-1, top_p=1, min_p=0, seed=-(2**63), logprobs=0).unwrap()
    assert parsed == SamplingParams(temperature=2.0, seed=-(2**63), logprobs=0)
    assert type(parsed.temperature) is float
    biased = SamplingParams.parse(logit_bias={"7": 5, "3": -100.0}, presence_penalty=-2, repetition_penalty=2).unwrap()
    assert biased == SamplingParams(logit_bias={3: -100, 7: 5.0}, presence_penalty=-2.0, repetition_penalty=2.0)
    assert biased.logit_bias == ((3, -100.0), (7, 5.0))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("temperature", -0.1, "a number from 0 (greedy) to 100, not -0.1"),
        ("temperature", float("nan"), "a number from 0 (greedy) to 100, not nan"),
        ("temperature", float("inf"), "a number from 0 (greedy) to 100, not inf"),
        ("temperature", True, "a number from 0 (greedy) to 100, not True"),
        ("temperature", "0.5", "a number from 0 (greedy) to 100, not '0.5'"),
        pytest.param("temperature", 10**5000, "to 100, not an integer of 16610 bits", id="huge"),
        ("temperature", [1.0], "a number from 0 (greedy) to 100, not a value of type list"),
        ("top_k", -2, "an integer from 1 to 2147483647, or 0 or -1 (off), not -2"),
        ("top_k", 5.0, "or 0 or -1 (off), not 5.0"),
        ("top_k", -1.0, "or 0 or -1 (off), not -1.0"),
        ("top_k", 2**31, "or 0 or -1 (off), not 2147483648"),
        ("top_p", 0.0, "a number above 0, up to 1 (off), not 0.0"),
        ("top_p", 1.01, "a number above 0, up to 1 (off), not 1.01"),
        ("min_p", 1.5, "a number from 0 (off) to 1, not 1.5"),
        ("presence_penalty", 2.5, "a number from -2 to 2, 0 being none, not 2.5"),
        ("frequency_penalty", float("nan"), "a number from -2 to 2, 0 being none, not nan"),
        ("repetition_penalty", 0, "a number from 0.01 to 100, 1 being none, not 0"),
        (
            "logit_bias",
            {"1": 101},
            "numbers from -100 to 100 by token id, of at most 1024 tokens, not a value of type dict",
        ),
        ("logit_bias", {"1": True}, "of at most 1024 tokens, not a value of type dict"),
        ("logit_bias", {"-1": 1.0}, "of at most 1024 tokens, not a value of type dict"),
        ("logit_bias", {"1": 1.0, "01": 1.0}, "of at most 1024 tokens, not a value of type dict"),
        ("logit_bias", {"9" * 5000: 1.0}, "of at most 1024 tokens, not a value of type dict"),
        ("logit_bias", dict.fromkeys(range(1025), 1.0), "of at most 1024 tokens, not a value of type dict"),
        ("logit_bias", [1.0], "of at most 1024 tokens, not a value of type list"),
        ("seed", 2**63, "an integer from -9223372036854775808 to 9223372036854775807, not 9223372036854775808"),
        ("seed", False, "to 9223372036854775807, not False"),
        ("logprobs", 21, "an integer from 0 to 20, not 21"),
        ("logprobs", True, "an integer from 0 to 20, not True"),
    ],
)
def test_refusal_names_the_parameter_its_value_and_the_range(name: str, value: object, said: str) -> None:
    match SamplingParams.parse(**{name: value}):
        case Err(error):
            assert error.kind is ErrorKind.INVALID_SPEC
            assert error.keyword == name
            assert error.message.startswith(f"{name} has to be ")
            assert error.message.endswith(said)
        case Ok(params):
            pytest.fail(f"accepted: {params}")


def test_long_text_is_cut_in_the_message() -> None:
    error = SamplingParams.parse(seed="9" * 10_000)
    assert isinstance(error, Err)
    assert len(error.error.message) < 200


def test_unknown_name() -> None:
    error = SamplingParams.parse(temprature=0.5)
    assert isinstance(error, Err)
    assert error.error.message == "there is no sampling parameter 'temprature'"
    assert "temperature" in (error.error.hint or "")


@pytest.mark.parametrize("fields", [{"temperature": float("nan")}, {"top_k": True}, {"top_p": None}, {"logprobs": -1}])
def test_illegal_parameters_cannot_be_built(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has to be"):
        SamplingParams(**fields)
