"""``/v1/responses``: what a reply says, how the events of a stream come to it, and how both fail."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx2 as httpx
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from engine_adapter.replies import StreamCheck, check_reply
from engine_adapter.serve.http.responses.items import MessageOutput
from structout.errors import CONSEQUENCES, ErrorKind
from tests.serve.support import GUARD_S, GatedRunner, guarded, post, running, scripted_engine
from tests.serve.test_disconnects import LeavingClient
from tests.serve.test_streams import COMPACT, FUNCTION, both, failing_with, json_engine

PATH = "/v1/responses"
LOOK = {"type": "function", **FUNCTION["function"]}  # type: ignore[dict-item]


def asked(**fields: Any) -> dict[str, Any]:
    return {"input": "hello", "temperature": 0, **fields}


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The data of a stream's events, each of which is named by its type, and numbered."""
    *events, rest = response.text.split("\n\n")
    assert rest == ""
    named = [event.removeprefix("event: ").split("\ndata: ") for event in events]
    data = [json.loads(text) for _, text in named]
    assert [name for name, _ in named] == [each["type"] for each in data]
    assert [each["sequence_number"] for each in data] == list(range(len(data)))
    return data


def put_together(events: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The output as clients build it; whatever is said twice has to be said alike."""
    output: list[dict[str, Any]] = []
    for event in events:
        item = output[event["output_index"]] if event.get("output_index", 99) < len(output) else {}
        match event["type"].removeprefix("response."):
            case "output_item.added":
                assert event["output_index"] == len(output)
                output.append(event["item"])
            case "content_part.added":
                item["content"].append(event["part"])
            case "output_text.delta":
                item["content"][event["content_index"]]["text"] += event["delta"]
            case "output_text.done":
                assert item["content"][event["content_index"]]["text"] == event["text"]
            case "content_part.done":
                assert item["content"][event["content_index"]] == event["part"]
            case "function_call_arguments.delta":
                item["arguments"] += event["delta"]
            case "function_call_arguments.done":
                assert (item["arguments"], item["name"]) == (event["arguments"], event["name"])
            case "output_item.done":
                assert {**item, "status": event["item"]["status"]} == event["item"]
                output[event["output_index"]] = event["item"]
        assert event.get("item_id", item.get("id")) == item.get("id")
    return output


def without_ids(value: Any) -> Any:
    """A reply without what is different in every reply."""
    if isinstance(value, dict):
        return {k: without_ids(each) for k, each in value.items() if k not in ("id", "call_id", "created_at")}
    return [without_ids(each) for each in value] if isinstance(value, list) else value


def test_a_text_is_answered() -> None:
    body = asked(structured_outputs={"choice": ["yes", "no"]}, instructions="be", metadata={"a": "b"}, user="me")
    response = post(PATH, body)
    reply = response.json()
    [item] = reply["output"]
    [part] = item["content"]
    assert (response.status_code, reply["object"], reply["model"]) == (200, "response", "scripted")
    assert (reply["status"], reply["error"], reply["incomplete_details"]) == ("completed", None, None)
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert (part["type"], part["text"] in ("yes", "no")) == ("output_text", True)
    assert (reply["metadata"], reply["instructions"], reply["store"]) == ({"a": "b"}, "be", False)
    counts = len("s:be\nu:hello\n"), len(part["text"]) + 1
    assert (reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]) == counts
    assert reply["usage"]["total_tokens"] == sum(counts)
    assert response.headers["x-request-id"] in reply["id"]


def test_messages_are_laid_out_in_order() -> None:
    parts = [{"type": "output_text", "text": "b", "annotations": []}, {"type": "output_text", "text": "c"}]
    messages = [
        {"role": "developer", "content": "a"},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": parts},
        {"role": "user", "content": [{"type": "input_text", "text": "d"}]},
    ]
    laid_out = post(PATH, asked(input=messages, max_output_tokens=3)).json()
    text = post("/v1/completions", {"prompt": "s:a\na:bc\nu:d\n", "temperature": 0, "max_tokens": 3}).json()
    assert laid_out["output"][0]["content"][0]["text"] == text["choices"][0]["text"]


def test_the_format_of_the_text_is_a_constraint() -> None:
    schema = {"type": "json_schema", "name": "a", "schema": {"enum": [1, 22]}, "strict": True}
    reply = post(PATH, asked(text={"format": schema}), engine=json_engine()).json()
    assert reply["output"][0]["content"][0]["text"] in ("1", "22")
    assert reply["text"] == {"format": schema}


FREE = st.fixed_dictionaries({}, optional={"structured_outputs": st.just({"choice": ["yes", "no", "éé"]})})
FORCED = st.fixed_dictionaries(
    {
        "tools": st.just([LOOK]),
        "tool_choice": st.sampled_from(["required", {"type": "function", "name": "look"}]),
        "structured_outputs": st.just(COMPACT),
    },
    optional={"parallel_tool_calls": st.just(False)},
)
SETTINGS = st.fixed_dictionaries(
    {"input": st.just("x"), "seed": st.integers(0, 99), "max_output_tokens": st.sampled_from([1, 5, 20, 200])}
)


@settings(max_examples=30)
@given(FREE | FORCED, SETTINGS)
def test_a_stream_put_together_is_the_whole_reply(fields: dict[str, Any], common: dict[str, Any]) -> None:
    whole, stream = both(PATH, {**fields, **common})
    first, second, *middle, last = events_of(stream)
    reply = whole.json()
    assert (whole.status_code, stream.status_code) == (200, 200)
    assert reply["status"] in ("completed", "incomplete")
    assert [first["type"], second["type"]] == ["response.created", "response.in_progress"]
    assert {first["response"]["status"], second["response"]["status"]} == {"in_progress"}
    assert last["type"] == f"response.{reply['status']}"
    assert put_together(middle) == last["response"]["output"]
    assert without_ids(last["response"]) == without_ids(reply)
    assert {event["response"]["id"] for event in (first, second, last)} == {last["response"]["id"]}
    judge = StreamCheck()
    for event in (first, second, *middle, last):
        judge.feed(event)
    assert judge.end() == check_reply(reply)


def test_forced_calls_are_items_whose_arguments_satisfy_the_schema() -> None:
    body = asked(tools=[LOOK], structured_outputs=COMPACT, parallel_tool_calls=False)
    for choice in ("required", {"type": "function", "name": "look"}):
        reply = post(PATH, {**body, "tool_choice": choice}, engine=json_engine()).json()
        [item] = reply["output"]
        assert (item["type"], item["name"], item["status"]) == ("function_call", "look", "completed")
        assert json.loads(item["arguments"])["at"] in ("it", "me")
        assert (reply["tool_choice"], reply["tools"][0]["name"]) == (choice, "look")


def test_what_ran_out_of_room_is_incomplete() -> None:
    reply = post(PATH, asked(max_output_tokens=2)).json()
    assert (reply["status"], reply["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert [item["status"] for item in reply["output"]] == ["incomplete"]
    assert reply["usage"]["output_tokens"] == 2


def test_a_list_of_calls_that_broke_off_before_the_first_is_empty_and_still_a_stream() -> None:
    body = asked(tools=[LOOK], tool_choice="required", structured_outputs=COMPACT, max_output_tokens=3, stream=True)
    created, _, last = events_of(post(PATH, body, engine=json_engine()))
    assert (created["type"], last["type"], last["response"]["output"]) == (
        "response.created",
        "response.incomplete",
        [],
    )


# ---- failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("fails_after", range(5))
def test_before_the_first_token_a_failure_is_a_plain_reply_and_later_the_last_event(
    fails_after: int, is_stream: bool
) -> None:
    response = failing_with([fails_after], PATH, asked(stream=is_stream))
    assert "secret" not in response.text
    if not is_stream or fails_after == 0:
        assert (response.status_code, response.json()["error"]["code"]) == (500, "backend_failure")
        return
    *events, last = events_of(response)
    failed = last["response"]
    assert (response.status_code, last["type"], failed["status"]) == (200, "response.failed", "failed")
    assert failed["error"]["code"] == "backend_failure"
    assert failed["output"][0]["content"][0]["text"] == "wxyz"[:fails_after]
    assert failed["output"][0]["status"] == "incomplete"
    assert without_ids(put_together(events)[0]["content"]) == without_ids(failed["output"][0]["content"])
    assert failed["usage"]["output_tokens"] == fails_after


def test_a_bug_in_the_engine_after_the_first_tokens_is_the_last_event() -> None:
    engine = scripted_engine()
    engine.breaks_at = 4
    *events, last = events_of(post(PATH, asked(stream=True), engine=engine))
    assert events
    assert (last["type"], last["response"]["error"]["code"]) == ("response.failed", "engine_failure")


def test_a_bug_in_writing_a_stream_is_an_error_event(monkeypatch: pytest.MonkeyPatch) -> None:
    written = MessageOutput.push

    def push(self: MessageOutput, text: str) -> list[dict[str, Any]]:
        if self.texts:
            raise RuntimeError("secret internals")
        return written(self, text)

    monkeypatch.setattr(MessageOutput, "push", push)
    *events, last = events_of(post(PATH, asked(structured_outputs={"choice": ["wxyz"]}, stream=True)))
    assert events[-1]["type"] == "response.output_text.delta"
    assert (last["type"], last["code"]) == ("error", "engine_failure")
    assert "secret" not in str(last)


REFUSED: list[tuple[dict[str, Any], str | None]] = [
    ({}, "/input"),
    (asked(input=5), "/input"),
    (asked(input=[]), "/input"),
    (asked(input=[{"content": "x"}]), "/input/0/role"),
    (asked(input=[{"role": "king", "content": "x"}]), "/input/0/role"),
    (asked(input=[{"role": "user", "content": 5}]), "/input/0/content"),
    (asked(input=[{"role": "user", "content": [{"type": "input_image"}]}]), "/input/0/content/0/type"),
    (asked(input=[{"type": "item_reference", "id": "msg_1"}]), "/input/0/type"),
    (asked(input="refuse"), "/input"),
    (asked(input="long" * 40), "/input"),
    (asked(instructions="long" * 40), "/input"),
    (asked(instructions=5), "/instructions"),
    (asked(model="another"), "/model"),
    (asked(temperature=-1), "/temperature"),
    (asked(top_p=0), "/top_p"),
    (asked(max_output_tokens=0), "/max_output_tokens"),
    (asked(metadata={"a": 5}), "/metadata/a"),
    (asked(metadata={str(n): "" for n in range(17)}), "/metadata"),
    (asked(text={"fromat": {}}), "/text/fromat"),
    (asked(text={"format": {"type": "json_schema", "name": "a"}}), "/text/format"),
    (asked(text={"format": {"type": "yaml"}}), "/text/format/type"),
    (asked(text={"verbosity": "low"}), "/text/verbosity"),
    (asked(tools=[{"type": "web_search"}]), "/tools/0/type"),
    (asked(tool_choice="required"), "/tools"),
    (asked(tools=[LOOK], tool_choice={"type": "function", "name": "go"}), "/tool_choice"),
    (asked(structured_outputs={"choice": ["refuse"]}), "/structured_outputs/choice"),
    (asked(structured_outputs={"choice": ["a"], "backend": "nobody"}), "/structured_outputs/backend"),
    (asked(text={"format": {"type": "json_schema", "name": "a", "schema": {}}}), "/text/format/schema"),
    (asked(tools=[LOOK], tool_choice={"type": "function", "name": "look"}), "/tools/0/parameters"),
    (asked(tools=[LOOK], tool_choice="required"), "/tools"),
    (asked(previous_response_id="resp_1"), "/previous_response_id"),
    (asked(background=True), "/background"),
    (asked(conversation="conv_1"), "/conversation"),
    (asked(n=2), "/n"),
    (asked(messages=[]), "/messages"),
    (asked(instruction="be"), "/instruction"),
]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("body", "pointer"), REFUSED, ids=str)
def test_what_is_wrong_is_refused_with_its_place(body: dict[str, Any], pointer: str, is_stream: bool) -> None:
    response = post(PATH, {**body, "stream": is_stream})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, pointer)
    assert CONSEQUENCES[ErrorKind(error["code"])]


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    (asked(input=[{"role": "user", "content": "hi"}, {"type": kind, "call_id": "c", "output": "x"}]), "/input/1/type")
    for kind in ("function_call_output", "item_reference", "reasoning", "one of tomorrow")
]
UNSUPPORTED += [
    (
        asked(input=[{"role": "user", "content": [{"type": "input_image", "image_url": "u"}]}]),
        "/input/0/content/0/type",
    ),
    (asked(tools=[{"type": "web_search"}]), "/tools/0/type"),
    (asked(text={"verbosity": "low"}), "/text/verbosity"),
]


@pytest.mark.parametrize(("body", "pointer"), UNSUPPORTED, ids=str)
def test_what_others_may_serve_is_unsupported_and_no_mistake(body: dict[str, Any], pointer: str) -> None:
    error = post(PATH, body).json()["error"]
    assert (error["code"], error["type"], error["param"]) == ("unsupported", "invalid_request_error", pointer)
    assert "is not supported (it can be '" in error["message"]


@pytest.mark.parametrize("item", [{"role": "king", "content": "hi"}, {"type": 5, "role": "user", "content": "hi"}, 5])
def test_what_nobody_may_serve_is_a_mistake(item: Any) -> None:
    error = post(PATH, asked(input=[item])).json()["error"]
    assert error["code"] == "invalid_spec"
    assert error["param"].startswith("/input/0")


def test_ignore_eos_makes_a_text_as_long_as_it_may_be() -> None:
    body = asked(structured_outputs={"choice": ["a", "aaaa"]}, ignore_eos=True)
    reply = post(PATH, {**body, "max_output_tokens": 3}).json()
    assert (reply["status"], reply["usage"]["output_tokens"]) == ("incomplete", 3)
    assert post(PATH, body).json()["output"][0]["content"][0]["text"] == "aaaa"


def test_one_that_leaves_a_stream_aborts_its_generation() -> None:
    runner = GatedRunner()
    engine = scripted_engine(runner)

    async def main() -> str:
        async with running(engine) as engine_runs:
            client = LeavingClient(asked(structured_outputs={"choice": ["a" * 40]}, stream=True), PATH)
            asking: asyncio.Future[None] = client.ask(engine_runs)
            said = [await client.sent.get() for _ in range(2)]
            client.leave()
            await asking
            runner.gate.set()
            await engine_runs.close(GUARD_S / 2)
            return str(said[1]["body"])

    assert "response.output_text.delta" in guarded(main)
    assert engine.unfinished == 0
    assert runner.decoded < 40, "it did not go on to its end"
