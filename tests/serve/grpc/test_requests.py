"""What clients send becomes a request of the engine, or an error that points at the field."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from smg_grpc_proto.generated import vllm_engine_pb2 as smg

from engine_adapter.embedded.admission import objection
from engine_adapter.embedded.request import Request
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.grpc import inference_pb2 as vllm
from engine_adapter.serve.grpc import inference_request, vllm_engine_request
from engine_adapter.serve.grpc.asked import MAX_SEQUENCES, Asked, Model, Unsupported
from structout import Choice, Ebnf, Err, ErrorKind, JsonObject, JsonSchema, Lark, Ok, Regex, Result, StructuralTag
from structout.errors import Fault, GrammarError
from structout.spec import GrammarSpec
from tests.fakes import BYTES, EOS
from tests.serve.grpc.messages import messages, names_a_field, set_at, without
from tests.serve.grpc.support import ByteModel

PAGE = Path(__file__).resolve().parents[3] / "docs" / "grpc.md"
MODEL = ByteModel()
GREEDY = SamplingParams(temperature=0.0)
TAG = '{"format": {"type": "any_text"}}'

Read = Callable[[Any, Model, str], Result[Asked, GrammarError]]


def refused(result: Result[Asked, GrammarError]) -> GrammarError:
    assert isinstance(result, Err)
    return result.error


def check_what_is_read(read: Read, message: Any) -> None:
    """It is a request, with whose objections the field is found again; or the error names a field."""
    match read(message, MODEL, "id"):
        case Ok(asked):
            assert asked.request.id == "id"
            assert 1 <= asked.n <= MAX_SEQUENCES
            if error := objection(asked.request, BYTES, max_len=MODEL.max_len):
                assert names_a_field(message, asked.places.located(error).pointer or "/nowhere"), error
        case Err(error) if error.kind is ErrorKind.ENGINE_FAILURE:
            assert "secret" not in str(error.to_json())
        case Err(error):
            assert error.fault is Fault.CALLER
            assert error.pointer is not None
            assert names_a_field(message, error.pointer), error


@given(message=messages(vllm.GenerateRequest))
def test_any_message_of_the_first_dialect_is_read_or_refused(message: vllm.GenerateRequest) -> None:
    supported = without(message, ["model", *(field.path for field in inference_request.UNSUPPORTED)])
    supported.text = "hi"
    for read in (inference_request.read, inference_request.read_one):
        check_what_is_read(read, message)
        check_what_is_read(read, supported)


@given(message=messages(smg.GenerateRequest))
def test_any_message_of_the_second_dialect_is_read_or_refused(message: Any) -> None:
    check_what_is_read(vllm_engine_request.read, message)
    supported = without(message, [field.path for field in vllm_engine_request.UNSUPPORTED])
    supported.text = "hi"
    check_what_is_read(vllm_engine_request.read, supported)


def test_what_is_left_out_has_the_defaults_of_each_dialect() -> None:
    ids = vllm.GenerateRequest(token_ids=vllm.TokenIds(ids=[1, 2]))
    request = inference_request.read(ids, MODEL, "a").unwrap().request
    expected = Request(id="a", prompt=(1, 2), max_tokens=20, sampling=GREEDY, stop_token_ids=(EOS,))
    assert request == expected
    tokenized = smg.GenerateRequest(tokenized=smg.TokenizedInput(input_ids=[1, 2]))
    request = vllm_engine_request.read(tokenized, MODEL, "a").unwrap().request
    assert request == Request(id="a", prompt=(1, 2), max_tokens=64, stop_token_ids=(EOS,))


PENALTIES: Final[dict[str, Any]] = {
    "presence_penalty": 0.5,
    "frequency_penalty": -0.5,
    "repetition_penalty": 1.5,
    "logit_bias": {3: -100.0, 7: 2.5},
}


def test_everything_that_is_said_arrives() -> None:
    message = vllm.GenerateRequest(
        model="scripted",
        text="hi",
        temperature=0.5,
        sampling=vllm.RandomSampling(num_sequences=3, top_k=5, top_p=0.5, min_p=0.25, seed=-7),
        decoding=vllm.DecodingParameters(**PENALTIES),
        stopping=vllm.StoppingCriteria(
            max_new_tokens=9, min_new_tokens=3, stop_token_ids=[4], stop_strings=["x"], include_stop_strings=True
        ),
        response=vllm.ResponseOptions(output_candidates=vllm.CandidateTokens(top_n=2)),
    )
    expected = Request(
        id="a",
        prompt=(104, 105),
        max_tokens=9,
        min_tokens=3,
        sampling=SamplingParams(temperature=0.5, top_k=5, top_p=0.5, min_p=0.25, seed=-7, logprobs=2, **PENALTIES),
        stop_token_ids=(EOS, 4),
        stop=("x",),
        include_stop=True,
    )
    asked = inference_request.read(message, MODEL, "a").unwrap()
    assert (asked.request, asked.n) == (expected, 3)
    other = smg.GenerateRequest(
        text="hi",
        sampling_params=smg.SamplingParams(
            temperature=0.5,
            n=3,
            top_k=5,
            top_p=0.5,
            min_p=0.25,
            seed=-7,
            **PENALTIES,
            logprobs=2,
            max_tokens=9,
            min_tokens=3,
            stop_token_ids=[4],
            stop=["x"],
            include_stop_str_in_output=True,
        ),
    )
    asked = vllm_engine_request.read(other, MODEL, "a").unwrap()
    assert (asked.request, asked.n) == (expected, 3)


def test_a_model_whose_end_is_ignored_ends_at_what_is_given() -> None:
    stopping = vllm.StoppingCriteria(ignore_eos=True, stop_token_ids=[4])
    message = vllm.GenerateRequest(text="hi", stopping=stopping)
    request = inference_request.read(message, MODEL, "a").unwrap().request
    assert (request.stop_token_ids, request.ignore_eos) == ((4,), True)
    other = smg.GenerateRequest(text="hi", sampling_params=smg.SamplingParams(ignore_eos=True))
    request = vllm_engine_request.read(other, MODEL, "a").unwrap().request
    assert (request.stop_token_ids, request.ignore_eos) == ((), True)


@pytest.mark.parametrize(
    ("fields", "spec"),
    [
        ({"json": '{"type": "object"}'}, JsonSchema('{"type": "object"}')),
        ({"regex": "a+"}, Regex("a+")),
        ({"choice": {"choices": ["a", "b"]}}, Choice(("a", "b"))),
        ({"grammar": 'root ::= "a"'}, Ebnf('root ::= "a"')),
        ({"grammar": 'start: "a"'}, Lark('start: "a"')),
        ({"json_object": True}, JsonObject()),
        ({"structural_tag": TAG}, StructuralTag('{"type": "structural_tag", "format": {"type": "any_text"}}')),
    ],
)
def test_each_constraint_becomes_its_spec(fields: dict[str, Any], spec: GrammarSpec) -> None:
    message = vllm.GenerateRequest(text="hi", decoding=vllm.DecodingParameters(**fields))
    assert inference_request.read(message, MODEL, "a").unwrap().request.spec == spec
    if "json" in fields:
        fields = {"json_schema": fields["json"]}
    other = smg.GenerateRequest(text="hi", sampling_params=smg.SamplingParams(**fields))
    assert vllm_engine_request.read(other, MODEL, "a").unwrap().request.spec == spec


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"json": '{"a": [1, NaN]}'}, "/decoding/json/a/1"),
        ({"json": '{"a": 1, "a": 1}'}, "/decoding/json"),
        ({"json": ""}, "/decoding/json"),
        ({"regex": ""}, "/decoding/regex"),
        ({"choice": {"choices": ["a", "\0"]}}, "/decoding/choice/choices/1"),
        ({"choice": {}}, "/decoding/choice/choices"),
        ({"grammar": "nothing"}, "/decoding/grammar"),
        ({"json_object": False}, "/decoding/json_object"),
        ({"structural_tag": "{}"}, "/decoding/structural_tag"),
    ],
)
def test_a_constraint_that_is_wrong_is_found_where_it_stands(fields: dict[str, Any], pointer: str) -> None:
    message = vllm.GenerateRequest(text="hi", decoding=vllm.DecodingParameters(**fields))
    error = refused(inference_request.read(message, MODEL, "a"))
    assert (error.kind, error.pointer) == (ErrorKind.INVALID_SPEC, pointer)


@pytest.mark.parametrize("field", inference_request.UNSUPPORTED, ids=lambda field: field.path)
def test_a_field_that_is_not_supported_is_named(field: Unsupported) -> None:
    message = vllm.GenerateRequest(text="hi")
    set_at(message, field.path)
    if field.path.endswith("skip_special_tokens"):
        message.response.skip_special_tokens = False
    check_refused(inference_request.read(message, MODEL, "a"), field)


@pytest.mark.parametrize("field", vllm_engine_request.UNSUPPORTED, ids=lambda field: field.path)
def test_a_field_of_the_second_dialect_that_is_not_supported_is_named(field: Unsupported) -> None:
    message = smg.GenerateRequest(text="hi")
    set_at(message, field.path)
    check_refused(vllm_engine_request.read(message, MODEL, "a"), field)


@pytest.mark.parametrize("dialect", [inference_request, vllm_engine_request])
def test_the_manual_names_every_field_that_is_refused(dialect: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")
    for field in dialect.UNSUPPORTED:
        assert f"`{field.path.rpartition('/')[2]}`" in page, field.path


def check_refused(result: Result[Asked, GrammarError], field: Unsupported) -> None:
    error = refused(result)
    assert (error.kind, error.pointer) == (ErrorKind.UNSUPPORTED, f"/{field.path}")
    assert error.hint == field.hint


def test_values_that_change_nothing_are_no_reason_to_refuse() -> None:
    message = vllm.GenerateRequest(
        text="hi",
        priority=3,
        session_id="s",
        decoding=vllm.DecodingParameters(repetition_penalty=1.0),
        response=vllm.ResponseOptions(skip_special_tokens=True, output_candidates=vllm.CandidateTokens(all=False)),
        kv=vllm.KVCacheParameters(bypass_prefix_cache=True, cache_salt="salt"),
    )
    assert inference_request.read(message, MODEL, "a").unwrap().request.sampling.logprobs == 0
    other = smg.GenerateRequest(
        text="hi",
        data_parallel_rank=0,
        sampling_params=smg.SamplingParams(
            repetition_penalty=1.0, spaces_between_special_tokens=True, grammar_from_first_token=True
        ),
    )
    assert isinstance(vllm_engine_request.read(other, MODEL, "a"), Ok)


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        (vllm.GenerateRequest(), ""),
        (vllm.GenerateRequest(text=""), "/text"),
        (vllm.GenerateRequest(token_ids=vllm.TokenIds()), "/token_ids/ids"),
        (vllm.GenerateRequest(text="hi", temperature=-1.0), "/temperature"),
        (vllm.GenerateRequest(text="hi", temperature=float("nan")), "/temperature"),
        (vllm.GenerateRequest(text="hi", sampling=vllm.RandomSampling(top_p=2.0)), "/sampling/top_p"),
        (
            vllm.GenerateRequest(text="hi", decoding=vllm.DecodingParameters(presence_penalty=3.0)),
            "/decoding/presence_penalty",
        ),
        (
            vllm.GenerateRequest(text="hi", decoding=vllm.DecodingParameters(logit_bias={1: 101.0})),
            "/decoding/logit_bias",
        ),
        (vllm.GenerateRequest(text="hi", sampling=vllm.RandomSampling(top_k=2**32 - 1)), "/sampling/top_k"),
        (vllm.GenerateRequest(text="hi", sampling=vllm.RandomSampling(num_sequences=129)), "/sampling/num_sequences"),
        (
            vllm.GenerateRequest(
                text="hi", response=vllm.ResponseOptions(output_candidates=vllm.CandidateTokens(top_n=21))
            ),
            "/response/output_candidates/top_n",
        ),
    ],
)
def test_what_cannot_be_is_found_where_it_stands(message: vllm.GenerateRequest, pointer: str) -> None:
    error = refused(inference_request.read(message, MODEL, "a"))
    assert (error.kind, error.pointer) == (ErrorKind.INVALID_SPEC, pointer)


def test_another_model_is_not_served_here() -> None:
    error = refused(inference_request.read(vllm.GenerateRequest(text="hi", model="other"), MODEL, "a"))
    assert (error.kind, error.pointer) == (ErrorKind.UNAVAILABLE, "/model")
    assert "scripted" in (error.hint or "")


def test_one_reply_has_room_for_one_answer() -> None:
    message = vllm.GenerateRequest(text="hi", sampling=vllm.RandomSampling(num_sequences=2))
    error = refused(inference_request.read_one(message, MODEL, "a"))
    assert (error.kind, error.pointer) == (ErrorKind.UNSUPPORTED, "/sampling/num_sequences")
    assert "GenerateStream" in (error.hint or "")


def test_what_a_tokenizer_raises_is_for_the_log() -> None:
    error = refused(inference_request.read(vllm.GenerateRequest(text="raise"), MODEL, "a"))
    assert error.kind is ErrorKind.ENGINE_FAILURE
    assert "secret" not in str(error.to_json())
    assert "secret" in (error.detail or "")
