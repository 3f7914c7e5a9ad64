"""``vllm.Inference``, by real stubs at a real server: what is generated, and how it ends."""

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from engine_adapter.serve.grpc.inference_pb2 import (
    CandidateTokens,
    DecodingParameters,
    FinishInfo,
    GenerateRequest,
    GenerateResponse,
    RandomSampling,
    ResponseOptions,
    StoppingCriteria,
    TokenIds,
)
from structout import ErrorKind
from tests.fakes import EOS
from tests.serve.grpc.support import Ending, heard, served
from tests.serve.support import GatedRunner, guarded, scripted_engine

EVERYTHING = ResponseOptions(
    prompt_token_ids=True,
    output_token_ids=True,
    output_logprobs=True,
    output_candidates=CandidateTokens(top_n=3),
)
SEEDED = GenerateRequest(
    text="hi",
    temperature=1.0,
    sampling=RandomSampling(seed=7),
    stopping=StoppingCriteria(max_new_tokens=12, ignore_eos=True),
    response=EVERYTHING,
)


def changed(message: GenerateRequest, **fields: Any) -> GenerateRequest:
    """A copy with fields merged in."""
    copy = GenerateRequest(**fields)
    whole = GenerateRequest()
    whole.CopyFrom(message)
    whole.MergeFrom(copy)
    return whole


def choosing(*options: str, **fields: Any) -> GenerateRequest:
    decoding = DecodingParameters(choice=DecodingParameters.StringChoices(choices=options))
    return GenerateRequest(text="x", decoding=decoding, **fields)


def generate(message: GenerateRequest) -> GenerateResponse:
    """The unary reply, which has to be a success."""

    async def main() -> Any:
        async with served() as server:
            return await server.inference.Generate(message)

    response = guarded(main)
    assert isinstance(response, GenerateResponse)
    return response


def stream(message: GenerateRequest) -> tuple[list[GenerateResponse], Ending]:
    async def main() -> tuple[list[Any], Ending]:
        async with served() as server:
            return await heard(server.inference.GenerateStream(message))

    return guarded(main)


def put_together(responses: Sequence[GenerateResponse], index: int = 0) -> dict[str, Any]:
    """One sequence's news, added up; its last message is its only end."""
    outputs = [each.outputs for each in responses if each.outputs.index == index]
    assert [each.HasField("finish_info") for each in outputs] == [False] * (len(outputs) - 1) + [True]
    return {
        "text": "".join(each.text for each in outputs),
        "num_tokens": sum(each.num_tokens for each in outputs),
        "token_ids": [token for each in outputs for token in each.token_ids],
        "logprobs": [logprob for each in outputs for logprob in each.logprobs],
        "candidates": [tokens for each in outputs for tokens in each.candidate_tokens],
        "finish_info": outputs[-1].finish_info,
    }


def test_text_and_its_token_ids_are_the_same_prompt() -> None:
    text = generate(SEEDED)
    ids = GenerateRequest()
    ids.CopyFrom(SEEDED)
    ids.token_ids.CopyFrom(TokenIds(ids=b"hi"))
    assert generate(ids) == text
    assert (text.prompt_info.num_prompt_tokens, list(text.prompt_info.token_ids)) == (2, list(b"hi"))


def test_a_stream_adds_up_to_the_unary_answer() -> None:
    responses, end = stream(SEEDED)
    whole = generate(SEEDED)
    assert end.code is grpc.StatusCode.OK
    assert put_together(responses) == put_together([whole])
    assert whole.outputs.num_tokens == len(whole.outputs.token_ids) == len(whole.outputs.logprobs) == 12
    assert whole.outputs.finish_info == FinishInfo(finish_reason=FinishInfo.LENGTH, num_output_tokens=12)


def test_the_first_message_has_the_prompt_and_the_first_token() -> None:
    responses, _ = stream(SEEDED)
    assert [each.HasField("prompt_info") for each in responses] == [True] + [False] * (len(responses) - 1)
    assert responses[0].outputs.num_tokens == 1


def test_candidates_are_ranked_and_do_without_the_sampled_token() -> None:
    outputs = generate(SEEDED).outputs
    for token, logprob, candidates in zip(outputs.token_ids, outputs.logprobs, outputs.candidate_tokens, strict=True):
        assert 2 <= len(candidates.tokens) <= 3
        assert token not in [each.id for each in candidates.tokens]
        better = [each for each in candidates.tokens if each.logprob > logprob]
        expected = list(range(1, 4))
        if len(candidates.tokens) == 2:  # the sampled token is the third of the three
            expected.remove(len(better) + 1)
        assert [each.rank for each in candidates.tokens] == expected


def test_only_what_is_asked_for_is_sent() -> None:
    message = GenerateRequest()
    message.CopyFrom(SEEDED)
    message.response.CopyFrom(ResponseOptions(output_text=False))
    response = generate(message)
    assert (response.outputs.text, response.outputs.num_tokens) == ("", 12)
    assert not response.outputs.token_ids
    assert not response.outputs.logprobs
    assert not response.outputs.candidate_tokens
    assert not response.prompt_info.token_ids
    message.response.CopyFrom(ResponseOptions())
    assert generate(message).outputs.text


