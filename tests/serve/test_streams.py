"""Streams say what whole replies say, begin with the first real event, and end as they should whatever happens."""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import httpx2 as httpx
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from engine_adapter.embedded.engine import Engine
from structout import Status, Vocabulary
from structout.compile import CompileService
from structout.discovery import discover
from tests.fakes import BYTES, TrieMatcher, TriePlugin, trie_info
from tests.scripted import ScriptedRunner
from tests.serve.support import BreakingEngine, client_of, events_of, guarded, post, scripted_engine

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
FUNCTION = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"at": {"enum": ["it", "me"]}},
            "required": ["at"],
            "additionalProperties": False,
        },
    },
}
COMPACT = {"disable_any_whitespace": True}


@functools.cache
def real_service() -> CompileService:
    return CompileService(discover(), BYTES)


def json_engine() -> Engine:
    """The scripted model with the backends that are installed, and room for JSON."""
    return BreakingEngine(ScriptedRunner(max_len=300), real_service())


def both(path: str, body: dict[str, Any]) -> tuple[httpx.Response, httpx.Response]:
    """The whole reply, and the stream, of one server."""

    async def main() -> tuple[httpx.Response, httpx.Response]:
        async with client_of(json_engine()) as client:
            whole = await client.post(path, json=body)
            return whole, await client.post(path, json={**body, "stream": True})

    return guarded(main)


def merged(events: Sequence[dict[str, Any]], n: int) -> list[dict[Any, Any]]:
    """The choices of a chat's or a completion's chunks, put together as clients do."""
    choices: list[dict[Any, Any]] = [{} for _ in range(n)]
    for each in itertools.chain.from_iterable(event["choices"] for event in events):
        choice = choices[each["index"]]
        assert not choice.get("finish_reason"), "nothing follows the end of a choice"
        for name, value in each.get("delta", {"text": each.get("text")}).items():
            if name == "tool_calls":
                merge_calls(choice.setdefault("tool_calls", []), value)
            else:
                choice[name] = choice.get(name, "") + value
        for name, values in (each["logprobs"] or {}).items():
            choice["logprobs", name] = choice.get(("logprobs", name), []) + (values or [])
        choice["finish_reason"] = each["finish_reason"]
    return choices


def merge_calls(calls: list[dict[str, Any]], pieces: list[dict[str, Any]]) -> None:
    for piece in pieces:
        if piece["index"] == len(calls):
            calls.append({"name": piece["function"]["name"], "arguments": ""})
        calls[piece["index"]]["arguments"] += piece["function"]["arguments"]


def flat(choice: dict[str, Any]) -> dict[Any, Any]:
    """A choice of a whole reply, laid out as `merged` does."""
    message = choice.get("message", {"text": choice.get("text")})
    result = {name: value for name, value in message.items() if value is not None}
    if "tool_calls" in result:
        result["tool_calls"] = [call["function"] for call in result["tool_calls"]]
    logprobs = {("logprobs", name): values for name, values in (choice["logprobs"] or {}).items()}
    return {**result, **logprobs, "finish_reason": choice["finish_reason"]}


def said(choice: dict[Any, Any]) -> dict[Any, Any]:
    """What is not empty of it."""
    return {name: value for name, value in choice.items() if value}


CHATS = st.fixed_dictionaries(
    {"messages": st.just([{"role": "user", "content": "x"}])},
    optional={"logprobs": st.just(True), "structured_outputs": st.just({"choice": ["yes", "no", "éé"]})},
)
FORCED = st.fixed_dictionaries(
    {
        "messages": st.just([{"role": "user", "content": "x"}]),
        "tools": st.just([FUNCTION]),
        "tool_choice": st.sampled_from(["required", {"type": "function", "function": {"name": "look"}}]),
        "parallel_tool_calls": st.just(False),
        "structured_outputs": st.just(COMPACT),
    },
    optional={"logprobs": st.just(True)},
)
TEXTS = st.fixed_dictionaries({"prompt": st.sampled_from(["x", "yes"])}, optional={"logprobs": st.integers(0, 2)})
SETTINGS = st.fixed_dictionaries(
    {"seed": st.integers(0, 99), "n": st.integers(1, 3), "max_tokens": st.sampled_from([1, 5, 20, 90])}
)
ASKED = st.one_of(st.tuples(st.just(CHAT), CHATS | FORCED), st.tuples(st.just(COMPLETIONS), TEXTS))


@settings(max_examples=30)
@given(ASKED, SETTINGS)
def test_a_stream_put_together_is_the_whole_reply(asked: tuple[str, dict[str, Any]], fields: dict[str, Any]) -> None:
    path, body = asked
    whole, stream = both(path, {**body, **fields})
    events = events_of(stream)
    assert (whole.status_code, stream.status_code) == (200, 200)
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert len({event["id"] for event in events}) == 1
    wanted = [said(flat(choice)) for choice in whole.json()["choices"]]
    assert [said(choice) for choice in merged(events, fields["n"])] == wanted


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_role_and_first_token_share_the_first_chunk_and_usage_comes_last_if_asked_for(path: str) -> None:
    asked = {"messages": [{"role": "user", "content": "x"}]} if path == CHAT else {"prompt": "x"}
    body = {**asked, "structured_outputs": {"choice": ["yes"]}, "stream_options": {"include_usage": True}}
    whole, stream = both(path, body)
    first, *middle, last = events_of(stream)
    choice = first["choices"][0]
    assert choice.get("delta", {}).get("content", choice.get("text"))
    assert choice.get("delta", {"role": "assistant"})["role"] == "assistant"
    assert [event["usage"] for event in (first, *middle)] == [None] * (len(middle) + 1)
    assert (last["choices"], last["usage"]) == ([], whole.json()["usage"])
    assert (
        "usage" not in events_of(post(path, {**asked, "stream": True, "structured_outputs": {"choice": ["yes"]}}))[-1]
    )


