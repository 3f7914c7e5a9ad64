"""A scripted model behind a real gRPC server, and stubs that call it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import grpc
from smg_grpc_proto.generated.vllm_engine_pb2_grpc import VllmEngineStub

from engine_adapter.embedded.engine import Engine
from engine_adapter.serve.grpc.inference_pb2_grpc import InferenceStub
from engine_adapter.serve.grpc.server import GrpcServer
from engine_adapter.serve.grpc.status import ERROR_KEY
from engine_adapter.serve.served import ServedModel
from structout.errors import GrammarError
from structout.result import Result
from structout.vocabulary import Vocabulary
from tests.fakes import BYTES
from tests.serve.support import ByteTokenizer, running, scripted_engine, served_by


class BytePrompts(ByteTokenizer):
    """Raises at a text that begins with "raise"."""

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        if text.startswith("raise"):
            raise RuntimeError("secret internals")
        return super().of_text(text)


@attrs.frozen
class ByteModel:
    """What a request's reader needs to know of the model that `ScriptedRunner` plays."""

    name: str = "scripted"
    vocabulary: Vocabulary = BYTES
    prompts: BytePrompts = attrs.field(factory=BytePrompts)
    max_len: int = 64


@attrs.frozen
class Served:
    """A server that runs, and what a client has of it."""

    server: GrpcServer
    model: ServedModel
    engine: Engine
    port: int
    channel: grpc.aio.Channel
    inference: Any
    vllm_engine: Any

    async def is_idle(self) -> None:
        """Waits until neither the server nor the engine has anything left of any call."""
        while len(self.server.calls) or self.engine.unfinished:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def served(engine: Engine | None = None, **changes: Any) -> AsyncIterator[Served]:
    """Serves on a port of the system's choice until the block ends. ``changes`` are fields of the `ServedModel`."""
    engine = engine or scripted_engine()
    async with running(engine) as engine_runs:
        model = attrs.evolve(served_by(engine_runs), **changes)
        server = GrpcServer(model)
        port = await server.start("localhost:0")
        try:
            async with grpc.aio.insecure_channel(f"localhost:{port}") as channel:
                stubs = (InferenceStub(channel), VllmEngineStub(channel))  # type: ignore[no-untyped-call]
                yield Served(server, model, engine, port, channel, *stubs)
        finally:
            await server.close()


@attrs.frozen
class Ending:
    """How a call ended: its status, and the error in its metadata."""

    code: grpc.StatusCode
    details: str
    error: GrammarError | None


async def ending(call: Any) -> Ending:
    metadata = dict(await call.trailing_metadata())
    found = metadata.get(ERROR_KEY)
    error = None if found is None else GrammarError.from_json(json.loads(found))
    return Ending(await call.code(), await call.details(), error)


async def heard(call: Any) -> tuple[list[Any], Ending]:
    """All replies to a call, and how it ended."""
    replies: list[Any] = []
    try:
        if isinstance(call, grpc.aio.UnaryUnaryCall):
            replies.append(await call)
        else:
            async for reply in call:
                replies.append(reply)  # noqa: PERF401  # those before a failure count
    except (grpc.aio.AioRpcError, asyncio.CancelledError):
        pass
    return replies, await ending(call)
