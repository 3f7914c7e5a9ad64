"""A ``vllm.GenerateRequest``, as the engine takes it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from engine_adapter.embedded.request import Request
from engine_adapter.sampling import SamplingParams
from engine_adapter.serve.grpc.asked import (
    Asked,
    Model,
    Unsupported,
    constraint,
    encoded,
    invalid,
    named_otherwise,
    refusal,
    sampling,
    sequences,
    stops,
    unsupported,
)
from engine_adapter.serve.grpc.inference_pb2 import GenerateRequest, ResponseOptions
from engine_adapter.serve.places import Places
from structout.errors import GrammarError
from structout.parsing.places import value_of
from structout.result import Err, Ok, Result

DEFAULT_MAX_TOKENS: Final = 20
"""What vLLM generates at most where a request does not say."""

UNSUPPORTED: Final = (
    Unsupported("truncate_prompt_tokens", "send the part of the prompt that counts"),
    Unsupported("media", "send text or token ids"),
    Unsupported("lora_name", "leave it out: there is the base model only"),
    Unsupported("decoding/allowed_token_ids", "constrain the text with structured_output"),
    Unsupported("response/prompt_logprobs", "leave it out: only generated tokens have log-probabilities"),
    Unsupported("response/prompt_candidates", "leave it out: only generated tokens have candidates"),
    Unsupported("response/output_candidates/token_ids", "use top_n"),
    Unsupported("response/output_candidates/all", "use top_n", neutral=(False,)),
    Unsupported("response/skip_special_tokens", "ask for output_token_ids: the text has none", neutral=(True,)),
    Unsupported("kv/kv_transfer_params", "leave it out: there is one engine only"),
    Unsupported("kv/ec_transfer_params", "leave it out: there is one engine only"),
)

POINTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "id": "/request_id",
        "prompt": "/token_ids/ids",
        "temperature": "/temperature",
        "top_k": "/sampling/top_k",
        "top_p": "/sampling/top_p",
        "min_p": "/sampling/min_p",
        "seed": "/sampling/seed",
        "presence_penalty": "/decoding/presence_penalty",
        "frequency_penalty": "/decoding/frequency_penalty",
        "repetition_penalty": "/decoding/repetition_penalty",
        "logit_bias": "/decoding/logit_bias",
        "max_tokens": "/stopping/max_new_tokens",
        "min_tokens": "/stopping/min_new_tokens",
        "stop_token_ids": "/stopping/stop_token_ids",
        "stop": "/stopping/stop_strings",
        "include_stop": "/stopping/include_stop_strings",
        "logprobs": "/response/output_candidates/top_n",
    }
)
"""Where the message has what the engine and the sampler call by other names."""


def read_one(message: GenerateRequest, model: Model, request_id: str) -> Result[Asked, GrammarError]:
    """Like `read`, for a reply that has room for one answer."""
    if message.sampling.num_sequences > 1:
        path = "sampling/num_sequences"
        return Err(refusal(path, "use GenerateStream for more than one answer: the reply has room for one"))
    return read(message, model, request_id)


def read(message: GenerateRequest, model: Model, request_id: str) -> Result[Asked, GrammarError]:
    """What the message asks for, under ``request_id``; or what is wrong with it, with a pointer. Never raises."""
    if error := unsupported(message, UNSUPPORTED) or named_otherwise(message.model, model):
        return Err(error)
    match (
        sequences(message.sampling.num_sequences, "sampling/num_sequences"),
        _prompt(message, model),
        _sampling(message),
        constraint(message.decoding, "structured_output", "decoding"),
    ):
        case Ok(n), Ok(prompt), Ok(chosen), Ok(placed):
            stopping = message.stopping
            request = Request(
                id=request_id,
                prompt=prompt,
                max_tokens=stopping.max_new_tokens or DEFAULT_MAX_TOKENS,
                min_tokens=stopping.min_new_tokens,
                sampling=chosen,
                spec=value_of(placed),
                stop_token_ids=stops(model, stopping.stop_token_ids, ignore_eos=stopping.ignore_eos),
                ignore_eos=stopping.ignore_eos,
                stop=tuple(stopping.stop_strings),
                include_stop=stopping.include_stop_strings,
            )
            prompt_field = {"prompt": "/text"} if message.HasField("text") else {}
            places = Places(fields={**POINTERS, **prompt_field}, constraint=placed)
            return Ok(Asked(request, n, places))
        case results:
            return next(each for each in results if isinstance(each, Err))


def _prompt(message: GenerateRequest, model: Model) -> Result[tuple[int, ...], GrammarError]:
    match message.WhichOneof("prompt"):
        case "text":
            return encoded(message.text, model, "text")
        case "token_ids" if message.token_ids.ids:
            return Ok(tuple(message.token_ids.ids))
        case "token_ids":
            return Err(invalid("the prompt is empty", "token_ids/ids"))
        case _:
            return Err(invalid("there is no prompt", "", "send text or token_ids"))


def _sampling(message: GenerateRequest) -> Result[SamplingParams, GrammarError]:
    given = message.sampling
    return sampling(
        POINTERS,
        temperature=message.temperature,
        top_k=given.top_k,
        top_p=given.top_p or None,
        min_p=given.min_p,
        presence_penalty=message.decoding.presence_penalty,
        frequency_penalty=message.decoding.frequency_penalty,
        repetition_penalty=message.decoding.repetition_penalty or None,
        logit_bias=message.decoding.logit_bias,
        seed=given.seed if given.HasField("seed") else None,
        logprobs=_logprobs(message.response),
    )


def _logprobs(options: ResponseOptions) -> int | None:
    if options.HasField("output_candidates"):
        return options.output_candidates.top_n
    return 0 if options.output_logprobs else None
