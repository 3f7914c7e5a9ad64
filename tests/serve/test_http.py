"""The HTTP application, driven without a socket, on a scripted model."""

import json
import logging
import re
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from engine_adapter.embedded.engine import Engine
from engine_adapter.outcome import Delta, TokenLogprob
from engine_adapter.serve.http.asking import Asked
from engine_adapter.serve.http.body import MAX_BODY_BYTES, read_body
from engine_adapter.serve.http.chat import read_chat
from engine_adapter.serve.http.completions import CompletionShape, read_completion
from engine_adapter.serve.http.endpoint import Reader
from engine_adapter.serve.http.errors import error_response
from engine_adapter.serve.http.fields import UNSUPPORTED
from engine_adapter.serve.http.requests import ChatRequest, CompletionRequest, GenerationRequest
from engine_adapter.serve.http.responses.reading import read_response
from engine_adapter.serve.http.responses.request import ResponseRequest
from engine_adapter.serve.running import RunningEngine
from structout import Err, ErrorKind, GrammarError, Ok, Result
from structout.errors import CONSEQUENCES, Fault
from structout.parsing.fields import CARRIERS, OBJECT_FIELDS
from tests.fakes import BYTES, EOS
from tests.scripted import ScriptedRunner
from tests.serve.support import (
    ByteTokenizer,
    FailingService,
    client_of,
    client_to,
    guarded,
    post,
    scripted_engine,
    served_by,
)

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0}
RESPONSES = "/v1/responses"
SCHEMA_OF_A_CHAT = "/response_format/json_schema/schema"


