"""Every failure reaches its caller once, with the table's status, after the tokens that were delivered; and nobody else
is harmed."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any, Final

import attrs
import grpc
import pytest
import torch
from smg_grpc_proto.generated import vllm_engine_pb2 as smg

from engine_adapter.embedded.engine import Engine
from engine_adapter.serve.grpc.calls import MAX_ID_LENGTH
from engine_adapter.serve.grpc.inference_pb2 import (
    DecodingParameters,
    FinishInfo,
    GenerateRequest,
    RandomSampling,
    StoppingCriteria,
)
from engine_adapter.serve.grpc.inference_pb2_grpc import InferenceStub
from engine_adapter.serve.running import RunningEngine
from structout import ErrorKind, GrammarError, Status
from structout.compile import CompileService
from structout.discovery import discover
from structout.errors import CONSEQUENCES, Fault
from structout.grammar import Grammar
from structout.result import Err, Result
from tests.fakes import BYTES, TrieMatcher, TriePlugin, trie_info
from tests.scripted import ScriptedRunner
from tests.serve.grpc.support import BytePrompts, Ending, Served, heard, served
from tests.serve.support import GUARD_S, FailingService, GatedRunner, NeverReady, guarded, scripted_engine

CHOICES: Final = ["yes", "no"]
METHODS: Final = ("Generate", "GenerateStream", "VllmEngine.Generate", "VllmEngine.Generate, whole")


def call(server: Served, method: str, *, request_id: str = "", choices: Sequence[str] = (), tokens: int = 12) -> Any:
    """A call of any method that generates, for the same text."""
    if method.startswith("VllmEngine"):
        params = smg.SamplingParams(max_tokens=tokens, ignore_eos=not choices, seed=1)
        if choices:
            params.choice.choices.extend(choices)
        is_streamed = not method.endswith("whole")
        message = smg.GenerateRequest(text="hi", request_id=request_id, sampling_params=params, stream=is_streamed)
        return server.vllm_engine.Generate(message)
    asked = GenerateRequest(
        text="hi", request_id=request_id, stopping=StoppingCriteria(max_new_tokens=tokens, ignore_eos=not choices)
    )
    if choices:
        asked.decoding.choice.choices.extend(choices)
    return getattr(server.inference, method)(asked)


@pytest.mark.parametrize("method", METHODS)
def test_before_the_first_token_a_failure_is_the_tables_status_and_nothing_else(method: str) -> None:
    async def main() -> None:
        for kind, faults in CONSEQUENCES.items():
            for fault in faults:
                error = GrammarError(kind=kind, fault=fault, message="why", pointer="/a", hint="try", detail="secret")
                async with served(Engine(ScriptedRunner(), FailingService(error))) as server:
                    replies, end = await heard(call(server, method, choices=CHOICES))
                    await server.is_idle()
                assert replies == []
                assert end.code.name == CONSEQUENCES[kind][fault].grpc_code
                field = "sampling_params" if method.startswith("VllmEngine") else "decoding"
                assert end.details == f"why (at /{field}/choice/choices/a); try"
                assert end.error == attrs.evolve(error, pointer=f"/{field}/choice/choices/a", detail=None)

    guarded(main)


@pytest.mark.parametrize("method", METHODS)
def test_a_call_is_counted_as_it_ended_also_where_it_never_came_to_the_engine(method: str) -> None:
    async def main() -> None:
        async with served() as server:
            await heard(call(server, method, request_id="refused", choices=[""]))
            await heard(call(server, method, request_id="failed", choices=["raise"]))
            await heard(call(server, method, choices=CHOICES))
            ends = server.model.running.ends
            assert ends.counts() == {"finished": 1, "aborted": 0, "failed": 2}
            assert [each.request_id for each in ends.failures()] == ["failed", "refused"]
            assert ends.failures()[1].error.pointer

    guarded(main)


@pytest.mark.parametrize("method", METHODS)
def test_what_a_backend_finds_wrong_is_found_in_the_message(method: str) -> None:
    """The place in a schema, or the field of the constraint as a whole; nothing where it is not the client's fault."""
    schema = '{"properties": {"a": {"pattern": "("}}}'

    async def main() -> None:
        for fault, pointer, found in (
            (Fault.CALLER, "/properties/a/pattern", "/properties/a/pattern"),
            (Fault.CALLER, None, ""),
            (Fault.SERVICE, None, None),
        ):
            error = GrammarError(kind=ErrorKind.TIMED_OUT, fault=fault, message="why", pointer=pointer)
            async with served(Engine(ScriptedRunner(), FailingService(error))) as server:
                if method.startswith("VllmEngine"):
                    place, message = "/sampling_params/json_schema", smg.SamplingParams(json_schema=schema)
                    calling = server.vllm_engine.Generate(smg.GenerateRequest(text="hi", sampling_params=message))
                else:
                    place, asked = (
                        "/decoding/json",
                        GenerateRequest(text="hi", decoding=DecodingParameters(json=schema)),
                    )
                    calling = getattr(server.inference, method)(asked)
                _, end = await heard(calling)
            assert end.error is not None
            assert end.error.pointer == (None if found is None else place + found)

    guarded(main)


