"""What is checked in of the generated modules is what ``inference.proto`` says."""

import importlib.resources
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from engine_adapter.serve.grpc import inference_pb2, inference_pb2_grpc

ROOT = Path(__file__).resolve().parents[3]
PROTO = "engine_adapter/serve/grpc/inference.proto"
HOW = f"run: python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. {PROTO}"


@pytest.fixture(scope="module")
def proto(tmp_path_factory: pytest.TempPathFactory) -> FileDescriptorProto:
    """The .proto file, compiled now: its descriptor, which unlike generated code is the same for every compiler."""
    target = tmp_path_factory.mktemp("protoc") / "inference.pb"
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    assert protoc.main(["protoc", f"-I{ROOT}", f"-I{well_known}", f"--descriptor_set_out={target}", PROTO]) == 0
    [file] = FileDescriptorSet.FromString(target.read_bytes()).file
    return file


def test_the_messages_are_those_of_the_proto(proto: FileDescriptorProto) -> None:
    checked_in = FileDescriptorProto.FromString(inference_pb2.DESCRIPTOR.serialized_pb)
    assert [bare(message) for message in checked_in.message_type] == [
        bare(message) for message in proto.message_type
    ], HOW
    assert checked_in.service == proto.service, HOW


def bare(message: DescriptorProto) -> DescriptorProto:
    """The message without its fields' names in JSON, which are left out of what is built into a module."""
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        bare(nested)
    return message


def test_the_types_name_every_field(proto: FileDescriptorProto) -> None:
    types = (ROOT / PROTO).with_name("inference_pb2.pyi").read_text(encoding="utf-8")
    for message in proto.message_type:
        assert f"class {message.name}(_message.Message):" in types, HOW
        for field in message.field:
            assert f"    {field.name}: " in types, HOW


def test_the_stubs_have_every_method(proto: FileDescriptorProto) -> None:
    [service] = proto.service
    assert {method.name for method in service.method} == set(vars(inference_pb2_grpc.InferenceServicer)) & {
        "Generate",
        "GenerateStream",
    }, HOW
