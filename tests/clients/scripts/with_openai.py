"""What OpenAI's own client sees of the server."""

from typing import Any, Literal

import openai
from observing import address, observe
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

MESSAGES: list[ChatCompletionMessageParam] = [
    {"role": "system", "content": "You are terse."},
    {"role": "user", "content": "Which animal barks?"},
]
COMPACT = {"structured_outputs": {"disable_any_whitespace": True}}
BAD_SCHEMA = {"type": "object", "properties": {"age": {"type": "intger"}}}


class Owner(BaseModel):
    city: Literal["Lutz", "Nebelsbad"]


class Animal(BaseModel):
    """What no model writes unless it has to."""

    kind: Literal["dog", "cat"]
    legs: Literal[2, 4]
    owner: Owner


TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {argument: {"enum": values}},
                "required": [argument],
                "additionalProperties": False,
            },
        },
    }
    for name, argument, values in [
        ("weather", "city", ["Lutz", "Nebelsbad"]),
        ("feed", "animal", ["dog", "cat"]),
    ]
]


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "smollm2", "messages": MESSAGES, "max_tokens": 16, **fields}


def models(client: OpenAI) -> Any:
    return [model.id for model in client.models.list()]


def chat(client: OpenAI) -> Any:
    return client.chat.completions.create(**asked(temperature=0)).model_dump()


def stream(client: OpenAI) -> Any:
    """The same request whole and as a stream, drawn by the same seed."""
    request = asked(temperature=1.0, seed=7)
    whole = client.chat.completions.create(**request)
    chunks = list(client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}))
    return {"whole": whole.model_dump(), "chunks": [chunk.model_dump() for chunk in chunks]}


def completion(client: OpenAI) -> Any:
    request: dict[str, Any] = {"model": "smollm2", "prompt": "The sky is", "max_tokens": 8, "temperature": 0}
    whole = client.completions.create(**request, logprobs=1)
    chunks = list(client.completions.create(**request, stream=True))
    return {"whole": whole.model_dump(), "deltas": [chunk.choices[0].text for chunk in chunks]}


def parse(client: OpenAI) -> Any:
    """An answer as an instance of a class, whole and streamed."""
    request = asked(response_format=Animal, max_tokens=60, extra_body=COMPACT, temperature=0)
    whole = client.chat.completions.parse(**request).choices[0].message.parsed
    with client.chat.completions.stream(**request) as events:
        streamed = events.get_final_completion().choices[0].message.parsed
    return [each.model_dump() if isinstance(each, Animal) else repr(each) for each in (whole, streamed)]


def named_tool(client: OpenAI) -> Any:
    return _calls(client, {"type": "function", "function": {"name": "weather"}})


def required_tool(client: OpenAI) -> Any:
    return _calls(client, "required")


def _calls(client: OpenAI, choice: Any) -> Any:
    """The choices that were forced to call, whole and streamed."""
    request = asked(
        tools=TOOLS, tool_choice=choice, parallel_tool_calls=False, max_tokens=60, extra_body=COMPACT, seed=1
    )
    whole = client.chat.completions.create(**request)
    with client.chat.completions.stream(**request) as events:
        streamed = events.get_final_completion()
    return [reply.choices[0].model_dump() for reply in (whole, streamed)]


def structured_outputs(client: OpenAI) -> Any:
    """The text of each kind of constraint that has no field in OpenAI's API, and of a backend by name."""
    constraints: dict[str, dict[str, Any]] = {
        "regex": {"regex": "[0-9]{3}-[a-f]{2}"},
        "choice": {"choice": ["Zubrowka", "Lutz"]},
        "json": {"json": {"enum": ["Zubrowka", "Lutz"]}, "backend": "xgrammar"},
    }
    replies = {
        name: client.chat.completions.create(**asked(extra_body={"structured_outputs": each}))
        for name, each in constraints.items()
    }
    return {name: reply.choices[0].message.content for name, reply in replies.items()}


def json_schema(client: OpenAI) -> Any:
    schema = {"type": "array", "items": {"enum": ["Zubrowka", "Lutz"]}, "minItems": 2, "maxItems": 2}
    response_format = {"type": "json_schema", "json_schema": {"name": "places", "strict": True, "schema": schema}}
    reply = client.chat.completions.create(**asked(response_format=response_format, max_tokens=60, extra_body=COMPACT))
    return reply.choices[0].message.content


def three(client: OpenAI) -> Any:
    return client.chat.completions.create(**asked(n=3, seed=1, temperature=1.0)).model_dump()


def three_streamed(client: OpenAI) -> Any:
    """The texts of the same three by the indices in the chunks."""
    texts = ["", "", ""]
    for chunk in client.chat.completions.create(**asked(n=3, seed=1, temperature=1.0, stream=True)):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    return texts


def logprobs(client: OpenAI) -> Any:
    reply = client.chat.completions.create(**asked(logprobs=True, top_logprobs=2, temperature=0))
    return reply.choices[0].model_dump()


def stop(client: OpenAI) -> Any:
    reply = client.completions.create(model="smollm2", prompt="1, 2, 3, 4,", max_tokens=40, temperature=0, stop=[" 7"])
    return reply.choices[0].model_dump()


def errors(client: OpenAI) -> Any:
    """What is raised, each as a whole reply and as a stream."""
    bad = {"type": "json_schema", "json_schema": {"name": "bad", "schema": BAD_SCHEMA}}
    requests = {
        "schema": asked(response_format=bad),
        "regex": asked(extra_body={"structured_outputs": {"regex": "(a"}}),
        "backend": asked(extra_body={"structured_outputs": {"choice": ["a"], "backend": "nobody"}}),
        "model": asked() | {"model": "another"},
        "field": asked(reasoning_effort="high"),
        "value": asked(top_p=7),
    }
    return {
        name: [_error(client, request | {"stream": it}) for it in (False, True)] for name, request in requests.items()
    }


def _error(client: OpenAI, request: dict[str, Any]) -> Any:
    chunks: list[ChatCompletionChunk] = []
    try:
        reply = client.chat.completions.create(**request)
        chunks.extend(reply if request["stream"] else ())
    except openai.APIStatusError as exc:
        said = {"status": exc.status_code, "code": exc.code, "param": exc.param, "type": exc.type}
        return {"raised": type(exc).__name__, "message": exc.message, "chunks": len(chunks), **said}
    return {"raised": None, "reply": repr(reply)}


if __name__ == "__main__":
    observe(
        OpenAI(base_url=f"{address()}/v1", api_key="none", max_retries=0, timeout=300),
        [
            models,
            chat,
            stream,
            completion,
            parse,
            named_tool,
            required_tool,
            structured_outputs,
            json_schema,
            three,
            three_streamed,
            logprobs,
            stop,
            errors,
        ],
    )
