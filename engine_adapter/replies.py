"""The terminal check for OpenAI-shaped replies of any server, for what counts successes: load generators, monitors.

Four shapes are read: chat completions, completions, responses and embeddings. Every choice and every embedding has to
have its payload: one that is empty, or says that it failed, is the reply's error, and ``pointer`` says which it is. A
reply of another shape has no payload. Reasoning is none: it is not the answer.
"""

import base64
import math
from typing import Any, Final

import attrs
import numpy as np

from engine_adapter.terminal import CODE, EMPTY, Payload, TerminalRule, unusable, usable
from structout.errors import GrammarError

_FAILED: Final = frozenset({"error", "abort"})
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_MOST: Final = 2**31
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})


def check_reply(body: object, *, accepts_empty: bool = False, rule: TerminalRule = usable) -> GrammarError | None:
    """Why a reply with a success status is no success; None if it is one. Never raises on what JSON can hold.

    Args:
        body: the whole reply, as `json.loads` gives it.
        accepts_empty: whether the request has a grammar that accepts the empty text.
        rule: the terminal rule.
    """
    answers = _Answers()
    answers.take(body)
    return answers.verdict(accepts_empty, rule)


class StreamCheck:
    """`check_reply` for a reply that comes as the chunks of a stream. It may not break off before its choices end.

    Args:
        accepts_empty, rule: see `check_reply`.
    """

    def __init__(self, *, accepts_empty: bool = False, rule: TerminalRule = usable) -> None:
        self._accepts_empty = accepts_empty
        self._rule = rule
        self._answers = _Answers()

    def feed(self, chunk: object) -> None:
        """Takes the next chunk, as `json.loads` gives it. What is no part of a reply, such as ``[DONE]``, is none."""
        self._answers.take(chunk)

    def end(self) -> GrammarError | None:
        """To be called when the stream has ended: why it is no success; None if it is one."""
        unended = (each for each in self._answers.all if not each.has_ended)
        for answer in unended:
            answer.problem = answer.problem or "the stream ended before the reply did"
        return self._answers.verdict(self._accepts_empty, self._rule)


@attrs.define
class _Answer:
    """One choice, response or embedding, as far as it was read."""

    pointer: str
    texts: list[str] = attrs.field(factory=list)
    calls: set[int] = attrs.field(factory=set)
    vector: int = 0
    ran_out: bool = False
    has_ended: bool = False
    problem: str | None = None

    def add_message(self, message: Any) -> None:
        """The message of a choice or of a response, or a part of it."""
        message = _object(message)
        for key in ("content", "refusal"):
            self.add_text(message.get(key))
        for position, call in enumerate(_list(message.get("tool_calls"))):
            call = _object(call)
            if any(_text(_object(call.get(kind)).get("name")) for kind in ("function", "custom")):
                self.calls.add(_index(call, position))
        if _text(_object(message.get("function_call")).get("name")):
            self.calls.add(0)

    def add_text(self, content: Any) -> None:
        """A string, or a list of parts of which some have one."""
        for part in content if isinstance(content, list) else [{"text": content}]:
            self.texts += filter(None, (_text(_object(part).get(key)) for key in ("text", "refusal")))

    def end(self, reason: Any) -> None:
        """What it says of why it ended; nothing if it says nothing."""
        if _text(reason):
            self.has_ended, self.ran_out = True, reason in ("length", "max_output_tokens")
            self.problem = self.problem or ("the reply says that it failed" if reason in _FAILED else None)

    def verdict(self, accepts_empty: bool, rule: TerminalRule) -> GrammarError | None:
        if self.problem:
            return _said(self.problem, self.pointer)
        error = rule(
            Payload(
                text="".join(self.texts),
                tool_calls=len(self.calls),
                vector=self.vector,
                ran_out=self.ran_out,
                complete=True if accepts_empty else None,
            )
        )
        return error and attrs.evolve(error, pointer=self.pointer)