def test_a_constraint_holds_and_the_models_own_end_is_told_from_another() -> None:
    outputs = generate(choosing("yes", "no")).outputs
    assert outputs.text in ("yes", "no")
    tokens = outputs.num_tokens + 1
    assert outputs.finish_info == FinishInfo(finish_reason=FinishInfo.STOP, num_output_tokens=tokens, eos_token_id=EOS)
    stopping = StoppingCriteria(stop_token_ids=[2], ignore_eos=True)
    outputs = generate(choosing("yes", "no", stopping=stopping)).outputs
    assert outputs.text in ("yes", "no")
    assert outputs.finish_info.stop_token_id == 2
    outputs = generate(choosing("yes", "yesyes", stopping=StoppingCriteria(ignore_eos=True))).outputs
    assert (outputs.text, outputs.finish_info.eos_token_id) == ("yesyes", EOS)


def test_a_stop_string_ends_the_text() -> None:
    whole = generate(SEEDED).outputs.text
    stop = next(character for character in whole[2:] if character.isascii())
    message = changed(SEEDED, stopping=StoppingCriteria(stop_strings=[stop]))
    for is_included in (False, True):
        message.stopping.include_stop_strings = is_included
        outputs = generate(message).outputs
        assert outputs.text == whole[: whole.index(stop)] + stop * is_included
        assert outputs.finish_info.finish_reason == FinishInfo.STOP
        assert outputs.finish_info.stop_string == stop


def test_three_sequences_come_by_their_index_with_seeds_in_a_row() -> None:
    responses, end = stream(changed(SEEDED, sampling=RandomSampling(num_sequences=3)))
    assert end.code is grpc.StatusCode.OK
    assert sum(each.HasField("prompt_info") for each in responses) == 1
    for index in range(3):
        alone = generate(changed(SEEDED, sampling=RandomSampling(seed=7 + index)))
        assert put_together(responses, index)["text"] == alone.outputs.text


def test_an_id_can_be_used_once_at_a_time() -> None:
    runner = GatedRunner()

    async def main() -> None:
        async with served(scripted_engine(runner)) as server:
            first = server.inference.GenerateStream(changed(SEEDED, request_id="a"))
            await anext(aiter(first))
            taken = await heard(server.vllm_engine.Generate(vllm_engine_request("a")))
            runner.gate.set()
            replies, end = await heard(first)
            again, later = await heard(server.inference.Generate(changed(SEEDED, request_id="a")))
        assert taken[0] == []
        assert taken[1].code is grpc.StatusCode.INVALID_ARGUMENT
        assert taken[1].error is not None
        assert (taken[1].error.kind, taken[1].error.pointer) == (ErrorKind.INVALID_SPEC, "/request_id")
        assert (end.code, later.code) == (grpc.StatusCode.OK, grpc.StatusCode.OK)
        assert replies
        assert again

    guarded(main)


def vllm_engine_request(request_id: str) -> Any:
    from smg_grpc_proto.generated import vllm_engine_pb2

    return vllm_engine_pb2.GenerateRequest(request_id=request_id, text="hi")


def test_many_calls_at_the_same_time_get_their_own_answers() -> None:
    seeds = range(24)

    async def main() -> list[str]:
        async with served() as server:
            messages = [changed(SEEDED, sampling=RandomSampling(seed=seed)) for seed in seeds]
            replies = await asyncio.gather(*(heard(server.inference.GenerateStream(each)) for each in messages))
            await server.is_idle()
        return ["".join(each.outputs.text for each in responses) for responses, _ in replies]

    texts = guarded(main)
    assert texts[7] == generate(SEEDED).outputs.text
    assert len(set(texts)) == len(seeds)
    assert texts == guarded(main)


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        (GenerateRequest(), ""),
        (changed(SEEDED, sampling=RandomSampling(num_sequences=3)), "/sampling/num_sequences"),
        (GenerateRequest(text="x" * 65), "/text"),
        (GenerateRequest(token_ids=TokenIds(ids=[9_999])), "/token_ids/ids"),
        (changed(SEEDED, stopping=StoppingCriteria(stop_strings=[""])), "/stopping/stop_strings"),
        (changed(SEEDED, stopping=StoppingCriteria(min_new_tokens=13)), "/stopping/min_new_tokens"),
    ],
)
def test_what_is_refused_is_refused_with_a_pointer(message: GenerateRequest, pointer: str) -> None:
    async def main() -> tuple[list[Any], Ending]:
        async with served() as server:
            return await heard(server.inference.Generate(message))

    replies, end = guarded(main)
    assert replies == []
    assert end.code is grpc.StatusCode.INVALID_ARGUMENT
    assert end.error is not None
    assert end.error.pointer == pointer
    assert pointer in end.details
