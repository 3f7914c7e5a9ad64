"""``structout serve`` with a real model, as OpenAI's own client sees it."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from tests.serve.process import ServeProcess, structout_serve

pytestmark = [pytest.mark.model, pytest.mark.long]

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
    assert (caught.value.code, caught.value.param) == ("invalid_spec", "/structured_outputs/regex")


def test_sigterm_lets_a_stream_finish() -> None:
    with structout_serve() as server, client_of(server) as client:
        stream = client.chat.completions.create(model="smollm2", messages=MESSAGES, max_tokens=8, stream=True)
        chunks = iter(stream)
        next(chunks)
        server.terminate()
        *_, last = chunks
    assert last.choices[0].finish_reason in ("stop", "length")


# ---- responses and embeddings ---------------------------------------------------------------------------------------


def test_a_response_whole_and_as_a_stream(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "smollm2", "input": "Which animal barks?", "temperature": 0}
    asked |= {"max_output_tokens": 12, "instructions": "Answer in a few words.", "metadata": {"a": "b"}}
    whole = client.responses.create(**asked)
    *_, last = client.responses.create(**asked, stream=True)
    assert (last.type, whole.status) == ("response.incomplete", "incomplete")
    assert whole.incomplete_details is not None
    assert whole.incomplete_details.reason == "max_output_tokens"
    assert last.response.output_text == whole.output_text != ""
    assert last.response.usage == whole.usage
    assert whole.metadata == {"a": "b"}


def test_a_response_is_parsed_into_a_class(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "smollm2", "input": "Which animal barks? Answer as JSON.", "text_format": Animal}
    asked |= {"extra_body": COMPACT, "temperature": 0}
    whole = client.responses.parse(**asked)
    with client.responses.stream(**asked) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        streamed = stream.get_final_response()
    assert isinstance(whole.output_parsed, Animal)
    assert streamed.output_parsed == whole.output_parsed
    assert "".join(deltas) == whole.output_text


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "weather"}], ids=str)
def test_forced_calls_of_a_response(client: openai.OpenAI, choice: Any) -> None:
    function: Any = TOOLS[0]["function"]
    asked: dict[str, Any] = {"model": "smollm2", "input": "How is the weather in Rome?", "tool_choice": choice}
    asked |= {"tools": [{"type": "function", **function}], "parallel_tool_calls": False, "extra_body": COMPACT}
    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as stream:
        stream.until_done()
        streamed = stream.get_final_response()
    for reply in (whole, streamed):
        calls: list[Any] = list(reply.output)
        assert [(call.type, call.name) for call in calls] == [("function_call", "weather")]
        assert calls[0].arguments in ('{"city":"Paris"}', '{"city":"Rome"}')


@pytest.mark.parametrize("is_stream", [False, True])
def test_what_a_response_does_not_support_is_an_error_with_its_place(client: openai.OpenAI, is_stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="smollm2", input="x", previous_response_id="resp_1", stream=is_stream)
    assert (caught.value.code, caught.value.param) == ("unsupported", "/previous_response_id")


def test_embeddings_of_texts_that_say_the_same_are_close(client: openai.OpenAI) -> None:
    texts = ["The dog barks.", "A dog is barking.", "Interest rates rose by two percent in March."]
    reply = client.embeddings.create(model="smollm2", input=texts)
    same, other, far = (np.asarray(each.embedding) for each in reply.data)
    assert np.linalg.norm(same) == pytest.approx(1.0, abs=1e-5)
    assert same @ other > same @ far
    assert reply.usage.prompt_tokens == reply.usage.total_tokens > len(texts)
    numbers = client.embeddings.create(model="smollm2", input=texts[0], encoding_format="float").data[0].embedding
    assert numbers == pytest.approx(same.tolist(), abs=1e-6)
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="smollm2", input=texts, dimensions=2)
    assert caught.value.param == "/dimensions"