class _Answers:
    """All answers of a reply, put together from its chunks, or from the one chunk that a whole reply is."""

    def __init__(self) -> None:
        self._by_place: dict[tuple[str, int], _Answer] = {}
        self._error: GrammarError | None = None

    @property
    def all(self) -> list[_Answer]:
        """In the order of their indices, whichever began first."""
        return [answer for _, answer in sorted(self._by_place.items(), key=lambda item: item[0])]

    def _at(self, key: str, index: int) -> _Answer:
        return self._by_place.setdefault((key, index), _Answer(f"/{key}/{index}"))

    @property
    def _response(self) -> _Answer:
        return self._by_place.setdefault(("output", 0), _Answer("/output"))

    def take(self, body: Any) -> None:
        body = _object(body)
        if (body.get("error") or body.get("type") == "error") and self._error is None:
            said = _text(_object(body.get("error")).get("message")) or _text(body.get("message"))
            self._error = attrs.evolve(_said("the reply is an error", ""), detail=said or None)
        for position, choice in enumerate(_list(body.get("choices"))):
            self._take_choice(_object(choice), position)
        for position, each in enumerate(_list(body.get("data"))):
            self._take_embedding(_object(each), position)
        if isinstance(body.get("output"), list):
            self._take_response(body)
        elif (kind := _text(body.get("type"))).startswith("response."):
            answer = self._response
            if kind in _ENDS:
                self._take_response(_object(body.get("response")))
                answer.has_ended = True

    def _take_choice(self, choice: dict[str, Any], position: int) -> None:
        answer = self._at("choices", _index(choice, position))
        for key in ("message", "delta"):
            answer.add_message(choice.get(key))
        answer.add_text(choice.get("text"))
        answer.end(choice.get("finish_reason"))
        if choice.get("error"):
            answer.problem = "the reply says that it failed"

    def _take_embedding(self, each: dict[str, Any], position: int) -> None:
        answer = self._at("data", position)
        answer.vector, answer.has_ended = _numbers(each.get("embedding")), True

    def _take_response(self, response: dict[str, Any]) -> None:
        answer, status = self._response, _text(response.get("status"))
        for position, item in enumerate(_list(response.get("output"))):
            item = _object(item)
            kind = _text(item.get("type"))
            if kind == "message":
                answer.add_message(item)
            elif kind in _CALLS and _text(item.get("name")):
                answer.calls.add(position)
        answer.end(_object(response.get("incomplete_details")).get("reason"))
        if response.get("error") or status in ("failed", "cancelled"):
            answer.problem = "the reply says that it failed"
        elif status in ("queued", "in_progress"):
            answer.problem = "the reply has not ended"

    def verdict(self, accepts_empty: bool, rule: TerminalRule) -> GrammarError | None:
        if self._error is not None:
            return self._error
        if not self._by_place:
            return attrs.evolve(unusable(EMPTY), pointer="")
        verdicts = (answer.verdict(accepts_empty, rule) for answer in self.all)
        return next((error for error in verdicts if error is not None), None)


def _said(problem: str, pointer: str) -> GrammarError:
    return attrs.evolve(unusable(f"{CODE} {problem}"), pointer=pointer, hint=None)


def _numbers(embedding: Any) -> int:
    """How many numbers an embedding has, as a list or as the base64 of float32; none if one of them is not finite."""
    if isinstance(embedding, list):
        are_numbers = all(type(each) is int or (type(each) is float and math.isfinite(each)) for each in embedding)
        return len(embedding) if are_numbers else 0
    try:
        values = np.frombuffer(base64.b64decode(_text(embedding), validate=True), "<f4")
    except ValueError:
        return 0
    return len(values) if np.isfinite(values).all() else 0


def _index(value: dict[str, Any], position: int) -> int:
    """The index that a choice or a call says it has; its position if it says none."""
    index = value.get("index")
    return index if type(index) is int and 0 <= index < _MOST else position


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
