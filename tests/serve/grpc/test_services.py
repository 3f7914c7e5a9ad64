"""What is around generating: the second dialect's replies and information, health, reflection, the port."""

import asyncio
import itertools
from random import Random
from typing import Any

import grpc
import httpx2 as httpx
import hypothesis.strategies as st
import pytest
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from hypothesis import given, settings
from prometheus_client import CollectorRegistry
from smg_grpc_proto.generated import vllm_engine_pb2 as smg

from engine_adapter.serve.grpc.inference_pb2 import GenerateRequest, RandomSampling, StoppingCriteria
from engine_adapter.serve.grpc.server import GrpcServer
from engine_adapter.serve.grpc.services import VLLM_ENGINE
from engine_adapter.serve.http.server import HttpServer, bound_socket
from tests.fakes import BYTES, EOS
from tests.serve.grpc.support import Ending, Served, heard, served
from tests.serve.support import GatedRunner, guarded, scripted_engine

SERVED = {"Generate", "Abort", "HealthCheck", "GetModelInfo"}


def generate(**fields: Any) -> tuple[list[Any], Ending]:
    async def main() -> tuple[list[Any], Ending]:
        async with served() as server:
            return await heard(server.vllm_engine.Generate(smg.GenerateRequest(text="hi", **fields)))

    return guarded(main)


def seeded(**fields: Any) -> Any:
    return smg.SamplingParams(seed=7, max_tokens=8, ignore_eos=True, logprobs=2, **fields)


def test_a_stream_has_chunks_and_then_all_tokens() -> None:
    replies, end = generate(sampling_params=seeded(), stream=True)
    assert end.code is grpc.StatusCode.OK
    chunks, [last] = [each.chunk for each in replies[:-1]], replies[-1:]
    assert all(each.HasField("chunk") for each in replies[:-1])
    assert [each.completion_tokens for each in chunks] == list(range(1, 9))
    complete = last.complete
    assert list(complete.output_ids) == [token for each in chunks for token in each.token_ids]
    assert (complete.finish_reason, complete.prompt_tokens, complete.completion_tokens) == ("length", 2, 8)
    assert list(complete.output_logprobs.token_ids) == list(complete.output_ids)
    streamed = [logprob for each in chunks for logprob in each.output_logprobs.token_logprobs]
    assert list(complete.output_logprobs.token_logprobs) == streamed
    assert [len(top.token_ids) for top in complete.output_logprobs.top_logprobs] == [2] * 8


def test_without_a_stream_there_is_one_reply_for_each_sample() -> None:
    [whole], _ = generate(sampling_params=seeded())
    *_, streamed = generate(sampling_params=seeded(), stream=True)[0]
    assert whole == streamed
    several, _ = generate(sampling_params=seeded(n=3))
    assert sorted(each.complete.index for each in several) == [0, 1, 2]
    assert next(each for each in several if each.complete.index == 0) == whole


def test_what_ended_the_text_is_named() -> None:
    choice = smg.ChoiceConstraint(choices=["yes", "no"])
    [reply], _ = generate(sampling_params=smg.SamplingParams(choice=choice))
    assert bytes(reply.complete.output_ids) in (b"yes", b"no")
    assert (reply.complete.finish_reason, reply.complete.matched_token_id) == ("stop", EOS)
    [free], _ = generate(sampling_params=seeded())
    letter = next(chr(token) for token in free.complete.output_ids if token < 128)
    [cut], _ = generate(sampling_params=seeded(stop=[letter]))
    assert (cut.complete.finish_reason, cut.complete.matched_stop_str) == ("stop", letter)


def test_the_model_is_described() -> None:
    async def main() -> Any:
        async with served() as server:
            return await server.vllm_engine.GetModelInfo(smg.GetModelInfoRequest())

    info = guarded(main)
    assert (info.model_path, info.served_model_name, info.is_generation) == ("scripted", "scripted", True)
    assert (info.max_context_length, info.vocab_size) == (64, BYTES.size)
    assert list(info.eos_token_ids) == [EOS]


@pytest.mark.parametrize("name", sorted({method.name for method in VLLM_ENGINE.methods} - SERVED))
def test_every_other_method_says_that_it_is_not_served(name: str) -> None:
    async def main() -> Ending:
        async with served() as server:
            request = GetMessageClass(VLLM_ENGINE.methods_by_name[name].input_type)
            return (await heard(getattr(server.vllm_engine, name)(request())))[1]

    assert guarded(main) == Ending(grpc.StatusCode.UNIMPLEMENTED, f"{name} is not served here", None)


def health(server: Served) -> Any:
    return health_pb2_grpc.HealthStub(server.channel)


@pytest.mark.parametrize("service", ["", "vllm.Inference", "vllm.grpc.engine.VllmEngine"])
def test_health_follows_the_engine(service: str) -> None:
    engine = scripted_engine()
    engine.breaks_at = 2
    status = health_pb2.HealthCheckResponse

    async def main() -> None:
        async with served(engine) as server:
            watch = aiter(health(server).Watch(health_pb2.HealthCheckRequest(service=service)))
            assert (await anext(watch)).status == status.SERVING
            assert (await server.vllm_engine.HealthCheck(smg.HealthCheckRequest())).healthy
            await heard(server.inference.Generate(GenerateRequest(text="hi")))
            assert (await anext(watch)).status == status.NOT_SERVING
            checked = await health(server).Check(health_pb2.HealthCheckRequest(service=service))
            assert checked.status == status.NOT_SERVING
            reply = await server.vllm_engine.HealthCheck(smg.HealthCheckRequest())
            assert not reply.healthy
            assert reply.message
            assert "secret" not in reply.message

    guarded(main)


