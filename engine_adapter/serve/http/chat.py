"""``/v1/chat/completions``: a conversation and the model's next turn, or the calls that it is forced to make."""

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from engine_adapter.outcome import Delta, Finished, Terminal, TokenLogprob
from engine_adapter.serve.http.asking import Asked, JsonObject, Wanted, asked, read_for
from engine_adapter.serve.http.calls import (
    AnyCalls,
    Call,
    CallReader,
    Forced,
    NamedCall,
    forced_by,
    new_call_id,
    unfit_for_calls,
)
from engine_adapter.serve.http.choices import Choices, ChoiceStream
from engine_adapter.serve.http.endings import ending
from engine_adapter.serve.http.logprobs import chat_logprobs
from engine_adapter.serve.http.requests import ChatRequest
from engine_adapter.serve.served import ServedModel
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.vocabulary import Vocabulary


def read_chat(body: Mapping[str, Any], served: ServedModel, request_id: str) -> Result[Asked, GrammarError]:
    """What a chat's body asks for."""
    match read_for(served, body, ChatRequest):
        case Err() as failed:
            return failed
        case Ok(fields):
            pass
    if (error := _contradiction(fields)) is not None:
        return Err(error)
    match served.prompts.of_chat([message.for_template() for message in fields.messages], fields.tools):
        case Err(refused):
            return Err(attrs.evolve(refused, pointer="/messages"))
        case Ok(prompt):
            pass
    wanted = Wanted(
        prompt=prompt,
        max_tokens=fields.max_completion_tokens or fields.max_tokens or served.max_len,
        form=Choices(
            shape=ChatShape(served.vocabulary, forced_by(body), has_logprobs=bool(fields.logprobs)),
            has_usage=fields.has_usage,
        ),
        places={
            "prompt": "/messages",
            "max_tokens": "/max_tokens" if fields.max_completion_tokens is None else "/max_completion_tokens",
            "logprobs": "/top_logprobs",
        },
        logprobs=(fields.top_logprobs or 0) if fields.logprobs else None,
        stop=tuple(fields.stop or ()),
        n=fields.n or 1,
    )
    return asked(body, fields, wanted, served, request_id)


def _contradiction(fields: ChatRequest) -> GrammarError | None:
    """What is wrong with two fields together."""
    if fields.top_logprobs is not None and not fields.logprobs:
        return _invalid("top_logprobs goes with logprobs: true", "top_logprobs")
    limits = {fields.max_tokens, fields.max_completion_tokens} - {None}
    if len(limits) > 1:
        return _invalid("max_tokens and max_completion_tokens say different things", "max_tokens")
    return None


def _invalid(message: str, field: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, pointer=f"/{field}", keyword=field)


@attrs.frozen
class ChatShape:
    """See `engine_adapter.serve.http.choices.ChoiceShape`."""

    vocabulary: Vocabulary
    forced: Forced | None
    has_logprobs: bool = attrs.field(kw_only=True)

    id_prefix: ClassVar[str] = "chatcmpl-"
    object_name: ClassVar[str] = "chat.completion"
    chunk_name: ClassVar[str] = "chat.completion.chunk"

    def judge(self, finished: Finished) -> GrammarError | None:
        return unfit_for_calls(finished, self.forced)

    def choice(self, index: int, deltas: list[Delta], end: Terminal) -> JsonObject:
        text = "".join(delta.text for delta in deltas)
        message: JsonObject = {"role": "assistant", "content": text, "refusal": None}
        if self.forced is not None:
            message |= {"content": None, "tool_calls": [_call(call) for call in _calls(self.forced, text)]}
        logprobs = self.logprobs([each for delta in deltas for each in delta.logprobs])
        return {"index": index, "message": message, "logprobs": logprobs, **self.ending(end)}

    def logprobs(self, logprobs: list[TokenLogprob]) -> JsonObject | None:
        return chat_logprobs(logprobs, self.vocabulary) if self.has_logprobs else None

    def ending(self, end: Terminal) -> JsonObject:
        return ending(end, when_stopped="tool_calls" if self.forced else "stop")

    def stream(self, index: int) -> ChoiceStream:
        match self.forced:
            case None:
                return ChatStream(self, index, _Text())
            case NamedCall(name):
                return ChatStream(self, index, _Arguments(name))
            case AnyCalls():
                return ChatStream(self, index, _Calls())


def _calls(forced: Forced, text: str) -> list[Call]:
    """The calls in a text; in one that broke off those that are complete, and of a named one what there is of it."""
    if isinstance(forced, NamedCall):
        return [Call(forced.name, text)]
    return CallReader().push(text)


def _call(call: Call) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": new_call_id(), "type": "function", "function": function}


class _Text:
    """Text becomes text."""

    def pieces(self, text: str) -> JsonObject:
        return {"content": text}


@attrs.define
class _Arguments:
    """Text becomes the arguments of one call, piece by piece."""

    name: str
    has_begun: bool = False

    def pieces(self, text: str) -> JsonObject:
        piece = {"function": {"arguments": text}} if self.has_begun else _call(Call(self.name, text))
        self.has_begun = True
        return {"tool_calls": [{"index": 0, **piece}]}


@attrs.define
class _Calls:
    """Text becomes calls, each as a whole."""

    reader: CallReader = attrs.field(factory=CallReader)
    count: int = 0

    def pieces(self, text: str) -> JsonObject:
        calls = self.reader.push(text)
        indexed = [{"index": self.count + place, **_call(call)} for place, call in enumerate(calls)]
        self.count += len(calls)
        return {"tool_calls": indexed} if indexed else {}


@attrs.define
class ChatStream:
    """See `engine_adapter.serve.http.choices.ChoiceStream`. The role comes with the first thing that is said;
    log-probabilities of tokens that say nothing wait for the next that do."""

    shape: ChatShape
    index: int
    writer: _Text | _Arguments | _Calls
    is_first: bool = True
    waiting: list[TokenLogprob] = attrs.field(factory=list)

    def delta(self, delta: Delta) -> list[JsonObject]:
        self.waiting += delta.logprobs
        pieces = self.writer.pieces(delta.text) if delta.text else {}
        return [self._chunk(pieces) | {"finish_reason": None}] if pieces else []

    def end(self, end: Terminal) -> list[JsonObject]:
        return [self._chunk({}) | self.shape.ending(end)]

    def _chunk(self, pieces: JsonObject) -> JsonObject:
        role = {"role": "assistant"} if self.is_first else {}
        logprobs = self.shape.logprobs(self.waiting) if pieces or self.waiting else None
        self.is_first, self.waiting = False, []
        return {"index": self.index, "delta": role | pieces, "logprobs": logprobs}
