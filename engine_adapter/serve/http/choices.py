"""Replies that are a list of choices, as those to chats and completions are: whole, and as a stream of chunks."""

import time
from typing import Final, Protocol

import attrs

from engine_adapter.outcome import Delta, Finished, Terminal
from engine_adapter.serve.http.asking import Asked, EventWriter, JsonObject
from engine_adapter.serve.http.errors import error_body
from engine_adapter.serve.http.sse import sse
from engine_adapter.serve.samples import SampleOutcome, Samples, failure_of
from structout.errors import GrammarError

_DONE: Final = b"data: [DONE]\n\n"


class ChoiceStream(Protocol):
    """Writes the chunks of one choice. Each method returns what belongs into ``choices``, which may be nothing yet."""

    def delta(self, delta: Delta) -> list[JsonObject]: ...

    def end(self, end: Terminal) -> list[JsonObject]: ...


class ChoiceShape(Protocol):
    """What the choices of one endpoint look like."""

    @property
    def id_prefix(self) -> str: ...

    @property
    def object_name(self) -> str:
        """``object`` of a whole reply."""
        ...

    @property
    def chunk_name(self) -> str:
        """``object`` of a part of a stream."""
        ...

    def judge(self, finished: Finished) -> GrammarError | None:
        """See `engine_adapter.serve.http.asking.Form`."""
        ...

    def choice(self, index: int, deltas: list[Delta], end: Terminal) -> JsonObject:
        """A choice of a whole reply."""
        ...

    def stream(self, index: int) -> ChoiceStream: ...


@attrs.frozen(kw_only=True)
class Choices:
    """A `Form`: a choice for each sample.

    Attributes:
        shape: what a choice looks like.
        has_usage: whether a stream ends with the counts of tokens.
    """

    shape: ChoiceShape
    has_usage: bool

    def judge(self, finished: Finished) -> GrammarError | None:
        return self.shape.judge(finished)

    def whole(self, asked: Asked, samples: Samples) -> JsonObject:
        choices = [
            self.shape.choice(index, deltas, end)
            for index, (deltas, end) in enumerate(zip(samples.deltas, samples.ends, strict=True))
            if end is not None
        ]
        return {**self.head(asked, self.shape.object_name), "choices": choices, "usage": _usage(asked, samples)}

    def stream(self, asked: Asked) -> EventWriter:
        head = self.head(asked, self.shape.chunk_name)
        return _Chunks(asked, head, self.has_usage, [self.shape.stream(index) for index in range(asked.n)])

    def head(self, asked: Asked, object_name: str) -> JsonObject:
        reply_id = self.shape.id_prefix + asked.request.id
        return {"id": reply_id, "object": object_name, "created": int(time.time()), "model": asked.model}


def _usage(asked: Asked, samples: Samples) -> dict[str, int]:
    usage = samples.usage(len(asked.request.prompt))
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


@attrs.frozen
class _Chunks:
    """See `engine_adapter.serve.http.asking.EventWriter`."""

    asked: Asked
    head: JsonObject
    has_usage: bool
    choices: list[ChoiceStream]

    def take(self, each: SampleOutcome) -> bytes:
        stream = self.choices[each.index]
        match each.outcome:
            case Delta() as delta:
                choices = stream.delta(delta)
            case end if self.asked.n == 1 and failure_of(end) is not None:
                choices = []
            case end:
                choices = stream.end(end)
        return b"".join(self._event([choice]) for choice in choices)

    def last(self, samples: Samples) -> bytes:
        if (error := samples.error) is not None:
            return self.broken(error)
        usage = _usage(self.asked, samples)
        return (sse({**self.head, "choices": [], "usage": usage}) if self.has_usage else b"") + _DONE

    def broken(self, error: GrammarError) -> bytes:
        return sse(error_body(error)) + _DONE

    def _event(self, choices: list[JsonObject]) -> bytes:
        usage = {"usage": None} if self.has_usage else {}
        return sse({**self.head, "choices": choices, **usage})
