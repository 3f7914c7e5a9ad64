"""What a request's outcomes look like as ``vllm.GenerateResponse``."""

from collections.abc import Iterable, Iterator

from engine_adapter.outcome import Aborted, Delta, Failed, Finished, FinishReason, TokenLogprob
from engine_adapter.serve.grpc.asked import Asked, Model
from engine_adapter.serve.grpc.inference_pb2 import (
    CandidateTokenInfo,
    FinishInfo,
    GenerateRequest,
    GenerateResponse,
    PromptInfo,
    SequenceOutput,
)
from engine_adapter.serve.samples import SampleOutcome
from structout.errors import GrammarError

_REASONS = {FinishReason.STOP: FinishInfo.STOP, FinishReason.LENGTH: FinishInfo.LENGTH}


class StreamReplies:
    """A message for each outcome but a failure."""

    def __init__(self, message: GenerateRequest, asked: Asked, model: Model) -> None:
        self._options = message.response
        self._has_text = not self._options.HasField("output_text") or self._options.output_text
        self._prompt: tuple[int, ...] | None = asked.request.prompt
        self._eos = frozenset(model.vocabulary.eos_token_ids)
        self._delivered = [0] * asked.n

    def of(self, each: SampleOutcome) -> Iterator[GenerateResponse]:
        """The messages that an outcome becomes."""
        match each.outcome:
            case Delta() as delta:
                self._delivered[each.index] += len(delta.token_ids)
                yield self._response(self._news(each.index, delta))
            case Finished() as finished:
                yield self._response(SequenceOutput(index=each.index, finish_info=self._finish_info(finished)))
            case Aborted():
                end = FinishInfo(finish_reason=FinishInfo.ABORTED, num_output_tokens=self._delivered[each.index])
                yield self._response(SequenceOutput(index=each.index, finish_info=end))
            case Failed():
                pass

    def excused(self, index: int, error: GrammarError) -> None:
        """There is no message that says that one of several samples failed: it is the call that does."""

    def _response(self, outputs: SequenceOutput) -> GenerateResponse:
        if self._prompt is None:
            return GenerateResponse(outputs=outputs)
        ids = self._prompt if self._options.prompt_token_ids else ()
        info = PromptInfo(num_prompt_tokens=len(self._prompt), token_ids=ids)
        self._prompt = None
        return GenerateResponse(prompt_info=info, outputs=outputs)

    def _news(self, index: int, delta: Delta) -> SequenceOutput:
        options = self._options
        return SequenceOutput(
            index=index,
            text=delta.text if self._has_text else "",
            num_tokens=len(delta.token_ids),
            token_ids=delta.token_ids if options.output_token_ids else (),
            logprobs=[each.logprob for each in delta.logprobs] if options.output_logprobs else (),
            candidate_tokens=map(_candidates, delta.logprobs) if options.HasField("output_candidates") else (),
        )

    def _finish_info(self, finished: Finished) -> FinishInfo:
        info = FinishInfo(finish_reason=_REASONS[finished.reason], num_output_tokens=finished.usage.completion_tokens)
        if finished.stop_string is not None:
            info.stop_string = finished.stop_string
        elif finished.stop_token_id in self._eos:
            info.eos_token_id = finished.stop_token_id
        elif finished.stop_token_id is not None:
            info.stop_token_id = finished.stop_token_id
        return info


def _candidates(logprob: TokenLogprob) -> CandidateTokenInfo:
    ranked = enumerate(logprob.top, start=1)
    return CandidateTokenInfo(
        tokens=[
            CandidateTokenInfo.TokenInfo(id=token, logprob=value, rank=rank)
            for rank, (token, value) in ranked
            if token != logprob.token_id
        ]
    )


class WholeReply:
    """One message for the one sample: what a stream of its outcomes says, put together."""

    def __init__(self, message: GenerateRequest, asked: Asked, model: Model) -> None:
        self._stream = StreamReplies(message, asked, model)
        self._whole = GenerateResponse()
        self._texts: list[str] = []
        self._tokens = 0

    def of(self, each: SampleOutcome) -> Iterable[GenerateResponse]:
        """The message, once the sample has ended; nothing before."""
        for response in self._stream.of(each):
            self._texts.append(response.outputs.text)
            self._tokens += response.outputs.num_tokens
            self._whole.MergeFrom(response)  # lists are put together, the last of other values stays
        if not self._whole.outputs.HasField("finish_info"):
            return ()
        self._whole.outputs.text = "".join(self._texts)
        self._whole.outputs.num_tokens = self._tokens
        return (self._whole,)

    def excused(self, index: int, error: GrammarError) -> None:
        """There are no several samples."""
