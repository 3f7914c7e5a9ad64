"""The output of a response, made of a text as it comes: its items, and the events that tell of them.

An event is an object with its ``type``; the stream numbers them. An item is added before anything is said of it, and is
done when nothing more will be.
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeAlias

import attrs

from engine_adapter.serve.http.asking import JsonObject
from engine_adapter.serve.http.calls import CallReader, Forced, NamedCall, new_call_id

Event: TypeAlias = JsonObject

IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
INCOMPLETE: Final = "incomplete"


class Output(Protocol):
    """What one answer comes to."""

    def push(self, text: str) -> list[Event]:
        """Takes the next text, which is not empty."""
        ...

    def end(self, status: str) -> list[Event]:
        """Takes the end of an answer that has finished: what is open is done, with that status."""
        ...

    def items(self, status: str) -> list[JsonObject]:
        """The items so far; ``status`` is that of one that is not done."""
        ...


def output_of(forced: Forced | None) -> Output:
    """A message, or the calls that are forced."""
    match forced:
        case None:
            return MessageOutput()
        case NamedCall(name):
            return NamedCallOutput(Call(name, index=0))
        case _:
            return CallsOutput()


@attrs.define
class MessageOutput:
    """Text becomes the one part of one message."""

    id: str = attrs.field(factory=lambda: f"msg_{uuid.uuid4().hex}")
    texts: list[str] = attrs.field(factory=list)
    is_added: bool = False

    def push(self, text: str) -> list[Event]:
        self.texts.append(text)
        return [*self._added(), {**self._about("output_text.delta"), "delta": text, "logprobs": []}]

    def end(self, status: str) -> list[Event]:
        part = _part("".join(self.texts))
        return [
            *self._added(),
            {**self._about("output_text.done"), "text": part["text"], "logprobs": []},
            {**self._about("content_part.done"), "part": part},
            _item_event("done", 0, self._item([part], status)),
        ]

    def items(self, status: str) -> list[JsonObject]:
        return [self._item([_part("".join(self.texts))], status)]

    def _added(self) -> list[Event]:
        if self.is_added:
            return []
        self.is_added = True
        item = self._item([], IN_PROGRESS)
        return [_item_event("added", 0, item), {**self._about("content_part.added"), "part": _part("")}]

    def _about(self, kind: str) -> Event:
        return {"type": f"response.{kind}", "item_id": self.id, "output_index": 0, "content_index": 0}

    def _item(self, parts: Sequence[JsonObject], status: str) -> JsonObject:
        return {"type": "message", "id": self.id, "status": status, "role": "assistant", "content": [*parts]}


def _part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item_event(kind: str, index: int, item: JsonObject) -> Event:
    return {"type": f"response.output_item.{kind}", "output_index": index, "item": item}


@attrs.define
class Call:
    """A call as an item, whose arguments come piece by piece."""

    name: str
    index: int
    id: str = attrs.field(factory=lambda: f"fc_{uuid.uuid4().hex}")
    call_id: str = attrs.field(factory=new_call_id)
    pieces: list[str] = attrs.field(factory=list)
    is_added: bool = False

    def push(self, arguments: str) -> list[Event]:
        added = self._added()
        self.pieces.append(arguments)
        return [*added, {**self._about("delta"), "delta": arguments}]

    def end(self, status: str) -> list[Event]:
        item = self.item(status)
        done = {**self._about("done"), "name": self.name, "arguments": item["arguments"]}
        return [*self._added(), done, _item_event("done", self.index, item)]

    def item(self, status: str) -> JsonObject:
        return {
            "type": "function_call",
            "id": self.id,
            "call_id": self.call_id,
            "status": status,
            "name": self.name,
            "arguments": "".join(self.pieces),
        }

    def _added(self) -> list[Event]:
        if self.is_added:
            return []
        self.is_added = True
        return [_item_event("added", self.index, self.item(IN_PROGRESS))]

    def _about(self, kind: str) -> Event:
        name = f"response.function_call_arguments.{kind}"
        return {"type": name, "item_id": self.id, "output_index": self.index}


@attrs.define
class NamedCallOutput:
    """Text becomes the arguments of one call."""

    call: Call

    def push(self, text: str) -> list[Event]:
        return self.call.push(text)

    def end(self, status: str) -> list[Event]:
        return self.call.end(status)

    def items(self, status: str) -> list[JsonObject]:
        return [self.call.item(status)]


@attrs.define
class CallsOutput:
    """Text becomes calls, each as a whole; one that breaks off is none."""

    reader: CallReader = attrs.field(factory=CallReader)
    calls: list[Call] = attrs.field(factory=list)

    def push(self, text: str) -> list[Event]:
        return [event for call in self.reader.push(text) for event in self._whole(call.name, call.arguments)]

    def _whole(self, name: str, arguments: str) -> Iterable[Event]:
        call = Call(name, len(self.calls))
        self.calls.append(call)
        return [*call.push(arguments), *call.end(COMPLETED)]

    def end(self, status: str) -> list[Event]:
        return []

    def items(self, status: str) -> list[JsonObject]:
        return [call.item(COMPLETED) for call in self.calls]