def test_a_full_engine_says_so_in_every_method_and_serves_again_later() -> None:
    runner = GatedRunner()
    engine = scripted_engine(runner)
    full = RunningEngine(engine, max_requests=1)
    full.start()

    async def main() -> None:
        async with served(running=full) as server:
            first = call(server, "GenerateStream")
            await anext(aiter(first))
            for method in METHODS:
                replies, end = await heard(call(server, method))
                assert replies == []
                assert end.code is grpc.StatusCode.RESOURCE_EXHAUSTED
            runner.gate.set()
            assert (await heard(first))[1].code is grpc.StatusCode.OK
            assert (await heard(call(server, "Generate")))[1].code is grpc.StatusCode.OK
            await full.close(0.0)

    guarded(main)
    engine.close()


class FlakyRunner(ScriptedRunner):
    """A model whose forward pass fails once, when a row has ``fails_at`` tokens."""

    fails_at: int | None = None

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        if any(self.length(row) == self.fails_at for row in range(len(tokens))):
            self.fails_at = None
            raise RuntimeError("secret internals")
        return super().decode(tokens)


@pytest.mark.parametrize("method", METHODS)
def test_after_tokens_a_failure_is_the_status_behind_them_and_the_next_call_is_served(method: str) -> None:
    runner = FlakyRunner()

    async def main() -> None:
        async with served(scripted_engine(runner)) as server:
            runner.fails_at = 5  # two of the prompt, and three that were generated and computed
            replies, end = await heard(call(server, method))
            after, good = await heard(call(server, method))
            await server.is_idle()
        assert len(replies) == (4 if method in ("GenerateStream", "VllmEngine.Generate") else 0)
        assert end.code is grpc.StatusCode.INTERNAL
        assert end.error is not None
        assert end.error.kind is ErrorKind.ENGINE_FAILURE
        assert "secret" not in end.details + str(end.error)
        assert (bool(after), good.code) == (True, grpc.StatusCode.OK)

    guarded(main)


class PickyMatcher(TrieMatcher):
    """Takes back what it allowed: a text that begins with "bad" is refused at its third letter."""

    def accept(self, token: int) -> Status:
        if self.text == b"ba" and token == ord("d"):
            return Status.REJECTED
        return super().accept(token)


def picky_service() -> CompileService:
    plugin = TriePlugin(trie_info(matcher=PickyMatcher))
    return CompileService(discover(plugins={"trie": plugin}, entry_points=[]), BYTES)


PICKY: Final = ["bad", "baa"]
"""Of four samples with the seeds 0 to 3 some fail; found by looking."""


def test_of_several_samples_one_that_fails_leaves_the_others_and_the_status_says_it() -> None:
    async def main() -> tuple[list[Any], Ending]:
        message = GenerateRequest(
            text="x", temperature=1.0, sampling=RandomSampling(num_sequences=4, seed=0), request_id="a"
        )
        message.decoding.choice.choices.extend(PICKY)
        async with served(scripted_engine(service=picky_service())) as server:
            heard_ = await heard(server.inference.GenerateStream(message))
            await server.is_idle()
        return heard_

    replies, end = guarded(main)
    finished = [each.outputs for each in replies if each.outputs.HasField("finish_info")]
    assert 1 <= len(finished) <= 3
    assert {each.finish_info.finish_reason for each in finished} == {FinishInfo.STOP}
    assert end.code is grpc.StatusCode.INTERNAL
    assert end.error is not None
    assert end.error.kind is ErrorKind.REJECTED_TOKEN


@pytest.mark.parametrize("is_streamed", [True, False])
def test_in_the_second_dialect_the_sample_says_it_and_the_cause_is_in_the_metadata(is_streamed: bool) -> None:
    async def main() -> tuple[list[Any], Ending]:
        params = smg.SamplingParams(n=4, seed=0, choice=smg.ChoiceConstraint(choices=PICKY))
        message = smg.GenerateRequest(text="x", sampling_params=params, stream=is_streamed)
        async with served(scripted_engine(service=picky_service())) as server:
            return await heard(server.vllm_engine.Generate(message))

    replies, end = guarded(main)
    reasons = [each.complete.finish_reason for each in replies if each.HasField("complete")]
    assert sorted(set(reasons)) == ["error", "stop"]
    assert sorted(each.complete.index for each in replies if each.HasField("complete")) == [0, 1, 2, 3]
    assert any(each.HasField("chunk") for each in replies) == is_streamed
    assert end.code is grpc.StatusCode.OK
    assert end.error is not None
    assert end.error.kind is ErrorKind.REJECTED_TOKEN


