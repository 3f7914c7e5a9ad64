"""The methods of both dialects that generate, over a socket."""

import abc
from collections.abc import Sequence
from typing import Any

import attrs
import grpc
from smg_grpc_proto.generated import vllm_engine_pb2 as smg
from smg_grpc_proto.generated.vllm_engine_pb2_grpc import VllmEngineStub

from engine_adapter.serve.grpc.inference_pb2 import (
    DecodingParameters,
    FinishInfo,
    GenerateRequest,
    RandomSampling,
    StoppingCriteria,
)
from engine_adapter.serve.grpc.inference_pb2_grpc import InferenceStub
from tests.serve.grpc.support import heard
from tests.serve.matrix.told import Ask, Cause, Said, Told, Wait

_MAX_TOKENS = 64


@attrs.frozen
class GrpcDoor(abc.ABC):
    """What both dialects have in common of `tests.serve.matrix.told.Door`."""

    channel: grpc.aio.Channel

    @abc.abstractmethod
    def call(self, ask: Ask) -> Any:
        """The call that asks for this."""

    @abc.abstractmethod
    def samples(self, replies: Sequence[Any]) -> dict[int, Said]:
        """What each sample said, by its index."""

    async def ask(self, ask: Ask) -> Told:
        replies, end = await heard(self.call(ask))
        error = end.error
        cause = Cause(error.kind, error.fault, error.pointer) if error else None
        assert end.code is grpc.StatusCode.OK or (error is not None and end.details.startswith(error.message))
        everything = "".join(map(str, [*replies, end.details, error]))
        return Told(end.code.name, cause, self.samples(replies), everything)

    async def leave(self, ask: Ask, when: Wait, *, is_late: bool) -> None:
        call = self.call(ask)
        if ask.is_stream and is_late:
            await anext(aiter(call))
        await when()
        call.cancel()
        _, end = await heard(call)
        assert end.code is grpc.StatusCode.CANCELLED


class InferenceDoor(GrpcDoor):
    """``vllm.Inference``."""

    def call(self, ask: Ask) -> Any:
        stub: Any = InferenceStub(self.channel)  # type: ignore[no-untyped-call]
        message = GenerateRequest(
            text=ask.mark,
            temperature=1.0,
            sampling=RandomSampling(num_sequences=ask.n, top_p=ask.top_p),
            decoding=DecodingParameters(choice=DecodingParameters.StringChoices(choices=ask.choice)),
            stopping=StoppingCriteria(max_new_tokens=_MAX_TOKENS),
        )
        return stub.GenerateStream(message) if ask.is_stream else stub.Generate(message)

    def samples(self, replies: Sequence[Any]) -> dict[int, Said]:
        samples: dict[int, Said] = {}
        for each in (reply.outputs for reply in replies):
            before = samples.get(each.index, Said(""))
            assert before.reason is None, "nothing follows the end of a sequence"
            name = FinishInfo.FinishReason.Name(each.finish_info.finish_reason).lower()
            samples[each.index] = Said(before.text + each.text, name if each.HasField("finish_info") else None)
        return samples


class VllmEngineDoor(GrpcDoor):
    """``vllm.grpc.engine.VllmEngine``, which speaks of tokens alone."""

    def call(self, ask: Ask) -> Any:
        stub: Any = VllmEngineStub(self.channel)
        params = smg.SamplingParams(
            temperature=1.0,
            n=ask.n,
            top_p=ask.top_p,
            max_tokens=_MAX_TOKENS,
            choice=smg.ChoiceConstraint(choices=ask.choice),
        )
        return stub.Generate(smg.GenerateRequest(text=ask.mark, sampling_params=params, stream=ask.is_stream))

    def samples(self, replies: Sequence[Any]) -> dict[int, Said]:
        samples: dict[int, Said] = {}
        for chunk in (reply.chunk for reply in replies if reply.HasField("chunk")):
            before = samples.get(chunk.index, Said(""))
            samples[chunk.index] = Said(before.text + bytes(chunk.token_ids).decode())
        for complete in (reply.complete for reply in replies if reply.HasField("complete")):
            text = bytes(complete.output_ids).decode()
            assert samples.get(complete.index, Said(text)) == Said(text), "the chunks add up to it"
            samples[complete.index] = Said(text, complete.finish_reason)
        return samples
