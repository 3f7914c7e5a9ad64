"""What the stubs of ``smg-grpc-proto`` see of the server, and a client that knows its interface by reflection alone."""

from typing import Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from observing import address, observe
from smg_grpc_proto import vllm_engine_pb2 as smg
from smg_grpc_proto import vllm_engine_pb2_grpc

LIMIT_S = 300
SCHEMA = '{"type": "array", "items": {"enum": ["Lutz", "Nebelsbad"]}, "minItems": 2, "maxItems": 2}'


def _stub(channel: grpc.Channel) -> Any:
    return vllm_engine_pb2_grpc.VllmEngineStub(channel)


def _asked(**params: Any) -> smg.GenerateRequest:
    given = {"temperature": 0.0, "max_tokens": 60, **params}
    return smg.GenerateRequest(text="Two towns:", stream=True, sampling_params=smg.SamplingParams(**given))


def info(channel: grpc.Channel) -> Any:
    stub = _stub(channel)
    healthy = stub.HealthCheck(smg.HealthCheckRequest(), timeout=LIMIT_S).healthy
    return {"healthy": healthy, "model": _dict(stub.GetModelInfo(smg.GetModelInfoRequest(), timeout=LIMIT_S))}


def health(channel: grpc.Channel) -> Any:
    """Of the standard service, for the server as a whole and for each of its own services."""
    stub = health_pb2_grpc.HealthStub(channel)
    services = ("", "vllm.Inference", "vllm.grpc.engine.VllmEngine")
    replies = [stub.Check(health_pb2.HealthCheckRequest(service=each), timeout=LIMIT_S) for each in services]
    return [health_pb2.HealthCheckResponse.ServingStatus.Name(reply.status) for reply in replies]


def generate(channel: grpc.Channel) -> Any:
    """The messages of each kind of constraint."""
    requests = {
        "json_schema": _asked(json_schema=SCHEMA),
        "regex": _asked(regex="[0-9]{3}-[a-f]{2}"),
        "choice": _asked(choice=smg.ChoiceConstraint(choices=["Zubrowka", "Lutz"])),
        "none": _asked(max_tokens=5, logprobs=1),
    }
    return {name: _messages(channel, request) for name, request in requests.items()}


def three(channel: grpc.Channel) -> Any:
    return _messages(channel, _asked(n=3, temperature=1.0, seed=1, max_tokens=6))


def errors(channel: grpc.Channel) -> Any:
    requests = {
        "schema": _asked(json_schema='{"type": "intger"}'),
        "field": _asked(prompt_logprobs=1),
        "prompt": smg.GenerateRequest(sampling_params=smg.SamplingParams(max_tokens=1)),
    }
    return {name: _error(lambda each=each: _messages(channel, each)) for name, each in requests.items()} | {
        "embed": _error(lambda: _stub(channel).Embed(smg.EmbedRequest(), timeout=LIMIT_S)),
    }


def abort(channel: grpc.Channel) -> Any:
    """How a long request ends that another call aborts after its first message."""
    request = _asked(max_tokens=1500, ignore_eos=True)
    request.request_id = "to-be-aborted"
    messages = iter(_stub(channel).Generate(request, timeout=LIMIT_S))
    first = next(messages)
    _stub(channel).Abort(smg.AbortRequest(request_ids=[request.request_id]), timeout=LIMIT_S)
    *_, last = messages
    return [_dict(first), _dict(last)]


def reflected(channel: grpc.Channel) -> Any:
    """The services, and an answer by ``vllm.Inference``, of which this environment has no stubs."""
    database = ProtoReflectionDescriptorDatabase(channel)
    method = DescriptorPool(database).FindServiceByName("vllm.Inference").FindMethodByName("Generate")
    request_class, reply_class = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    call = channel.unary_unary(
        "/vllm.Inference/Generate",
        request_serializer=request_class.SerializeToString,
        response_deserializer=reply_class.FromString,
    )
    request = request_class(text="A town:", decoding={"choice": {"choices": ["Zubrowka", "Lutz"]}})
    return {"services": sorted(database.get_services()), "reply": _dict(call(request, timeout=LIMIT_S))}


def _messages(channel: grpc.Channel, request: smg.GenerateRequest) -> list[Any]:
    return [_dict(reply) for reply in _stub(channel).Generate(request, timeout=LIMIT_S)]


def _error(call: Any) -> Any:
    try:
        return {"code": None, "returned": repr(call())}
    except grpc.RpcError as exc:
        return {"code": exc.code().name, "details": exc.details()}


def _dict(message: Any) -> Any:
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


if __name__ == "__main__":
    with grpc.insecure_channel(address()) as channel:
        observe(channel, [info, health, generate, three, errors, abort, reflected])