def function(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


FUNCTION = function("look", {"type": "object"})
CALL = {"type": "function", "function": {"name": "look"}}
GO = {"type": "function", "name": "go"}


def chat(**fields: Any) -> dict[str, Any]:
    return {**HELLO, **fields}


def test_a_chat_is_answered() -> None:
    response = post(CHAT, chat(structured_outputs={"choice": ["yes", "no"]}))
    reply = response.json()
    [choice] = reply["choices"]
    assert response.status_code == 200
    assert (reply["object"], reply["model"]) == ("chat.completion", "scripted")
    assert choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] in ("yes", "no")
    assert (choice["index"], choice["finish_reason"]) == (0, "stop")
    prompt = len("u:hello\n")
    completion = len(choice["message"]["content"]) + 1
    assert reply["usage"] == {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    assert response.headers["x-request-id"] in reply["id"]


def test_a_completion_goes_on_from_a_text_or_its_tokens() -> None:
    fields = {"max_tokens": 7, "temperature": 0}
    text = post(COMPLETIONS, {"prompt": "ab", **fields}).json()
    tokens = post(COMPLETIONS, {"prompt": [97, 98], **fields}).json()
    listed = post(COMPLETIONS, {"prompt": ["ab"], **fields}).json()
    assert text["object"] == "text_completion"
    assert text["choices"][0]["finish_reason"] == "length"
    assert text["usage"]["completion_tokens"] == 7
    assert text["choices"] == tokens["choices"] == listed["choices"]


def test_a_completion_has_sixteen_tokens_when_it_does_not_say_and_a_chat_as_many_as_fit() -> None:
    completion, answer = post(COMPLETIONS, {"prompt": "abc", "temperature": 0}), post(CHAT, chat())
    assert completion.json()["usage"]["completion_tokens"] == 16
    assert answer.json()["usage"]["total_tokens"] >= 64


def test_a_seed_makes_the_answers_repeatable_and_different_from_each_other() -> None:
    body = chat(temperature=1, seed=5, n=3, max_tokens=9)
    first, second = post(CHAT, body).json()["choices"], post(CHAT, body).json()["choices"]
    assert first == second
    assert len({choice["message"]["content"] for choice in first}) == 3


def test_a_stop_string_ends_the_text_before_it() -> None:
    body = {"prompt": "ab", "max_tokens": 12, "temperature": 0}
    whole = post(COMPLETIONS, body).json()["choices"][0]["text"]
    found = re.search("[ -~]{2}", whole)
    assert found is not None
    for stop in (found[0], [found[0]]):
        choice = post(COMPLETIONS, {**body, "stop": stop}).json()["choices"][0]
        assert choice["text"] == whole[: found.start()]
        assert choice["finish_reason"] == "stop"


def test_min_tokens_keeps_a_text_from_ending_early() -> None:
    body = {"prompt": "ab", "max_tokens": 30, "temperature": 0}
    whole = post(COMPLETIONS, body).json()["choices"][0]["text"]
    found = re.search("[ -~]", whole)
    assert found is not None
    reply = post(COMPLETIONS, {**body, "stop": found[0], "min_tokens": 25}).json()
    assert reply["usage"]["completion_tokens"] >= 25


class WantsToEnd(ScriptedRunner):
    """A model that always says EOS, or "a" if it may not."""

    def logits_of(self, tokens: Sequence[int]) -> torch.Tensor:
        logits = torch.zeros(self.logit_width)
        logits[EOS], logits[ord("a")] = 9.0, 1.0
        return logits


@pytest.mark.parametrize(("path", "body"), [(CHAT, chat()), (COMPLETIONS, {"prompt": "ab", "temperature": 0})])
def test_ignore_eos_makes_a_text_as_long_as_it_may_be(path: str, body: dict[str, Any]) -> None:
    def told(**fields: Any) -> tuple[int, str]:
        reply = post(path, {**body, **fields}, engine=scripted_engine(WantsToEnd())).json()
        return reply["usage"]["completion_tokens"], reply["choices"][0]["finish_reason"]

    assert told(ignore_eos=True, max_tokens=9) == (9, "length")
    assert told(ignore_eos=True, max_tokens=9, min_tokens=9, stop=None) == (9, "length")
    assert told(ignore_eos=False, max_tokens=9, min_tokens=3) == (4, "stop")
    choice = {"choice": ["a", "aaaa"]}
    assert told(structured_outputs=choice, max_tokens=9) == (2, "stop")
    assert told(ignore_eos=True, structured_outputs=choice, max_tokens=9) == (5, "stop")
    assert told(ignore_eos=True, structured_outputs=choice, max_tokens=3) == (3, "length")


def test_log_probabilities_are_those_of_the_tokens() -> None:
    choice = post(CHAT, chat(logprobs=True, top_logprobs=2, max_tokens=3)).json()["choices"][0]
    content = choice["logprobs"]["content"]
    assert len(content) == 3
    assert (
        bytes(byte for each in content for byte in each["bytes"]).decode("utf-8", "replace")
        == (choice["message"]["content"])
    )
    for each in content:
        assert [top["logprob"] for top in each["top_logprobs"]] == sorted(
            (top["logprob"] for top in each["top_logprobs"]), reverse=True
        )
        assert each["top_logprobs"][0]["token"] == each["token"], "greedy takes the most likely"


def test_what_is_impossible_is_written_as_a_number() -> None:
    logprob = TokenLogprob(token_id=97, logprob=float("-inf"), top=((97, float("-inf")),))
    shape = CompletionShape(BYTES, has_logprobs=True)
    [choice] = shape.stream(0).delta(Delta(text="a", token_ids=(97,), logprobs=(logprob,)))
    assert json.loads(json.dumps(choice, allow_nan=False))["logprobs"]["token_logprobs"] == [-9999.0]


# ---- what is refused -----------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, Any, str]] = [
    (CHAT, b"{", ""),
    (CHAT, b'{"messages": "\xff"}', ""),
    (CHAT, [], ""),
    (CHAT, {}, "/messages"),
    (CHAT, chat(messages=[]), "/messages"),
    (CHAT, chat(messages=[{"content": "x"}]), "/messages/0/role"),
    (CHAT, chat(messages=[{"role": "king", "content": "x"}]), "/messages/0/role"),
    (CHAT, chat(messages=[{"role": "user", "content": 5}]), "/messages/0/content"),
    (CHAT, chat(messages=[{"role": "user", "content": [{"type": "image_url"}]}]), "/messages/0/content/0/type"),
    (CHAT, chat(messages=[{"role": "user", "content": "refuse"}]), "/messages"),
    (CHAT, chat(messages=[{"role": "user", "content": "long" * 40}]), "/messages"),
    (CHAT, chat(model="another"), "/model"),
    (CHAT, chat(n=0), "/n"),
    (CHAT, chat(n=129), "/n"),
    (CHAT, chat(temperature="1"), "/temperature"),
    (CHAT, chat(temperature=True), "/temperature"),
    (CHAT, chat(temperature=-1), "/temperature"),
    (CHAT, chat(extra_body={"min_p": 7}), "/extra_body/min_p"),
    (CHAT, chat(extra_body={"top_logprobs": 1}), "/extra_body/top_logprobs"),
    (CHAT, chat(sampling_params={"stop": [""]}), "/sampling_params/stop"),
    (CHAT, chat(sampling_params={"n": 0}, extra_body={"n": 0}), "/extra_body/n"),
    (CHAT, chat(presence_penalty=2.5), "/presence_penalty"),
    (CHAT, chat(logit_bias={"1": 101}), "/logit_bias"),
    (CHAT, chat(logit_bias={"a": 1}), "/logit_bias"),
    (CHAT, chat(logit_bias={"1000000": 1}), "/logit_bias"),
    (CHAT, chat(extra_body={"logit_bias": {"1000000": 1}}), "/extra_body/logit_bias"),
    (CHAT, chat(extra_body={"repetition_penalty": 0}), "/extra_body/repetition_penalty"),
    (CHAT, chat(top_p=0), "/top_p"),
    (CHAT, chat(seed=2**63), "/seed"),
    (CHAT, chat(max_tokens=0), "/max_tokens"),
    (CHAT, chat(max_tokens=1, max_completion_tokens=2), "/max_tokens"),
    (CHAT, chat(min_tokens=2, max_tokens=1), "/min_tokens"),
    (CHAT, chat(stop=5), "/stop"),
    (CHAT, chat(ignore_eos="yes"), "/ignore_eos"),
    (CHAT, chat(ignore_eos=1), "/ignore_eos"),
    (CHAT, chat(stop=["a", 5]), "/stop/1"),
    (CHAT, chat(stop=[""]), "/stop"),
    (CHAT, chat(top_logprobs=1), "/top_logprobs"),
    (CHAT, chat(logprobs=True, top_logprobs=21), "/top_logprobs"),
    (CHAT, chat(stream_options={"include_usage": 1}), "/stream_options/include_usage"),
    (CHAT, chat(tools=5), "/tools"),
    (CHAT, chat(tool_choice="required"), "/tools"),
    (CHAT, chat(tools=[FUNCTION], tool_choice={"type": "function", "function": {"name": "go"}}), "/tool_choice"),
    (CHAT, chat(structured_outputs={"regex": "(", "choice": ["a"]}), "/structured_outputs"),
    (CHAT, chat(structured_outputs={"choice": ["a"], "backend": "Nowhere"}), "/structured_outputs/backend"),
    (CHAT, chat(structured_outputs={"choice": ["refuse"]}), "/structured_outputs/choice"),
    (CHAT, chat(structured_outputs={"choice": ["a"], "backend": "nobody"}), "/structured_outputs/backend"),
    (CHAT, chat(guided_regex="(", guided_decoding_backend="nobody"), "/guided_decoding_backend"),
    (CHAT, chat(structured_outputs={"regex": "("}), "/structured_outputs/regex"),
    (CHAT, chat(extra_body={"guided_regex": "("}), "/extra_body/guided_regex"),
    (CHAT, chat(response_format={"type": "json_object"}), "/response_format"),
    (CHAT, chat(response_format={"type": "json_schema", "json_schema": {"schema": {}}}), SCHEMA_OF_A_CHAT),
    (CHAT, chat(tools=[FUNCTION], tool_choice=CALL), "/tools/0/function/parameters"),
    (CHAT, chat(tools=[FUNCTION], tool_choice="required"), "/tools"),
    (CHAT, chat(temprature=0), "/temprature"),
    (CHAT, chat(responce_format={}), "/responce_format"),
    (COMPLETIONS, {}, "/prompt"),
    (COMPLETIONS, {"prompt": ""}, "/prompt"),
    (COMPLETIONS, {"prompt": []}, "/prompt"),
    (COMPLETIONS, {"prompt": [1, "a"]}, "/prompt"),
    (COMPLETIONS, {"prompt": [10**6]}, "/prompt"),
    (COMPLETIONS, {"prompt": ["a", "b"]}, "/prompt"),
    (COMPLETIONS, {"prompt": "a", "logprobs": True}, "/logprobs"),
    (COMPLETIONS, {"prompt": "a", "logprobs": 21}, "/logprobs"),
]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("path", "body", "pointer"), REFUSED, ids=str)
def test_what_is_wrong_is_refused_with_its_place(path: str, body: Any, pointer: str, is_stream: bool) -> None:
    """In a stream too, as a plain reply."""
    response = post(path, {**body, "stream": is_stream} if isinstance(body, dict) else body)
    error = response.json()["error"]
    assert response.status_code == 400
    assert error.keys() == {"message", "type", "code", "param"}
    assert error["param"] == pointer
    assert error["type"] == "invalid_request_error"
    assert ErrorKind(error["code"])


