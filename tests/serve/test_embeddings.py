"""``/v1/embeddings``: what it says, what it refuses, and that it runs in a lane beside what generates."""

import asyncio
import base64
import json
import math
import threading
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from engine_adapter.embedded.request import Request
from engine_adapter.replies import check_reply
from engine_adapter.serve.embedding import AT_ONCE, MAX_CALLS, OVERLOADED, Embedder, Failure
from engine_adapter.serve.http.embeddings import MAX_INPUTS, MAX_TOKENS, read_embeddings
from engine_adapter.serve.running import SHUTTING_DOWN, RunningEngine
from structout import Err, ErrorKind, Ok
from structout.parsing.fields import KNOWN_FIELDS
from tests.scripted import ScriptedRunner, states_after
from tests.serve.support import GUARD_S, client_of, guarded, post, running, scripted_engine, served_by
from tests.serve.test_disconnects import LeavingClient

PATH = "/v1/embeddings"


def vector_of(text: str) -> list[float]:
    """By the definition."""
    tokens = text.encode()
    mean = torch.stack([states_after(tokens[:end]) for end in range(1, len(tokens) + 1)]).double().mean(dim=0)
    return [float(each) for each in mean / mean.norm()]


def vectors_in(reply: dict[str, Any]) -> list[list[float]]:
    assert [each["index"] for each in reply["data"]] == list(range(len(reply["data"])))
    assert {each["object"] for each in reply["data"]} == {"embedding"}
    return [each["embedding"] for each in reply["data"]]


@settings(max_examples=20)
@given(st.lists(st.text(st.sampled_from("abé"), min_size=1, max_size=12), min_size=1, max_size=11), st.booleans())
def test_each_input_gets_its_vector_in_order(texts: list[str], are_tokens: bool) -> None:
    inputs = [list(text.encode()) for text in texts] if are_tokens else texts
    response = post(PATH, {"input": inputs, "user": "me"})
    reply = response.json()
    assert (response.status_code, reply["object"], reply["model"]) == (200, "list", "scripted")
    assert vectors_in(reply) == [pytest.approx(vector_of(text), abs=1e-6) for text in texts]
    tokens = sum(len(text.encode()) for text in texts)
    assert reply["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    assert check_reply(reply) is None


def test_one_input_needs_no_list_and_a_vector_may_be_base64() -> None:
    for one in ("abc", list(b"abc")):
        numbers = post(PATH, {"input": one, "encoding_format": "float"}).json()
        packed = post(PATH, {"input": one, "encoding_format": "base64"}).json()
        [vector], [coded] = vectors_in(numbers), vectors_in(packed)
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-6)
        assert np.frombuffer(base64.b64decode(str(coded)), "<f4").tolist() == vector
        assert check_reply(packed) is None


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, "/input"),
    ({"input": 5}, "/input"),
    ({"input": []}, "/input"),
    ({"input": ""}, "/input"),
    ({"input": ["a", 5]}, "/input/1"),
    ({"input": ["a", ""]}, "/input/1"),
    ({"input": [[1], []]}, "/input/1"),
    ({"input": [[1], ["a"]]}, "/input/1"),
    ({"input": [1, "a"]}, "/input/0"),
    ({"input": [10**6]}, "/input"),
    ({"input": ["a", "long" * 40]}, "/input/1"),
    ({"input": ["a"] * (MAX_INPUTS + 1)}, "/input"),
    ({"input": "a", "model": "another"}, "/model"),
    ({"input": "a", "encoding_format": "int8"}, "/encoding_format"),
    ({"input": "a", "dimensions": 3}, "/dimensions"),
    ({"input": "a", "stream": True}, "/stream"),
    ({"input": "a", "encoding_fromat": "base64"}, "/encoding_fromat"),
    *(({"input": "a", name: "something"}, f"/{name}") for name in KNOWN_FIELDS),
]