@pytest.mark.parametrize("n", [1, 3])
def test_if_all_samples_fail_the_call_does_and_sends_nothing(n: int) -> None:
    async def main() -> None:
        async with served() as server:
            message = GenerateRequest(text="x", sampling=RandomSampling(num_sequences=n))
            message.decoding.choice.choices.append("refuse")
            params = smg.SamplingParams(n=n, choice=smg.ChoiceConstraint(choices=["refuse"]))
            other = smg.GenerateRequest(text="x", sampling_params=params, stream=True)
            calls = (server.inference.GenerateStream(message), server.vllm_engine.Generate(other))
            for replies, end in [await heard(each) for each in calls]:
                assert replies == []
                assert end.code is grpc.StatusCode.INVALID_ARGUMENT
                assert "refused" in end.details

    guarded(main)


def test_a_bug_of_the_server_is_internal_and_tells_nothing() -> None:
    async def main() -> Ending:
        # Nobody serves a model without a vocabulary.
        async with served(vocabulary=None) as server:
            _, end = await heard(server.vllm_engine.Generate(smg.GenerateRequest(text="hi")))
            await server.is_idle()
        return end

    end = guarded(main)
    assert end.code is grpc.StatusCode.INTERNAL
    assert end.error is not None
    assert "secret" not in end.details + str(end.error)


@pytest.mark.parametrize("method", METHODS)
def test_a_client_that_cancels_aborts_its_request(method: str) -> None:
    runner = GatedRunner()

    async def main() -> None:
        async with served(scripted_engine(runner)) as server:
            under_way = call(server, method, tokens=60)
            while not server.engine.unfinished:
                await asyncio.sleep(0.01)
            under_way.cancel()
            _, end = await heard(under_way)
            runner.gate.set()
            await server.is_idle()
            replies, later = await heard(call(server, method))
        assert end.code is grpc.StatusCode.CANCELLED
        assert (bool(replies), later.code) == (True, grpc.StatusCode.OK)

    guarded(main)


def test_a_deadline_that_passes_aborts_the_request() -> None:
    runner = GatedRunner()

    async def main() -> Ending:
        async with served(scripted_engine(runner)) as server:
            stopping = StoppingCriteria(max_new_tokens=60, ignore_eos=True)
            message = GenerateRequest(text="hi", stopping=stopping)
            _, end = await heard(server.inference.GenerateStream(message, timeout=0.5))
            runner.gate.set()
            await server.is_idle()
        return end

    assert guarded(main).code is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_call_that_waits_for_its_grammar_ends_with_its_client_too() -> None:
    service = NeverReady()

    async def main() -> Result[Grammar, GrammarError] | None:
        async with served(Engine(ScriptedRunner(), service)) as server:
            under_way = call(server, "GenerateStream", choices=CHOICES)
            pending = await service.submitted.get()
            under_way.cancel()
            await heard(under_way)
            await server.is_idle()
        return pending.result()

    result = guarded(main)
    assert isinstance(result, Err)
    assert result.error.kind is ErrorKind.CANCELLED, "nobody else waits for it"


def test_a_client_that_is_gone_aborts_its_request() -> None:
    runner = GatedRunner()

    async def main() -> None:
        async with served(scripted_engine(runner)) as server:
            async with grpc.aio.insecure_channel(f"localhost:{server.port}") as channel:
                stopping = StoppingCriteria(max_new_tokens=60, ignore_eos=True)
                stub: Any = InferenceStub(channel)  # type: ignore[no-untyped-call]
                await anext(aiter(stub.GenerateStream(GenerateRequest(text="hi", stopping=stopping))))
            runner.gate.set()
            await server.is_idle()

    guarded(main)


@pytest.mark.parametrize(("method", "n"), [("GenerateStream", 1), ("GenerateStream", 3), ("VllmEngine.Generate", 1)])
def test_abort_ends_a_request_as_aborted(method: str, n: int) -> None:
    runner = GatedRunner()

    async def main() -> list[Any]:
        async with served(scripted_engine(runner)) as server:
            under_way = aborted_call(server, method, n)
            seen = [await anext(aiter(under_way))]
            await server.vllm_engine.Abort(smg.AbortRequest(request_ids=["nobody", "a"]))
            runner.gate.set()
            replies, end = await heard(under_way)
            await server.is_idle()
        assert end == Ending(grpc.StatusCode.OK, "", None)
        return seen + replies

    replies = guarded(main)
    if method == "GenerateStream":
        ends = [each.outputs for each in replies if each.outputs.HasField("finish_info")]
        assert {each.finish_info.finish_reason for each in ends} == {FinishInfo.ABORTED}
        assert sorted(each.index for each in ends) == list(range(n))
    else:
        *chunks, last = replies
        assert last.complete.finish_reason == "abort"
        assert list(last.complete.output_ids) == [token for each in chunks for token in each.chunk.token_ids]


