"""What a request's outcomes look like as ``vllm.grpc.engine.GenerateResponse``."""

from collections.abc import Iterable, Iterator

import attrs
from smg_grpc_proto.generated.vllm_engine_pb2 import (
    GenerateComplete,
    GenerateRequest,
    GenerateResponse,
    GenerateStreamChunk,
    OutputLogProbs,
    TopLogProbs,
)

from engine_adapter.outcome import Aborted, Delta, Failed, Finished, TokenLogprob
from engine_adapter.serve.grpc.asked import Asked, Model
from engine_adapter.serve.samples import SampleOutcome
from structout.errors import GrammarError


@attrs.define(eq=False)
class _Said:
    """What one sample has said so far."""

    token_ids: list[int] = attrs.field(factory=list)
    logprobs: list[TokenLogprob] = attrs.field(factory=list)


class Replies:
    """A chunk for each delta if the message asks for a stream; for each end what the sample said in all."""

    def __init__(self, message: GenerateRequest, asked: Asked, model: Model) -> None:
        self._is_streamed = message.stream
        self._prompt_tokens = len(asked.request.prompt)
        self._said = [_Said() for _ in range(asked.n)]

    def of(self, each: SampleOutcome) -> Iterator[GenerateResponse]:
        """The messages that an outcome becomes; a failure none."""
        said = self._said[each.index]
        match each.outcome:
            case Delta() as delta:
                said.token_ids += delta.token_ids
                said.logprobs += delta.logprobs
                if self._is_streamed:
                    yield GenerateResponse(chunk=self._chunk(each.index, delta))
            case Finished() as finished:
                complete = self._complete(each.index, finished.reason.value)
                complete.completion_tokens = finished.usage.completion_tokens
                if finished.stop_string is not None:
                    complete.matched_stop_str = finished.stop_string
                elif finished.stop_token_id is not None:
                    complete.matched_token_id = finished.stop_token_id
                yield GenerateResponse(complete=complete)
            case Aborted():
                yield GenerateResponse(complete=self._complete(each.index, "abort"))
            case Failed():
                pass

    def excused(self, index: int, error: GrammarError) -> GenerateResponse:
        """The message that says that one of several samples failed."""
        return GenerateResponse(complete=self._complete(index, error.consequence.finish_reason))

    def _chunk(self, index: int, delta: Delta) -> GenerateStreamChunk:
        return GenerateStreamChunk(
            index=index,
            token_ids=delta.token_ids,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=len(self._said[index].token_ids),
            output_logprobs=_logprobs(delta.logprobs),
        )

    def _complete(self, index: int, reason: str) -> GenerateComplete:
        said = self._said[index]
        return GenerateComplete(
            index=index,
            output_ids=said.token_ids,
            finish_reason=reason,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=len(said.token_ids),
            output_logprobs=_logprobs(said.logprobs),
        )


def _logprobs(logprobs: Iterable[TokenLogprob]) -> OutputLogProbs | None:
    given = tuple(logprobs)
    if not given:
        return None
    return OutputLogProbs(
        token_logprobs=[each.logprob for each in given],
        token_ids=[each.token_id for each in given],
        top_logprobs=[
            TopLogProbs(values=[value for _, value in each.top], token_ids=[token for token, _ in each.top])
            for each in given
        ],
    )
