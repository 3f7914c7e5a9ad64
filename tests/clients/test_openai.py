"""OpenAI's own client."""

import json
import re
from typing import Any, Final

import jsonschema_rs
import pytest

from tests.clients.environments import Seen, needs, seen_by
from tests.serve.process import ServeProcess

pytestmark = [pytest.mark.clients, pytest.mark.model, needs("openai")]

ARGUMENTS: Final = {
    "weather": {"properties": {"city": {"enum": ["Lutz", "Nebelsbad"]}}, "required": ["city"]},
    "feed": {"properties": {"animal": {"enum": ["dog", "cat"]}}, "required": ["animal"]},
}


@pytest.fixture(scope="module")
def seen(server: ServeProcess, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return seen_by("openai", server.address, tmp_path_factory.mktemp("openai"))


def test_the_model_is_listed(seen: Seen) -> None:
    assert seen["models"] == ["smollm2"]


def test_a_chat(seen: Seen) -> None:
    reply = seen["chat"]
    [choice] = reply["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"]
    assert choice["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 16
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + 16


def test_a_stream_says_what_the_whole_reply_says(seen: Seen) -> None:
    whole, (*chunks, last) = seen["stream"]["whole"], seen["stream"]["chunks"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert "".join(delta["content"] or "" for delta in deltas) == whole["choices"][0]["message"]["content"]
    assert (deltas[0]["role"], bool(deltas[0]["content"])) == ("assistant", True)
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert (last["choices"], last["usage"]) == ([], whole["usage"])


def test_a_completion_whole_and_as_a_stream(seen: Seen) -> None:
    [choice] = seen["completion"]["whole"]["choices"]
    assert "".join(seen["completion"]["deltas"]) == choice["text"]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]


def test_an_answer_is_parsed_into_a_class(seen: Seen) -> None:
    for parsed in seen["parse"]:
        assert parsed["kind"] in ("dog", "cat")
        assert parsed["legs"] in (2, 4)
        assert parsed["owner"] in ({"city": "Lutz"}, {"city": "Nebelsbad"})


def test_a_tool_by_name(seen: Seen) -> None:
    for choice in seen["named_tool"]:
        assert [call["function"]["name"] for call in calls_of(choice)] == ["weather"]


def test_some_tool(seen: Seen) -> None:
    for choice in seen["required_tool"]:
        assert len(calls_of(choice)) == 1


def calls_of(choice: Any) -> list[Any]:
    """The calls of a choice that was forced to make some, whose arguments keep to their schemas."""
    assert choice["finish_reason"] == "tool_calls"
    calls: list[Any] = choice["message"]["tool_calls"]
    for call in calls:
        schema = {"type": "object", "additionalProperties": False, **ARGUMENTS[call["function"]["name"]]}
        assert jsonschema_rs.is_valid(schema, json.loads(call["function"]["arguments"]))
        assert call["id"]
    return calls


def test_constraints_that_only_others_have(seen: Seen) -> None:
    texts = seen["structured_outputs"]
    assert re.fullmatch("[0-9]{3}-[a-f]{2}", texts["regex"])
    assert texts["choice"] in ("Zubrowka", "Lutz")
    assert json.loads(texts["json"]) in ("Zubrowka", "Lutz")


def test_a_schema_in_response_format(seen: Seen) -> None:
    answer = json.loads(seen["json_schema"])
    assert len(answer) == 2
    assert set(answer) <= {"Zubrowka", "Lutz"}


def test_three_answers_whole_and_as_a_stream(seen: Seen) -> None:
    choices = seen["three"]["choices"]
    texts = [choice["message"]["content"] for choice in choices]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert len(set(texts)) == 3
    assert seen["three_streamed"] == texts


def test_log_probabilities(seen: Seen) -> None:
    choice = seen["logprobs"]
    tokens = choice["logprobs"]["content"]
    assert b"".join(bytes(token["bytes"]) for token in tokens).decode() == choice["message"]["content"]
    for token in tokens:
        assert token["logprob"] <= 0
        assert [len(token["top_logprobs"]), token["top_logprobs"][0]["token"]] == [2, token["token"]]


def test_a_stop_string(seen: Seen) -> None:
    assert seen["stop"]["finish_reason"] == "stop"
    assert seen["stop"]["text"] == " 5, 6,"


@pytest.mark.parametrize(
    ("what", "code", "param"),
    [
        ("schema", "invalid_spec", "/response_format/json_schema/schema/properties/age/type"),
        ("regex", "invalid_spec", "/structured_outputs/regex"),
        ("backend", "unavailable", "/structured_outputs/backend"),
        ("model", "unavailable", "/model"),
        ("field", "unsupported", "/reasoning_effort"),
        ("value", "invalid_spec", "/top_p"),
    ],
)
def test_a_request_that_cannot_be_served_raises_before_any_chunk(seen: Seen, what: str, code: str, param: str) -> None:
    for error in seen["errors"][what]:
        assert (error["raised"], error["status"], error["type"]) == ("BadRequestError", 400, "invalid_request_error")
        assert (error["code"], error["param"], error["chunks"]) == (code, param, 0)
        assert error["message"]
