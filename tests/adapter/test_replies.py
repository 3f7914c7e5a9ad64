"""What counts as a success of any server: every choice has its payload, and nothing that JSON can hold raises."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.replies import StreamCheck, check_reply
from engine_adapter.terminal import Payload
from structout import ErrorKind, GrammarError

Json = Any


def chat(*messages: Json, reason: str = "stop") -> Json:
    choices = [
        {"index": index, "message": {"role": "assistant"} | message, "finish_reason": reason}
        for index, message in enumerate(messages)
    ]
    return {"object": "chat.completion", "choices": choices, "usage": {"completion_tokens": 9}}


def completion(*texts: Json) -> Json:
    return {"choices": [{"index": index, "text": text, "finish_reason": "stop"} for index, text in enumerate(texts)]}


def response(*output: Json, **fields: Json) -> Json:
    return {"object": "response", "status": "completed", "error": None, "output": list(output)} | fields


def embeddings(*vectors: Json) -> Json:
    return {"object": "list", "data": [{"object": "embedding", "embedding": vector} for vector in vectors]}


def encoded(*numbers: float) -> str:
    return base64.b64encode(np.asarray(numbers, "<f4").tobytes()).decode()


TOOL_CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": "hi"}]}
EMPTY_MESSAGE = {"type": "message", "content": [{"type": "output_text", "text": ""}]}
REASONING = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}

SUCCESSES: tuple[Json, ...] = (
    chat({"content": "hi"}),
    chat({"content": "hi"}, {"content": "ho"}),
    chat({"content": [{"type": "text", "text": "hi"}]}),
    chat({"content": None, "refusal": "no"}),
    chat({"content": None, "tool_calls": [TOOL_CALL]}),
    chat({"content": "", "tool_calls": [{"type": "custom", "custom": {"name": "look"}}]}),
    chat({"content": None, "function_call": {"name": "look", "arguments": ""}}),
    chat({"content": "hi"}, reason="length"),
    completion("hi", " "),
    response(MESSAGE),
    response(REASONING, {"type": "function_call", "name": "look", "arguments": "{}"}),
    response(MESSAGE, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
    embeddings([0.5, 1], [0.0]),
    embeddings(encoded(1.0, 2.0)),
)
EMPTIES: tuple[tuple[Json, str], ...] = (
    ({}, ""),
    (None, ""),
    ([], ""),
    ("[DONE]", ""),
    ({"choices": []}, ""),
    ({"choices": None}, ""),
    ({"data": []}, ""),
    (chat({"content": ""}), "/choices/0"),
    (chat({"content": None, "reasoning_content": "hm"}), "/choices/0"),
    (chat({"content": "hi"}, {"content": None, "tool_calls": []}), "/choices/1"),
    (chat({"content": [{"type": "text", "text": ""}]}), "/choices/0"),
    (chat({"content": "", "tool_calls": [{"function": {"name": ""}}]}), "/choices/0"),
    (chat({"content": ""}, reason="length"), "/choices/0"),
    ({"choices": [None]}, "/choices/0"),
    (completion("hi", ""), "/choices/1"),
    (response(), "/output"),
    (response(EMPTY_MESSAGE, REASONING), "/output"),
    (embeddings([1.0], []), "/data/1"),
    (embeddings([1.0, None]), "/data/0"),
    (embeddings([float("nan")]), "/data/0"),
    (embeddings([True]), "/data/0"),
    (embeddings(encoded(float("inf"))), "/data/0"),
    (embeddings(""), "/data/0"),
    (embeddings("é"), "/data/0"),
    (embeddings("AAA="), "/data/0"),
)
FAILURES: tuple[tuple[Json, str], ...] = (
    ({"error": {"message": "boom", "code": 500}}, ""),
    ({"type": "error", "message": "boom"}, ""),
    (chat({"content": "hi"}, reason="error"), "/choices/0"),
    (chat({"content": "hi"}, reason="abort"), "/choices/0"),
    ({"choices": [{"text": "hi", "error": {"message": "boom"}}]}, "/choices/0"),
    (response(MESSAGE, status="failed", error={"message": "boom"}), ""),
    (response(MESSAGE, status="cancelled"), "/output"),
    (response(MESSAGE, status="in_progress"), "/output"),
)


@pytest.mark.parametrize("body", SUCCESSES)
def test_what_has_a_payload_is_a_success(body: Json) -> None:
    assert check_reply(body) is None


@pytest.mark.parametrize(("body", "pointer"), EMPTIES)
def test_what_has_none_is_an_error_that_says_where(body: Json, pointer: str) -> None:
    error = check_reply(body)
    assert error is not None
    assert (error.kind, error.message) == (
        ErrorKind.UNUSABLE_RESPONSE,
        "[UNUSABLE_BACKEND_RESPONSE] empty response payload",
    )
    assert error.pointer == pointer


@pytest.mark.parametrize(("body", "pointer"), FAILURES)
def test_what_says_that_it_failed_is_an_error(body: Json, pointer: str) -> None:
    error = check_reply(body, accepts_empty=True)
    assert error is not None
    assert error.message.startswith("[UNUSABLE_BACKEND_RESPONSE] the reply ")
    assert error.pointer == pointer
    assert "boom" not in error.message


@pytest.mark.parametrize("body", [chat({"content": ""}), completion(""), response(EMPTY_MESSAGE)])
def test_the_empty_text_is_an_answer_where_the_grammar_accepts_it(body: Json) -> None:
    assert check_reply(body, accepts_empty=True) is None


def test_the_rule_can_be_replaced() -> None:
    def ran_out(payload: Payload) -> GrammarError | None:
        message = "cut short"
        return GrammarError(kind=ErrorKind.UNUSABLE_RESPONSE, message=message) if payload.ran_out else None

    cut = check_reply(chat({"content": "hi"}, reason="length"), rule=ran_out)
    assert cut is not None
    assert (cut.message, cut.pointer) == ("cut short", "/choices/0")
    assert check_reply(chat({"content": ""}), rule=ran_out) is None


KEYS = (
    "choices", "data", "output", "error", "type", "object", "index", "message", "delta", "text", "content",
    "refusal", "tool_calls", "function", "function_call", "custom", "name", "finish_reason", "embedding", "status",
    "response", "incomplete_details", "reason",
)  # fmt: skip
WORDS = ("", "a", "message", "function_call", "error", "stop", "length", "response.completed", "failed", "AAAAAA==")
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS)
ANY_JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner), max_leaves=30
)


def is_known(error: GrammarError | None) -> bool:
    return error is None or error.kind is ErrorKind.UNUSABLE_RESPONSE


@given(ANY_JSON, st.booleans())
def test_no_json_makes_it_raise(body: Json, accepts_empty: bool) -> None:
    assert is_known(check_reply(body, accepts_empty=accepts_empty))


@given(st.lists(ANY_JSON, max_size=4))
def test_no_stream_of_json_makes_it_raise(chunks: list[Json]) -> None:
    check = StreamCheck()
    for chunk in chunks:
        check.feed(chunk)
    assert is_known(check.end())


def test_a_number_that_cannot_be_written_is_no_index() -> None:
    huge = 10**5000  # more digits than Python turns into text
    assert check_reply({"choices": [{"index": huge, "text": "a"}]}) is None
    assert check_reply(embeddings([huge])) is None


BODIES = st.sampled_from([*SUCCESSES, *(body for body, _ in EMPTIES), *(body for body, _ in FAILURES)])


@given(BODIES, st.data())
def test_a_reply_with_anything_in_any_place_does_not_make_it_raise(body: Json, data: st.DataObject) -> None:
    body = json.loads(json.dumps(body))
    place = body
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = data.draw(ANY_JSON)
            break
        place = place[key]
    assert is_known(check_reply(body))


def chunks_of(texts: list[list[str]], reasons: list[str]) -> list[Json]:
    """A stream in which each choice says its pieces, the choices in turn, and ends with its reason."""
    longest = max(map(len, texts))
    chunks = [
        {"choices": [{"index": index, "delta": {"content": pieces[turn]}, "finish_reason": None}]}
        for turn in range(longest)
        for index, pieces in enumerate(texts)
        if turn < len(pieces)
    ]
    ends = [{"choices": [{"index": index, "delta": {}, "finish_reason": end}]} for index, end in enumerate(reasons)]
    return [*chunks, *ends, {"choices": [], "usage": {"completion_tokens": 3}}, "[DONE]"]


@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(["", "a", "b"])), st.sampled_from(["stop", "length", "error"])),
        min_size=1,
        max_size=3,
    )
)
def test_a_stream_is_worth_what_the_whole_reply_is(choices: list[tuple[list[str], str]]) -> None:
    texts, reasons = [pieces for pieces, _ in choices], [reason for _, reason in choices]
    check = StreamCheck()
    for chunk in chunks_of(texts, reasons):
        check.feed(chunk)
    whole = [
        {"message": {"content": "".join(pieces)}, "finish_reason": reason}
        for pieces, reason in zip(texts, reasons, strict=True)
    ]
    assert check.end() == check_reply({"choices": whole})


def ended(*chunks: Json) -> GrammarError | None:
    check = StreamCheck()
    for chunk in chunks:
        check.feed(chunk)
    return check.end()


def test_a_stream_of_tool_calls() -> None:
    delta = {"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": ""}}]}
    more = {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls"}
    assert ended(*({"choices": [{"index": 0, "delta": each}]} for each in (delta, more)), {"choices": [end]}) is None
    assert ended({"choices": [{"index": 0, "delta": more}]}, {"choices": [end]}) is not None


@pytest.mark.parametrize(
    "chunks",
    [
        ({"choices": [{"index": 0, "delta": {"content": "a"}}]},),
        ({"choices": [{"index": 0, "text": "a"}]},),
        ({"type": "response.output_text.delta", "delta": "a"},),
    ],
)
def test_a_stream_that_breaks_off_is_no_success(chunks: tuple[Json, ...]) -> None:
    error = ended(*chunks)
    assert error is not None
    assert error.message == "[UNUSABLE_BACKEND_RESPONSE] the stream ended before the reply did"


def test_a_stream_of_a_response_is_worth_what_its_end_says() -> None:
    start = {"type": "response.created", "response": response(status="in_progress")}
    delta = {"type": "response.output_text.delta", "delta": "hi"}
    assert ended(start, delta, {"type": "response.completed", "response": response(MESSAGE)}) is None
    assert ended(start, {"type": "response.completed", "response": response(EMPTY_MESSAGE)}) is not None
    failed = response(MESSAGE, status="failed", error={"message": "boom"})
    assert ended(start, delta, {"type": "response.failed", "response": failed}) is not None


def test_an_error_event_after_tokens_is_the_end_of_the_stream() -> None:
    text = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
    error = ended(text, {"error": {"message": "boom"}}, "[DONE]")
    assert error is not None
    assert (error.message, error.detail) == ("[UNUSABLE_BACKEND_RESPONSE] the reply is an error", "boom")
