"""The two dialects as gRPC services: which method does what."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from grpc.aio import ServicerContext
from smg_grpc_proto.generated import vllm_engine_pb2

from engine_adapter.serve.grpc import (
    inference_pb2,
    inference_replies,
    inference_request,
    vllm_engine_replies,
    vllm_engine_request,
)
from engine_adapter.serve.grpc.calls import Calls, Method
from engine_adapter.serve.served import ServedModel

INFERENCE: Final[ServiceDescriptor] = inference_pb2.DESCRIPTOR.services_by_name["Inference"]
VLLM_ENGINE: Final[ServiceDescriptor] = vllm_engine_pb2.DESCRIPTOR.services_by_name["VllmEngine"]

_WHOLE: Final = Method(inference_request.read_one, inference_replies.WholeReply)
_STREAM: Final = Method(inference_request.read, inference_replies.StreamReplies)
_VLLM_ENGINE: Final = Method(vllm_engine_request.read, vllm_engine_replies.Replies)

_Behavior = Callable[[Any, ServicerContext[Any, Any]], Any]


@attrs.frozen
class InferenceService:
    """``vllm.Inference``."""

    calls: Calls

    def handler(self) -> "grpc.GenericRpcHandler[Any, Any]":
        return _handler(INFERENCE, {"Generate": self.generate, "GenerateStream": self.generate_stream})

    async def generate(self, message: Any, context: ServicerContext[Any, Any]) -> Any:
        return await self.calls.unary(_WHOLE, message, context)

    async def generate_stream(self, message: Any, context: ServicerContext[Any, Any]) -> None:
        await self.calls.stream(_STREAM, message, context)


@attrs.frozen
class VllmEngineService:
    """``vllm.grpc.engine.VllmEngine``: what a gateway asks of an engine."""

    calls: Calls
    served: ServedModel

    def handler(self) -> "grpc.GenericRpcHandler[Any, Any]":
        methods = {
            "Generate": self.generate,
            "Abort": self.abort,
            "HealthCheck": self.health_check,
            "GetModelInfo": self.get_model_info,
        }
        return _handler(VLLM_ENGINE, methods)

    async def generate(self, message: Any, context: ServicerContext[Any, Any]) -> None:
        await self.calls.stream(_VLLM_ENGINE, message, context)

    async def abort(self, message: Any, context: ServicerContext[Any, Any]) -> Any:
        await self.calls.abort(message.request_ids)
        return vllm_engine_pb2.AbortResponse()

    async def health_check(self, message: Any, context: ServicerContext[Any, Any]) -> Any:
        wrong = self.served.running.unavailable
        return vllm_engine_pb2.HealthCheckResponse(healthy=wrong is None, message=wrong.message if wrong else "")

    async def get_model_info(self, message: Any, context: ServicerContext[Any, Any]) -> Any:
        return vllm_engine_pb2.GetModelInfoResponse(
            model_path=self.served.name,
            served_model_name=self.served.name,
            is_generation=True,
            max_context_length=self.served.max_len,
            max_req_input_len=self.served.max_len,
            vocab_size=self.served.vocabulary.size,
            eos_token_ids=self.served.vocabulary.eos_token_ids,
        )


def _handler(service: ServiceDescriptor, methods: Mapping[str, _Behavior]) -> "grpc.GenericRpcHandler[Any, Any]":
    """Serves all methods of a service: those that have no implementation are UNIMPLEMENTED, and say so."""
    handlers = {
        method.name: _method_handler(method, methods.get(method.name) or _not_served(method))
        for method in service.methods
    }
    return grpc.method_handlers_generic_handler(service.full_name, handlers)


def _method_handler(method: MethodDescriptor, behavior: _Behavior) -> "grpc.RpcMethodHandler[Any, Any]":
    make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
    request, response = GetMessageClass(method.input_type), GetMessageClass(method.output_type)

    def read(data: bytes) -> Any:
        """The message; None if it is none: what is raised here, gRPC tells the client as UNKNOWN."""
        try:
            return request.FromString(data)
        except DecodeError:
            return None

    async def behave(message: Any, context: ServicerContext[Any, Any]) -> Any:
        if message is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is no {method.input_type.full_name}")
        return await behavior(message, context)

    return make(behave, request_deserializer=read, response_serializer=response.SerializeToString)


def _not_served(method: MethodDescriptor) -> _Behavior:
    async def refuse(message: Any, context: ServicerContext[Any, Any]) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{method.name} is not served here")

    return refuse
