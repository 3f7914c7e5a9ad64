"""A scripted model behind a real gRPC server, and stubs that call it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import grpc

from engine_adapter.embedded.engine import Engine
from engine_adapter.serve.grpc.inference_pb2_grpc import InferenceStub
from engine_adapter.serve.grpc.server import GrpcServer
from engine_adapter.serve.grpc.status import ERROR_KEY
from engine_adapter.serve.running import RunningEngine
from smg_grpc_proto.generated.vllm_engine_pb2_grpc import VllmEngineStub
from structout.errors import GrammarError
from structout.vocabulary import Vocabulary
from tests.fakes import BYTES
from tests.serve.support import running, scripted_engine


class BytePrompts:
    """A tokenizer that takes each byte for a token. A text that begins with "raise" makes it raise."""

    def of_text(self, text: str) -> tuple[int, ...]:
        if text.startswith("raise"):
            raise RuntimeError("secret internals")
        return tuple(text.encode())


@attrs.frozen
class ByteModel:
    """The model that `ScriptedRunner` plays."""

    name: str = "scripted"
    vocabulary: Vocabulary = BYTES
    prompts: BytePrompts = attrs.field(factory=BytePrompts)
    max_len: int = 64


@attrs.frozen
class Served:
    """A server that runs, and what a client has of it."""

    server: GrpcServer
    running: RunningEngine
    port: int
    channel: grpc.aio.Channel
    inference: Any
    vllm_engine: Any


@asynccontextmanager
async def served(engine: Engine | None = None) -> AsyncIterator[Served]:
    """Serves on a port of the system's choice until the block ends."""
    async with running(engine or scripted_engine()) as engine_runs:
        server = GrpcServer(ByteModel(), engine_runs)
        port = await server.start("localhost:0")
        try:
            async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
                yield Served(server, engine_runs, port, channel, InferenceStub(channel), VllmEngineStub(channel))
        finally:
            await server.close()


@attrs.frozen
class Ending:
    """How a call ended: its status, and the error in its metadata."""

    code: grpc.StatusCode
    details: str
    error: GrammarError | None


async def ending(call: Any) -> Ending:
    metadata = {key: value for key, value in await call.trailing_metadata()}
    found = metadata.get(ERROR_KEY)
    error = None if found is None else GrammarError.from_json(json.loads(found))
    return Ending(await call.code(), await call.details(), error)


async def heard(call: Any) -> tuple[list[Any], Ending]:
    """All replies of a stream, and how it ended."""
    replies = []
    try:
        async for reply in call:
            replies.append(reply)
    except grpc.aio.AioRpcError:
        pass
    return replies, await ending(call)
