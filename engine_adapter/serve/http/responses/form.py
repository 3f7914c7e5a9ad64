"""A response: one object, which the events of a stream tell as it comes to be."""

import itertools
import time
from collections.abc import Iterator
from typing import Final

import attrs

from engine_adapter.outcome import Delta, Finished, FinishReason, Terminal
from engine_adapter.serve.http.asking import Asked, EventWriter, JsonObject
from engine_adapter.serve.http.calls import Forced, unfit_for_calls
from engine_adapter.serve.http.errors import error_object
from engine_adapter.serve.http.responses.items import COMPLETED, IN_PROGRESS, INCOMPLETE, Event, Output, output_of
from engine_adapter.serve.http.sse import sse
from engine_adapter.serve.samples import SampleOutcome, Samples, failure_of
from structout.errors import GrammarError

FAILED: Final = "failed"


@attrs.frozen(kw_only=True)
class ResponseForm:
    """A `Form` for a single sample.

    Attributes:
        forced: the calls that its text has to be, if any.
        settings: what the reply says again of the request.
    """

    forced: Forced | None
    settings: JsonObject

    def judge(self, finished: Finished) -> GrammarError | None:
        return unfit_for_calls(finished, self.forced)

    def whole(self, asked: Asked, samples: Samples) -> JsonObject:
        """The same as what the last event of a stream has in it."""
        output = output_of(self.forced)
        for delta in samples.deltas[0]:
            if delta.text:
                output.push(delta.text)
        return _Reply.to(asked, self.settings).ended(samples, output)

    def stream(self, asked: Asked) -> EventWriter:
        return _Events(_Reply.to(asked, self.settings), output_of(self.forced))


@attrs.frozen
class _Reply:
    """The response object: ``head`` is what stays the same in it."""

    asked: Asked
    head: JsonObject

    @classmethod
    def to(cls, asked: Asked, settings: JsonObject) -> "_Reply":
        head = {"id": f"resp_{asked.request.id}", "object": "response", "created_at": int(time.time())}
        return cls(asked, {**head, "model": asked.model, **settings})

    def begun(self) -> JsonObject:
        """As it is before there is anything in it."""
        state: JsonObject = {
            "status": IN_PROGRESS,
            "error": None,
            "incomplete_details": None,
            "output": [],
            "usage": None,
        }
        return {**self.head, **state}

    def ended(self, samples: Samples, output: Output) -> JsonObject:
        """As it is when its sample has ended, whichever way."""
        [end] = samples.ends
        assert end is not None, "the sample has ended"
        status, error = status_of(end), failure_of(end)
        return {
            **self.head,
            "status": status,
            "error": error and error_object(error),
            "incomplete_details": {"reason": "max_output_tokens"} if status == INCOMPLETE else None,
            "output": output.items(COMPLETED if status == COMPLETED else INCOMPLETE),
            "usage": self._usage(samples),
        }

    def _usage(self, samples: Samples) -> JsonObject:
        usage = samples.usage(len(self.asked.request.prompt))
        return {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        }


def status_of(end: Terminal) -> str:
    """The status of a response that has ended."""
    if isinstance(end, Finished):
        return COMPLETED if end.reason is FinishReason.STOP else INCOMPLETE
    return FAILED


@attrs.define
class _Events:
    """See `engine_adapter.serve.http.asking.EventWriter`. That the response was created is told with the first thing
    that is said in it."""

    reply: _Reply
    output: Output
    numbers: Iterator[int] = attrs.field(factory=itertools.count)
    has_begun: bool = False

    def take(self, each: SampleOutcome) -> bytes:
        match each.outcome:
            case Delta(text=text):
                events = self.output.push(text) if text else []
                return self._written([*self._beginning(), *events]) if events else b""
            case Finished() as finished:
                return self._written([*self._beginning(), *self.output.end(status_of(finished))])
            case _:
                return b""

    def last(self, samples: Samples) -> bytes:
        response = self.reply.ended(samples, self.output)
        return self._written([{"type": f"response.{response['status']}", "response": response}])

    def broken(self, error: GrammarError) -> bytes:
        said = error_object(error)
        return self._written([{"type": "error", **{name: said[name] for name in ("code", "message", "param")}}])

    def _beginning(self) -> list[Event]:
        if self.has_begun:
            return []
        self.has_begun = True
        response = self.reply.begun()
        return [{"type": f"response.{kind}", "response": response} for kind in ("created", IN_PROGRESS)]

    def _written(self, events: list[Event]) -> bytes:
        return b"".join(sse({**event, "sequence_number": next(self.numbers)}, event=event["type"]) for event in events)