def aborted_call(server: Served, method: str, n: int) -> Any:
    if method == "VllmEngine.Generate":
        return call(server, method, request_id="a", tokens=60)
    stopping = StoppingCriteria(max_new_tokens=60, ignore_eos=True)
    sampling = RandomSampling(num_sequences=n)
    message = GenerateRequest(text="hi", request_id="a", stopping=stopping, sampling=sampling)
    return server.inference.GenerateStream(message)


class SlowPrompts(BytePrompts):
    """A tokenizer that waits for ``gate``."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.gate = threading.Event()

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        self.begun.set()
        assert self.gate.wait(GUARD_S)
        return super().of_text(text)


@pytest.mark.parametrize("n", [1, 3])
def test_abort_of_a_request_that_is_still_read_ends_it_before_the_engine_has_it(n: int) -> None:
    prompts = SlowPrompts()

    async def main() -> list[Any]:
        async with served(prompts=prompts) as server:
            under_way = aborted_call(server, "GenerateStream", n)
            await asyncio.to_thread(prompts.begun.wait, GUARD_S)
            await server.vllm_engine.Abort(smg.AbortRequest(request_ids=["a"]))
            prompts.gate.set()
            replies, end = await heard(under_way)
            assert end.code is grpc.StatusCode.OK
        return replies

    replies = guarded(main)
    assert [each.outputs.finish_info.finish_reason for each in replies] == [FinishInfo.ABORTED] * n
    assert [each.outputs.num_tokens for each in replies] == [0] * n


def test_while_the_engine_is_closed_calls_end_with_that_cause() -> None:
    runner = GatedRunner()

    async def main() -> None:
        async with served(scripted_engine(runner)) as server:
            under_way = call(server, "GenerateStream", tokens=60)
            await anext(aiter(under_way))
            closing = asyncio.ensure_future(server.model.running.close(0.0))
            replies, end = await heard(under_way)
            _, refused = await heard(call(server, "Generate"))
            runner.gate.set()
            await closing
        for each in (end, refused):
            assert each.code is grpc.StatusCode.UNAVAILABLE
            assert each.error is not None
            assert (each.error.kind, each.error.fault) == (ErrorKind.UNAVAILABLE, Fault.SERVICE)
        assert not any(each.outputs.HasField("finish_info") for each in replies)

    guarded(main)


def test_an_engine_that_breaks_fails_every_call_and_the_later_ones() -> None:
    engine = scripted_engine()
    engine.breaks_at = 3

    async def main() -> None:
        async with served(engine) as server:
            calls = [call(server, method) for method in METHODS]
            ends = [end for _, end in await asyncio.gather(*map(heard, calls))]
            ends.append((await heard(call(server, "Generate")))[1])
        assert {end.code for end in ends} == {grpc.StatusCode.INTERNAL}
        assert not any("secret" in end.details + str(end.error) for end in ends)

    guarded(main)


@pytest.mark.parametrize("method", METHODS)
def test_an_id_may_not_be_a_burden(method: str) -> None:
    async def main() -> None:
        async with served() as server:
            assert (await heard(call(server, method, request_id="x" * MAX_ID_LENGTH)))[1].code is grpc.StatusCode.OK
            replies, end = await heard(call(server, method, request_id="x" * (MAX_ID_LENGTH + 1)))
            assert replies == []
            assert end.code is grpc.StatusCode.INVALID_ARGUMENT
            assert end.error is not None
            assert end.error.pointer == "/request_id"

    guarded(main)


@pytest.mark.parametrize("n", [1, 3])
def test_a_call_that_is_refused_counts_once_however_many_answers_were_wanted(n: int) -> None:
    async def main() -> None:
        async with served() as server:
            sampling = RandomSampling(num_sequences=n)
            replies, end = await heard(
                server.inference.GenerateStream(GenerateRequest(text="x" * 65, sampling=sampling))
            )
            assert replies == []
            assert end.error is not None
            assert (end.error.kind, end.error.pointer) == (ErrorKind.INVALID_SPEC, "/text")
            assert server.model.running.ends.counts()["failed"] == 1

    guarded(main)