SCHEMA: dict[str, Any] = {"properties": {"a": {"pattern": "("}}}
"""With something wrong in it, as the next test has it."""

BAD_SCHEMAS: list[tuple[str, dict[str, Any], str]] = [
    (
        CHAT,
        chat(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}),
        SCHEMA_OF_A_CHAT,
    ),
    (CHAT, chat(structured_outputs={"json": SCHEMA}), "/structured_outputs/json"),
    (CHAT, chat(structured_outputs={"json": json.dumps(SCHEMA)}), "/structured_outputs/json"),
    (CHAT, chat(tools=[FUNCTION, function("go", SCHEMA)], tool_choice=GO), "/tools/1/function/parameters"),
    (COMPLETIONS, {"prompt": "a", "extra_body": {"guided_json": SCHEMA}}, "/extra_body/guided_json"),
    (
        RESPONSES,
        {"input": "a", "text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}},
        "/text/format/schema",
    ),
    (
        RESPONSES,
        {"input": "a", "tools": [{"type": "function", "name": "go", "parameters": SCHEMA}], "tool_choice": GO},
        "/tools/0/parameters",
    ),
]


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(("path", "body", "place"), BAD_SCHEMAS, ids=str)
def test_what_a_backend_finds_wrong_is_found_in_the_request(path: str, body: Any, place: str, is_stream: bool) -> None:
    """Where it is, if a backend says where; else the field of the constraint; none if it is not their fault."""
    for fault, pointer, param in (
        (Fault.CALLER, "/properties/a/pattern", f"{place}/properties/a/pattern"),
        (Fault.CALLER, "", place),
        (Fault.CALLER, None, place),
        (Fault.SERVICE, None, None),
    ):
        error = GrammarError(kind=ErrorKind.TIMED_OUT, fault=fault, message="it is bad", pointer=pointer)
        engine = Engine(ScriptedRunner(), FailingService(error))
        response = post(path, {**body, "stream": is_stream}, engine=engine)
        assert response.status_code == error.consequence.http_status
        assert response.json()["error"]["param"] == param


