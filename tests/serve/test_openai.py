"""``structout serve`` with a real model, as OpenAI's own client sees it."""

from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from tests.serve.process import ServeProcess, structout_serve

pytestmark = pytest.mark.model

COMPACT = {"structured_outputs": {"disable_any_whitespace": True}}
MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Which animal barks? Answer as JSON."}]
TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Paris", "Rome"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]


class Animal(BaseModel):
    name: Literal["dog", "cat"]
    legs: Literal[4]


def client_of(server: ServeProcess) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with structout_serve() as server, client_of(server) as client:
        yield client


def test_chat_whole_and_as_a_stream(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "smollm2", "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
    whole = client.chat.completions.create(**asked)
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert whole.usage is not None
    assert chunks[-1].usage == whole.usage
    assert whole.usage.completion_tokens == 12
    assert [model.id for model in client.models.list()] == ["smollm2"]


def test_an_answer_is_parsed_into_a_class(client: openai.OpenAI) -> None:
    reply = client.chat.completions.parse(
        model="smollm2", messages=MESSAGES, response_format=Animal, extra_body=COMPACT, n=2, max_tokens=60
    )
    assert [type(choice.message.parsed) for choice in reply.choices] == [Animal, Animal]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}], ids=str)
def test_forced_calls_whole_and_as_a_stream(client: openai.OpenAI, choice: Any) -> None:
    asked: dict[str, Any] = {"model": "smollm2", "messages": MESSAGES, "tools": TOOLS, "tool_choice": choice}
    asked |= {"extra_body": COMPACT, "max_tokens": 200}
    whole = client.chat.completions.create(**asked, parallel_tool_calls=False)
    with client.chat.completions.stream(**asked, parallel_tool_calls=False) as stream:
        streamed = stream.get_final_completion()
    for reply in (whole, streamed):
        [call] = reply.choices[0].message.tool_calls or []
        assert reply.choices[0].finish_reason == "tool_calls"
        assert call.type == "function"
        assert call.function.name == "weather"
        assert call.function.arguments in ('{"city":"Paris"}', '{"city":"Rome"}')


def test_a_completion_with_log_probabilities(client: openai.OpenAI) -> None:
    choice = client.completions.create(model="smollm2", prompt="The sky is", max_tokens=4, logprobs=1).choices[0]
    assert choice.logprobs is not None
    assert "".join(choice.logprobs.tokens or ()) == choice.text


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_grammar_that_cannot_be_is_an_error_of_the_clients_own(client: openai.OpenAI, is_stream: bool) -> None:
    with pytest.raises(openai.BadRequestError, match="unclosed") as caught:
        client.chat.completions.create(
            model="smollm2", messages=MESSAGES, stream=is_stream, extra_body={"structured_outputs": {"regex": "(a"}}
        )
    assert caught.value.code == "invalid_spec"


def test_sigterm_lets_a_stream_finish() -> None:
    with structout_serve() as server, client_of(server) as client:
        stream = client.chat.completions.create(model="smollm2", messages=MESSAGES, max_tokens=30, stream=True)
        chunks = iter(stream)
        next(chunks)
        server.terminate()
        *_, last = chunks
    assert last.choices[0].finish_reason in ("stop", "length")