# ---- failures ------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class FailingMatcher(TrieMatcher):
    """Raises when it has accepted ``fails_after`` tokens; never, if that is None."""

    fails_after: int | None = None
    accepted: int = 0

    def accept(self, token: int) -> Status:
        if self.accepted == self.fails_after:
            raise RuntimeError("secret internals")
        self.accepted += 1
        return TrieMatcher.accept(self, token)


def failing(fails_after: Sequence[int | None], *, is_stream: bool) -> httpx.Response:
    """The reply of a server whose matchers fail, to a chat with several answers."""
    messages = [{"role": "user", "content": "x"}]
    return failing_with(fails_after, CHAT, {"messages": messages, "n": len(fails_after), "stream": is_stream})


def failing_with(fails_after: Sequence[int | None], path: str, body: dict[str, Any]) -> httpx.Response:
    """The reply of a server whose matchers fail, in the order in which they are started."""
    order = iter(fails_after)

    def matcher(options: frozenset[bytes], vocabulary: Vocabulary, stops: frozenset[int]) -> TrieMatcher:
        return FailingMatcher(options, vocabulary, stops, fails_after=next(order))

    service = CompileService(discover(plugins={"trie": TriePlugin(trie_info(matcher=matcher))}, entry_points=[]), BYTES)
    body = {**body, "structured_outputs": {"choice": ["wxyz"]}}
    try:
        return post(path, body, engine=scripted_engine(service=service))
    finally:
        service.close()


FAILURES = st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=3)


def after_failing(fails_after: int | None) -> str:
    return "wxyz"[:fails_after]


@settings(max_examples=25)
@given(FAILURES)
def test_a_whole_reply_tells_each_failure_in_its_choice_and_fails_when_all_do(fails_after: list[int | None]) -> None:
    response = failing(fails_after, is_stream=False)
    assert "secret" not in response.text
    if None not in fails_after:
        assert (response.status_code, response.json()["error"]["code"]) == (500, "backend_failure")
        return
    assert response.status_code == 200
    for choice, each in zip(response.json()["choices"], fails_after, strict=True):
        assert choice["finish_reason"] == ("stop" if each is None else "error")
        assert choice["message"]["content"] == after_failing(each)
        assert ("error" in choice) is (each is not None)
        assert each is None or choice["error"]["code"] == "backend_failure"


@settings(max_examples=25)
@given(FAILURES)
def test_a_stream_that_fails_before_its_first_token_is_a_plain_error_and_later_ends_with_the_cause(
    fails_after: list[int | None],
) -> None:
    response = failing(fails_after, is_stream=True)
    assert "secret" not in response.text
    if set(fails_after) == {0}:
        assert (response.status_code, response.json()["error"]["code"]) == (500, "backend_failure")
        return
    assert response.status_code == 200
    *events, last = events_of(response)
    if None in fails_after:
        events.append(last)
    else:
        assert last["error"]["code"] == "backend_failure"
    choices = merged(events, len(fails_after))
    assert [choice.get("content", "") for choice in choices] == list(map(after_failing, fails_after))
    if len(fails_after) > 1:
        wanted = ["stop" if each is None else "error" for each in fails_after]
        assert [choice["finish_reason"] for choice in choices] == wanted


def test_a_grammar_that_is_refused_is_a_plain_error_in_a_stream_of_several_too() -> None:
    body = {"prompt": "x", "structured_outputs": {"choice": ["refuse"]}, "n": 3, "stream": True}
    response = post(COMPLETIONS, body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "unsupported")


def test_a_bug_in_the_engine_after_the_first_tokens_ends_the_stream_with_the_cause() -> None:
    engine = scripted_engine()
    engine.breaks_at = 4
    response = post(CHAT, {"messages": [{"role": "user", "content": "x"}], "stream": True, "seed": 1}, engine=engine)
    *events, last = events_of(response)
    assert response.status_code == 200
    assert events
    assert last["error"]["code"] == "engine_failure"


def test_a_bug_in_writing_a_stream_ends_it_with_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine_adapter.serve.http.chat import ChatStream

    written: Callable[[ChatStream, Any], list[dict[str, Any]]] = ChatStream.delta
    calls = itertools.count()

    def delta(self: ChatStream, delta: Any) -> list[dict[str, Any]]:
        if next(calls) == 2:
            raise RuntimeError("secret internals")
        return written(self, delta)

    monkeypatch.setattr(ChatStream, "delta", delta)
    body = {"messages": [{"role": "user", "content": "x"}], "structured_outputs": {"choice": ["wxyz"]}, "stream": True}
    *events, last = events_of(post(CHAT, body))
    assert len(events) == 2
    assert last["error"]["code"] == "engine_failure"
    assert "secret" not in str(last)