def test_of_all_functions_that_may_be_called_the_one_at_fault_is_named() -> None:
    error = GrammarError(kind=ErrorKind.UNSUPPORTED, message="no", pointer="/$defs/parameters_1/properties/a/pattern")
    body = chat(tools=[FUNCTION, function("go", SCHEMA)], tool_choice="required")
    response = post(CHAT, body, engine=Engine(ScriptedRunner(), FailingService(error)))
    assert response.json()["error"]["param"] == "/tools/1/function/parameters/properties/a/pattern"


READERS: list[tuple[Reader[Asked], type[GenerationRequest], dict[str, Any]]] = [
    (read_chat, ChatRequest, HELLO),
    (read_completion, CompletionRequest, {"prompt": "x"}),
    (read_response, ResponseRequest, {"input": "x"}),
]


@pytest.mark.parametrize(("read", "fields", "body"), READERS)
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_field_that_is_not_supported_is_refused_unless_it_changes_nothing(
    name: str, read: Reader[Asked], fields: type[GenerationRequest], body: dict[str, Any]
) -> None:
    served = served_by(RunningEngine(scripted_engine()))
    if name in fields.model_fields:
        return
    for value in (None, *UNSUPPORTED[name]):
        assert isinstance(read({**body, name: value}, served, "id"), Ok)
    refused = read({**body, name: "something"}, served, "id")
    assert isinstance(refused, Err)
    assert (refused.error.kind, refused.error.pointer) == (ErrorKind.UNSUPPORTED, f"/{name}")


def test_a_part_of_a_message_that_is_no_text_is_unsupported() -> None:
    part = {"type": "image_url", "image_url": {"url": "u"}}
    error = post(CHAT, chat(messages=[{"role": "user", "content": [part]}])).json()["error"]
    assert (error["code"], error["param"]) == ("unsupported", "/messages/0/content/0/type")
    assert error["message"] == "messages.0.content.0.type: \"image_url\" is not supported (it can be 'text')"


def test_what_cannot_matter_passes() -> None:
    body = chat(user="me", metadata={"a": "b"}, store=True, colour="red", max_tokens=2)
    assert post(CHAT, body).status_code == 200


def test_a_body_that_is_too_long_is_refused() -> None:
    response = post(CHAT, b'"' + b" " * MAX_BODY_BYTES + b'"')
    assert (response.status_code, response.json()["error"]["code"]) == (400, "too_complex")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MODELS = [fields for _, fields, _ in READERS]
NAMES = [*(name for fields in MODELS for name in fields.model_fields), *UNSUPPORTED, *OBJECT_FIELDS, *CARRIERS]
FIELDS = st.dictionaries(st.sampled_from(NAMES), JSON)


