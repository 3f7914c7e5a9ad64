"""``/v1/completions``: a prompt, as text or as token ids, and how it goes on."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from engine_adapter.outcome import Delta, Finished, Terminal, TokenLogprob
from engine_adapter.serve.http.asking import Asked, JsonObject, Wanted, asked, read_for, tokens_of
from engine_adapter.serve.http.choices import Choices, ChoiceStream
from engine_adapter.serve.http.endings import ending
from engine_adapter.serve.http.logprobs import CompletionLogprobs
from engine_adapter.serve.http.requests import CompletionRequest
from engine_adapter.serve.served import ServedModel
from structout.errors import GrammarError
from structout.result import Err, Ok, Result
from structout.vocabulary import Vocabulary

DEFAULT_MAX_TOKENS: Final = 16
"""As in OpenAI's API."""

_PLACES: Final = {"prompt": "/prompt", "max_tokens": "/max_tokens", "logprobs": "/logprobs"}


def read_completion(body: Mapping[str, Any], served: ServedModel, request_id: str) -> Result[Asked, GrammarError]:
    """What a completion's body asks for."""
    match read_for(served, body, CompletionRequest):
        case Err() as failed:
            return failed
        case Ok(fields):
            pass
    match tokens_of(fields.prompt, served):
        case Err(refused):
            return Err(attrs.evolve(refused, pointer="/prompt"))
        case Ok(prompt):
            pass
    wanted = Wanted(
        prompt=prompt,
        max_tokens=fields.max_tokens or DEFAULT_MAX_TOKENS,
        form=Choices(
            shape=CompletionShape(served.vocabulary, has_logprobs=fields.logprobs is not None),
            has_usage=fields.has_usage,
        ),
        places=_PLACES,
        logprobs=fields.logprobs,
        stop=tuple(fields.stop or ()),
        n=fields.n or 1,
    )
    return asked(body, fields, wanted, served, request_id)


@attrs.frozen
class CompletionShape:
    """See `engine_adapter.serve.http.choices.ChoiceShape`."""

    vocabulary: Vocabulary
    has_logprobs: bool = attrs.field(kw_only=True)

    id_prefix: ClassVar[str] = "cmpl-"
    object_name: ClassVar[str] = "text_completion"
    chunk_name: ClassVar[str] = "text_completion"

    def judge(self, finished: Finished) -> GrammarError | None:
        return None

    def choice(self, index: int, deltas: list[Delta], end: Terminal) -> JsonObject:
        text = "".join(delta.text for delta in deltas)
        logprobs = self.logprobs([each for delta in deltas for each in delta.logprobs])
        return {"index": index, "text": text, "logprobs": logprobs, **ending(end)}

    def logprobs(self, logprobs: list[TokenLogprob]) -> JsonObject | None:
        return CompletionLogprobs(self.vocabulary).of(logprobs) if self.has_logprobs else None

    def stream(self, index: int) -> ChoiceStream:
        return CompletionStream(index, CompletionLogprobs(self.vocabulary) if self.has_logprobs else None)


@attrs.define
class CompletionStream:
    """See `choices.ChoiceStream`. Tokens that complete no text wait for the next that does."""

    index: int
    logprobs: CompletionLogprobs | None
    waiting: list[TokenLogprob] = attrs.field(factory=list)

    def delta(self, delta: Delta) -> list[JsonObject]:
        self.waiting += delta.logprobs
        return [self._chunk(delta.text) | {"finish_reason": None}] if delta.text else []

    def end(self, end: Terminal) -> list[JsonObject]:
        return [self._chunk("") | ending(end)]

    def _chunk(self, text: str) -> JsonObject:
        logprobs = self.logprobs.of(self.waiting) if self.logprobs and (text or self.waiting) else None
        self.waiting = []
        return {"index": self.index, "text": text, "logprobs": logprobs}
