"""A real model behind both dialects, and clients that nobody here wrote."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from smg_grpc_proto.generated import vllm_engine_pb2 as smg
from smg_grpc_proto.generated.vllm_engine_pb2_grpc import VllmEngineStub

from engine_adapter.embedded.local import Local, open_local
from engine_adapter.serve.grpc.inference_pb2 import DecodingParameters, GenerateRequest, StoppingCriteria
from engine_adapter.serve.grpc.inference_pb2_grpc import InferenceStub
from engine_adapter.serve.grpc.server import GrpcServer
from engine_adapter.serve.served import served_locally
from structout.parsing import json_schema
from structout.schema import reference_validator
from tests.serve.grpc.support import heard
from tests.serve.support import guarded

pytestmark = [pytest.mark.model, pytest.mark.long]

SCHEMA = """{
  "type": "object",
  "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
  "required": ["name", "age"],
  "additionalProperties": false
}"""
PROMPT = "Somebody, in JSON:"


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    opened = open_local("smollm2", max_rows=8, max_len=512)
    yield opened
    opened.close()


def test_both_dialects_give_a_real_models_answer_and_it_keeps_to_the_schema(local: Local) -> None:
    async def main() -> tuple[Any, list[Any], list[Any]]:
        served = served_locally(local)
        served.running.start()
        server = GrpcServer(served)
        port = await server.start("localhost:0")
        try:
            async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
                return await ask(channel)
        finally:
            await served.running.close(0.0)
            await server.close()

    unary, streamed, others = guarded(main)
    text = unary.outputs.text
    assert reference_validator(json_schema(SCHEMA).unwrap()).unwrap().is_valid(text)
    assert "".join(each.outputs.text for each in streamed) == text
    assert len(streamed) > 5
    [reply] = others
    assert local.vocabulary.decode(reply.complete.output_ids).decode() == text


async def ask(channel: grpc.aio.Channel) -> tuple[Any, list[Any], list[Any]]:
    """The same question in each way, greedily."""
    inference: Any = InferenceStub(channel)  # type: ignore[no-untyped-call]
    stopping = StoppingCriteria(max_new_tokens=80)
    message = GenerateRequest(text=PROMPT, decoding=DecodingParameters(json=SCHEMA), stopping=stopping)
    params = smg.SamplingParams(temperature=0.0, max_tokens=80, json_schema=SCHEMA)
    request = smg.GenerateRequest(text=PROMPT, sampling_params=params)
    unary = await inference.Generate(message)
    streamed, _ = await heard(inference.GenerateStream(message))
    others, _ = await heard(VllmEngineStub(channel).Generate(request))
    return unary, streamed, others