def test_the_newer_reflection_says_that_it_is_not_there_so_that_clients_ask_for_the_older() -> None:
    async def main() -> grpc.StatusCode:
        async with served() as server:
            method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
            call = server.channel.stream_stream(method, bytes, bytes)(iter([b""]))
            return await call.code()

    assert guarded(main) is grpc.StatusCode.UNIMPLEMENTED


def test_reflection_lists_what_is_served_and_describes_it() -> None:
    async def main() -> list[Any]:
        async with served() as server:
            stub = reflection_pb2_grpc.ServerReflectionStub(server.channel)
            requests = [
                reflection_pb2.ServerReflectionRequest(list_services=""),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol="vllm.Inference"),
                reflection_pb2.ServerReflectionRequest(file_containing_symbol="vllm.grpc.engine.VllmEngine"),
            ]
            return [reply async for reply in stub.ServerReflectionInfo(iter(requests))]

    services, *files = guarded(main)
    assert {each.name for each in services.list_services_response.service} == {
        "vllm.Inference",
        "vllm.grpc.engine.VllmEngine",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert all(each.file_descriptor_response.file_descriptor_proto for each in files)


def test_a_port_that_is_taken_is_an_error() -> None:
    async def main() -> None:
        async with served() as server:
            other = GrpcServer(server.model)
            with pytest.raises(OSError, match="cannot be served on"):
                await other.start(f"localhost:{server.port}")
            await other.close()

    guarded(main)


def test_http_and_grpc_are_two_doors_of_one_engine() -> None:
    runner = GatedRunner()

    async def main() -> None:
        async with served(scripted_engine(runner)) as server:
            bound = bound_socket("127.0.0.1", 0)
            listens = asyncio.Event()
            http = HttpServer(server.model, grace_s=0.0, metrics=CollectorRegistry(), announce=listens.set)
            serving = asyncio.ensure_future(http.serve(sockets=[bound]))
            await listens.wait()
            stream = server.inference.GenerateStream(GenerateRequest(text="hi"))
            await anext(aiter(stream))
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{bound.getsockname()[1]}") as client:
                assert (await client.get("/health")).status_code == 200
            http.should_exit = True  # what a signal does
            _, end = await heard(stream)
            runner.gate.set()
            await serving
        assert end.code is grpc.StatusCode.UNAVAILABLE
        assert "shutting down" in end.details

    guarded(main)


@settings(max_examples=10)
@given(random=st.randoms(use_true_random=False))
def test_whatever_clients_do_every_call_ends_once_and_nothing_is_left(random: Random) -> None:
    numbers = itertools.count()

    async def one(server: Served) -> grpc.StatusCode:
        request_id = f"r{next(numbers)}"
        message = GenerateRequest(
            text="hi",
            request_id=request_id,
            temperature=1.0,
            sampling=RandomSampling(num_sequences=random.choice((1, 1, 3)), seed=random.randrange(99)),
            stopping=StoppingCriteria(max_new_tokens=random.randrange(1, 20)),
        )
        if random.random() < 0.4:
            message.decoding.choice.choices.append(random.choice(("yes", "refuse", "raise")))
        stream = server.inference.GenerateStream(message)
        ends: list[int] = []
        patience = random.randrange(12)
        what = random.choice(("wait", "wait", "cancel", "abort"))
        try:
            async for reply in stream:
                if reply.outputs.HasField("finish_info"):
                    ends.append(reply.outputs.index)
                patience -= 1
                if patience < 0 and what == "cancel":
                    stream.cancel()
                if patience < 0 and what == "abort":
                    await server.vllm_engine.Abort(smg.AbortRequest(request_ids=[request_id]))
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            pass
        assert len(set(ends)) == len(ends), "a sequence ended twice"
        code: grpc.StatusCode = await stream.code()
        assert code is not grpc.StatusCode.OK or len(ends) == max(1, message.sampling.num_sequences)
        return code

    async def main() -> list[grpc.StatusCode]:
        async with served() as server:
            codes = await asyncio.gather(*(one(server) for _ in range(20)))
            await server.is_idle()
            _, end = await heard(server.inference.Generate(GenerateRequest(text="hi")))
            assert end.code is grpc.StatusCode.OK
        return codes

    allowed = {"OK", "CANCELLED", "INVALID_ARGUMENT", "INTERNAL"}
    assert {code.name for code in guarded(main)} <= allowed


@pytest.mark.parametrize("method", ["Generate", "GenerateStream"])
def test_what_is_no_message_is_the_callers_mistake(method: str) -> None:
    async def main() -> None:
        async with served() as server:
            path = f"/vllm.Inference/{method}"
            make = server.channel.unary_unary if method == "Generate" else server.channel.unary_stream
            replies, end = await heard(make(path, bytes, bytes)(b"\xff\xff"))
            assert replies == []
            assert (end.code, end.details) == (grpc.StatusCode.INVALID_ARGUMENT, "this is no vllm.GenerateRequest")

    guarded(main)
