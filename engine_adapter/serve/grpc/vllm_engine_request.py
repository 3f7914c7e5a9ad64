"""A ``vllm.grpc.engine.GenerateRequest``, as the engine takes it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from smg_grpc_proto.generated.vllm_engine_pb2 import GenerateRequest, SamplingParams

from engine_adapter import sampling as sampler
from engine_adapter.embedded.request import Request
from engine_adapter.serve.grpc.asked import (
    Asked,
    Model,
    Unsupported,
    constraint,
    encoded,
    invalid,
    sampling,
    sequences,
    stops,
    unsupported,
)
from engine_adapter.serve.places import Places
from structout.errors import GrammarError
from structout.parsing.places import value_of
from structout.result import Err, Ok, Result

_ONE_ENGINE: Final = "leave it out: there is one engine only"
_TEXT_ONLY: Final = "send text or token ids"

UNSUPPORTED: Final = (
    Unsupported("kv_transfer_params", _ONE_ENGINE),
    Unsupported("kv_transfer_params_json", _ONE_ENGINE),
    Unsupported("mm_inputs", _TEXT_ONLY),
    Unsupported("extra_mm_inputs", _TEXT_ONLY),
    Unsupported("media_refs", _TEXT_ONLY),
    Unsupported("sampling_params/prompt_logprobs", "leave it out: only generated tokens have log-probabilities"),
    Unsupported("sampling_params/truncate_prompt_tokens", "send the part of the prompt that counts"),
)

_SAMPLING: Final = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
    "max_tokens",
    "min_tokens",
    "stop_token_ids",
    "stop",
    "logprobs",
)

POINTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "/request_id",
        "prompt": "/tokenized/input_ids",
        "include_stop": "/sampling_params/include_stop_str_in_output",
    }
    | {name: f"/sampling_params/{name}" for name in _SAMPLING}
)
"""Where the message has what the engine and the sampler call by other names."""


def read(message: GenerateRequest, model: Model, request_id: str) -> Result[Asked, GrammarError]:
    """What the message asks for, under ``request_id``; or what is wrong with it, with a pointer. Never raises."""
    if error := unsupported(message, UNSUPPORTED):
        return Err(error)
    given = message.sampling_params
    match (
        sequences(given.n, "sampling_params/n"),
        _prompt(message, model),
        _sampling(given),
        constraint(given, "constraint", "sampling_params"),
    ):
        case Ok(n), Ok(prompt), Ok(chosen), Ok(placed):
            request = Request(
                id=request_id,
                prompt=prompt,
                max_tokens=given.max_tokens if given.HasField("max_tokens") else model.max_len,
                min_tokens=given.min_tokens,
                sampling=chosen,
                spec=value_of(placed),
                stop_token_ids=stops(model, given.stop_token_ids, ignore_eos=given.ignore_eos),
                ignore_eos=given.ignore_eos,
                stop=tuple(given.stop),
                include_stop=given.include_stop_str_in_output,
            )
            prompt_field = {"prompt": "/text"} if message.HasField("text") else {}
            places = Places(fields={**POINTERS, **prompt_field}, constraint=placed)
            return Ok(Asked(request, n, places))
        case results:
            return next(each for each in results if isinstance(each, Err))


def _prompt(message: GenerateRequest, model: Model) -> Result[tuple[int, ...], GrammarError]:
    match message.WhichOneof("input"):
        case "text":
            return encoded(message.text, model, "text")
        case "tokenized" if message.tokenized.input_ids:
            return Ok(tuple(message.tokenized.input_ids))
        case "tokenized":
            return Err(invalid("the prompt is empty", "tokenized/input_ids"))
        case _:
            return Err(invalid("there is no prompt", "", "send tokenized or text"))


def _sampling(given: SamplingParams) -> Result[sampler.SamplingParams, GrammarError]:
    return sampling(
        POINTERS,
        temperature=given.temperature if given.HasField("temperature") else None,
        top_k=given.top_k,
        top_p=given.top_p or None,
        min_p=given.min_p,
        presence_penalty=given.presence_penalty,
        frequency_penalty=given.frequency_penalty,
        repetition_penalty=given.repetition_penalty or None,
        logit_bias=given.logit_bias,
        seed=given.seed if given.HasField("seed") else None,
        logprobs=given.logprobs if given.HasField("logprobs") else None,
    )
