"""Tool calls are read off the text as it comes, whatever the pieces are."""

import itertools
import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine_adapter.outcome import Delta, Finished, FinishReason, Usage
from engine_adapter.serve.http.calls import AnyCalls, Call, CallReader, NamedCall, forced_by, read_call, read_calls
from engine_adapter.serve.http.chat import ChatShape
from tests.fakes import BYTES

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.text(), VALUES, max_size=3)), min_size=1, max_size=3)
WRITTEN = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def written(calls: list[tuple[str, dict[str, Any]]], how: dict[str, Any]) -> str:
    return json.dumps([{"name": name, "parameters": parameters} for name, parameters in calls], **how)


def pieces(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % len(text) for cut in cuts)})
    return [text[start:end] for start, end in itertools.pairwise(places)]


@given(CALLS, WRITTEN, st.lists(st.integers(0, 1000)))
def test_calls_are_read_however_they_are_written_and_cut(
    calls: list[tuple[str, dict[str, Any]]], how: dict[str, Any], cuts: list[int]
) -> None:
    text = written(calls, how)
    reader = CallReader()
    read = [call for piece in pieces(text, cuts) for call in reader.push(piece)]
    assert [(call.name, json.loads(call.arguments)) for call in read] == calls
    assert all(call.arguments in text for call in read), "the arguments are just as the model wrote them"
    assert reader.is_well_formed
    assert read_calls(text) == read


@given(CALLS, WRITTEN, st.integers(0, 1000))
def test_of_an_array_that_breaks_off_the_complete_calls_are_read(
    calls: list[tuple[str, dict[str, Any]]], how: dict[str, Any], cut: int
) -> None:
    text = written(calls, how)
    read = CallReader().push(text[: cut % len(text)])
    assert [(call.name, json.loads(call.arguments)) for call in read] == calls[: len(read)]


@given(st.text() | st.text('[]{}",:\\ abc'))
def test_reading_never_raises(text: str) -> None:
    read_call(text)
    CallReader().push(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", '[{"name": "f"}]', '[{"name": 1, "parameters": {}}]', "[{]"])
def test_what_is_no_list_of_calls_is_none(text: str) -> None:
    assert read_calls(text) is None


def test_numbers_stay_as_they_were_written() -> None:
    digits = "1" * 5000
    assert read_call(f'{{"name": "f", "parameters": {{"a": {digits}, "b": 1.0e999}}}}') == Call(
        "f", f'{{"a": {digits}, "b": 1.0e999}}'
    )


@pytest.mark.parametrize(
    ("body", "forced"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, None),
        ({"tool_choice": "none"}, None),
        ({"tool_choice": None}, None),
        ({"tool_choice": "required"}, AnyCalls()),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, NamedCall("f")),
        ({"tool_choice": {"type": "function", "name": "f"}}, NamedCall("f")),
        ({"extra_body": {"tool_choice": "required"}}, AnyCalls()),
    ],
)
def test_the_tool_choice_says_what_the_text_is(body: dict[str, Any], forced: object) -> None:
    assert forced_by(body) == forced


def finished(text: str, reason: FinishReason = FinishReason.STOP) -> Finished:
    return Finished(text=text, token_ids=(1,), reason=reason, usage=Usage(prompt_tokens=1, completion_tokens=2))


TWO = written([("f", {"a": 1}), ("g", {})], {})


def test_a_list_of_calls_becomes_tool_calls_and_one_that_is_none_a_failure() -> None:
    shape = ChatShape(BYTES, AnyCalls(), has_logprobs=False)
    choice = shape.choice(0, [Delta(text=TWO, token_ids=(1,))], finished(TWO))
    functions = [call["function"] for call in choice["message"]["tool_calls"]]
    assert functions == [{"name": "f", "arguments": '{"a": 1}'}, {"name": "g", "arguments": "{}"}]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
    assert shape.judge(finished(TWO)) is None
    assert shape.judge(finished("[1]")) is not None
    assert shape.judge(finished("[", FinishReason.LENGTH)) is None, "it ran out of tokens, and says so"


@given(st.lists(st.integers(0, 1000)))
def test_a_stream_of_calls_says_each_once_it_is_complete(cuts: list[int]) -> None:
    shape = ChatShape(BYTES, AnyCalls(), has_logprobs=False)
    stream = shape.stream(0)
    chunks = [chunk for piece in pieces(TWO, cuts) for chunk in stream.delta(Delta(text=piece, token_ids=(1,)))]
    [last] = stream.end(finished(TWO))
    said = [call for chunk in chunks for call in chunk["delta"]["tool_calls"]]
    assert [(call["index"], call["function"]["name"]) for call in said] == [(0, "f"), (1, "g")]
    assert "role" in chunks[0]["delta"]
    assert (last["delta"], last["finish_reason"]) == ({}, "tool_calls")


def test_a_named_call_is_its_arguments_and_keeps_what_there_is_when_it_breaks_off() -> None:
    shape = ChatShape(BYTES, NamedCall("f"), has_logprobs=False)
    broken = shape.choice(0, [Delta(text='{"a', token_ids=(1,))], finished('{"a', FinishReason.LENGTH))
    [call] = broken["message"]["tool_calls"]
    assert (call["function"], broken["finish_reason"]) == ({"name": "f", "arguments": '{"a'}, "length")