@given(FIELDS, st.booleans())
def test_reading_never_raises_whatever_the_fields_are(fields: dict[str, Any], has_prompt: bool) -> None:
    served = served_by(RunningEngine(scripted_engine()))
    for read, _, usual in READERS:
        match read({**fields, **(usual if has_prompt else {})}, served, "id"):
            case Ok(asked):
                assert asked.n >= 1
            case Err(error):
                assert error.consequence.http_status == 400
                assert error.pointer is not None


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_reading_a_body_never_raises(body: bytes) -> None:
    match read_body(body):
        case Ok(fields):
            assert fields == json.loads(body)
        case Err(error):
            assert error.consequence.http_status == 400


# ---- tool calls ----------------------------------------------------------------------------------------------------


def test_tools_that_may_be_called_leave_the_answer_a_text() -> None:
    choice = post(CHAT, chat(tools=[FUNCTION], tool_choice="auto", max_tokens=3)).json()["choices"][0]
    assert "tool_calls" not in choice["message"]
    assert choice["finish_reason"] == "length"


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fault"), [(kind, fault) for kind, by_fault in CONSEQUENCES.items() for fault in by_fault]
)
def test_the_table_decides_the_status(kind: ErrorKind, fault: Any) -> None:
    error = GrammarError(kind=kind, fault=fault, message="it is wrong", hint="do better", detail="secret", pointer="/a")
    response = error_response(error)
    assert response.status_code == CONSEQUENCES[kind][fault].http_status
    assert ("retry-after" in response.headers) is CONSEQUENCES[kind][fault].retry
    body = json.loads(bytes(response.body))["error"]
    assert (body["message"], body["code"], body["param"]) == ("it is wrong (do better)", kind.value, "/a")
    assert "secret" not in str(body)


class Forgetful(ByteTokenizer):
    """A tokenizer with a bug."""

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        raise RuntimeError("secret internals")


def test_a_bug_of_ours_is_told_to_the_operator_and_not_to_the_client(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ByteTokenizer, "of_text", Forgetful.of_text)
    with caplog.at_level(logging.ERROR):
        response = post(COMPLETIONS, {"prompt": "a"})
    assert (response.status_code, response.json()["error"]["code"]) == (500, "engine_failure")
    assert "secret" not in response.text
    [record] = [record for record in caplog.records if "secret" in str(vars(record).get("error"))]
    assert vars(record)["request_id"] == response.headers["x-request-id"]


# ---- beside generation ---------------------------------------------------------------------------------------------


def get(path: str, engine: Engine | None = None, *, method: str = "GET") -> Any:
    async def main() -> Any:
        async with client_of(engine or scripted_engine()) as client:
            return await client.request(method, path)

    return guarded(main)


def test_the_model_is_listed() -> None:
    [model] = get("/v1/models").json()["data"]
    assert (model["id"], model["object"]) == ("scripted", "model")
    assert get("/v1/models/scripted").json() == model
    assert get("/v1/models/some/other").status_code == 400


def test_metrics_are_shown() -> None:
    response = get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/v2", "GET", 404), (CHAT, "GET", 405), ("/health", "POST", 405)]
)
def test_a_path_or_method_that_is_not_there_is_an_error_of_the_same_form(path: str, method: str, status: int) -> None:
    response = get(path, method=method)
    assert response.status_code == status
    assert response.json()["error"].keys() == {"message", "type", "code", "param"}


def test_health_says_that_requests_are_taken_and_when_they_are_not() -> None:
    engine = scripted_engine()
    engine.breaks_at = 2

    async def main() -> list[Any]:
        async with client_of(engine) as client:
            first = await client.get("/health")
            failed = await client.post(CHAT, json=chat())
            return [first, failed, await client.get("/health"), await client.post(CHAT, json=chat(stream=True))]

    responses = guarded(main)
    assert [response.status_code for response in responses] == [200, 500, 500, 500]
    assert "secret" not in "".join(response.text for response in responses)
    assert responses[-1].headers["retry-after"]


def test_a_server_that_is_closing_takes_nothing_more() -> None:
    async def main() -> tuple[int, Any]:
        engine = RunningEngine(scripted_engine())
        await engine.close(0.0)
        async with client_to(engine) as client:
            return (await client.get("/health")).status_code, await client.post(CHAT, json=chat(stream=True))

    status, refused = guarded(main)
    assert (status, refused.status_code) == (503, 503)
    assert refused.json()["error"]["code"] == "unavailable"