def test_all_inputs_together_have_a_bounded_number_of_tokens() -> None:
    served = served_by(RunningEngine(scripted_engine()), max_len=200)
    most = [[1] * 200] * (MAX_TOKENS // 200)
    assert isinstance(read_embeddings({"input": most}, served, "id"), Ok)
    refused = read_embeddings({"input": [*most, [1]]}, served, "id")
    assert isinstance(refused, Err)
    assert (refused.error.kind, refused.error.pointer) == (ErrorKind.TOO_COMPLEX, "/input")


@pytest.mark.parametrize(("body", "pointer"), REFUSED, ids=lambda value: str(value)[:50])
def test_what_is_wrong_is_refused_with_its_place(body: dict[str, Any], pointer: str) -> None:
    response = post(PATH, body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, pointer)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_reading_never_raises_whatever_the_input_is(value: Any, encoding: Any) -> None:
    served = served_by(RunningEngine(scripted_engine()))
    match read_embeddings({"input": value, "encoding_format": encoding}, served, "id"):
        case Ok(asked):
            assert asked.requests
        case Err(error):
            assert error.consequence.http_status == 400
            assert (error.pointer or "").startswith(("/input", "/encoding_format"))


# ---- failures ------------------------------------------------------------------------------------------------------


def test_a_model_that_fails_on_one_input_fails_the_request_and_no_other() -> None:
    runner = ScriptedRunner()
    runner.fail_on = ord("!")

    async def main() -> tuple[Any, Any]:
        async with client_of(scripted_engine(runner)) as client:
            failed = await client.post(PATH, json={"input": ["a", "!", "b"]})
            return failed, await client.post(PATH, json={"input": ["a", "b"]})

    failed, served = guarded(main)
    error = failed.json()["error"]
    assert (failed.status_code, error["code"], error["param"]) == (500, "engine_failure", "/input/1")
    assert "model failed" not in failed.text
    assert served.status_code == 200


class NotNumbers(ScriptedRunner):
    """Embeds everything as what is no number."""

    def prefill_pooled(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        return super().prefill_pooled(row, tokens, start) * torch.nan


def test_a_vector_that_is_no_numbers_is_an_unusable_response() -> None:
    response = post(PATH, {"input": "a"}, engine=scripted_engine(NotNumbers()))
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (500, "unusable_response", "/input")
    assert error["message"].startswith("[UNUSABLE_BACKEND_RESPONSE] empty response payload")
    assert response.headers["retry-after"]


def test_a_bug_in_the_engine_is_the_reply() -> None:
    engine = scripted_engine()
    engine.breaks_at = 0
    response = post(PATH, {"input": ["a", "b"]}, engine=engine)
    assert (response.status_code, response.json()["error"]["code"]) == (500, "engine_failure")


# ---- the lane ------------------------------------------------------------------------------------------------------


class GatedPrompts(ScriptedRunner):
    """Pools no prompt until ``gate`` is set; ``begun`` once it is at one."""

    def __init__(self) -> None:
        super().__init__(max_rows=8)
        self.gate, self.begun = threading.Event(), threading.Event()
        self.pooled = 0

    def prefill_pooled(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        self.begun.set()
        assert self.gate.wait(GUARD_S)
        self.pooled += 1
        return super().prefill_pooled(row, tokens, start)


def requests(name: str, count: int) -> list[Request]:
    return [Request(id=f"{name}-{index}", prompt=(1, 2, index % 99), embed=True) for index in range(count)]


def test_a_few_prompts_are_in_the_engine_at_once_and_callers_take_turns() -> None:
    runner = GatedPrompts()
    engine = scripted_engine(runner)

    async def main() -> list[str]:
        ended: list[str] = []
        async with running(engine) as engine_runs:
            embedder = Embedder(engine_runs)

            async def call(name: str, count: int) -> None:
                assert isinstance(await embedder.embed(requests(name, count)), Ok)
                ended.append(name)

            long = asyncio.create_task(call("long", 60))
            assert await asyncio.to_thread(runner.begun.wait, GUARD_S)
            short = asyncio.create_task(call("short", 2))
            await asyncio.sleep(0)
            assert engine.unfinished == AT_ONCE
            runner.gate.set()
            await asyncio.gather(long, short)
        return ended

    assert guarded(main) == ["short", "long"]


def test_too_many_callers_are_refused() -> None:
    runner = GatedPrompts()

    async def main() -> list[Any]:
        async with running(scripted_engine(runner)) as engine_runs:
            embedder = Embedder(engine_runs)
            calls = [asyncio.create_task(embedder.embed(requests(f"{n}", 1))) for n in range(MAX_CALLS)]
            await asyncio.sleep(0)
            refused = await embedder.embed(requests("more", 1))
            runner.gate.set()
            return [refused, *await asyncio.gather(*calls), await embedder.embed(requests("later", 1))]

    refused, *others = guarded(main)
    assert refused == Err(Failure(OVERLOADED))
    assert OVERLOADED.consequence.http_status == 503
    assert all(isinstance(each, Ok) for each in others)


def test_the_failure_of_one_begins_no_other() -> None:
    runner = ScriptedRunner()
    runner.fail_on = 0

    async def main() -> Any:
        async with running(scripted_engine(runner)) as engine_runs:
            return await Embedder(engine_runs).embed(requests("it", 1000))

    match guarded(main):
        case Err(Failure(error, index)):
            assert (error.kind, index) == (ErrorKind.ENGINE_FAILURE, 0)
        case other:
            raise AssertionError(other)
    assert runner.prefilled < 3 * 1000


def test_a_server_that_closes_says_so() -> None:
    async def main() -> Any:
        engine_runs = RunningEngine(scripted_engine())
        await engine_runs.close(0.0)
        return await Embedder(engine_runs).embed(requests("it", 3))

    assert guarded(main) == Err(Failure(SHUTTING_DOWN, 0))


def test_a_client_that_leaves_aborts_what_runs_for_it() -> None:
    runner = GatedPrompts()
    engine = scripted_engine(runner)

    async def main() -> int:
        async with running(engine) as engine_runs:
            client = LeavingClient({"input": ["ab"] * 50}, PATH)
            asking = client.ask(engine_runs)
            assert await asyncio.to_thread(runner.begun.wait, GUARD_S)
            client.leave()
            await asking
            runner.gate.set()
            await engine_runs.close(GUARD_S / 2)
            return client.sent.qsize()

    assert guarded(main) == 0, "nothing is said to nobody"
    assert engine.unfinished == 0
    assert runner.pooled <= AT_ONCE


def test_who_generates_is_answered_beside_a_long_list() -> None:
    async def main() -> tuple[Any, Any, bool]:
        async with client_of(scripted_engine()) as client:
            embedding = asyncio.create_task(client.post(PATH, json={"input": ["abcdefgh"] * 400}))
            text = await client.post("/v1/completions", json={"prompt": "x", "max_tokens": 2})
            was_beside = not embedding.done()
            return await embedding, text, was_beside

    embedding, text, was_beside = guarded(main)
    assert (embedding.status_code, text.status_code, was_beside) == (200, 200, True)
    assert len(vectors_in(json.loads(embedding.text))) == 400
