"""Forced tool calls: the text that `structout.parsing.parse_tools` constrains the model to, read as calls."""

import json
import uuid
from collections.abc import Mapping
from json.decoder import JSONDecoder
from typing import Any, Final, TypeAlias

import attrs

from engine_adapter.outcome import Finished, FinishReason
from engine_adapter.terminal import CODE, unusable
from structout.errors import GrammarError
from structout.parsing.fields import CARRIERS


@attrs.frozen
class NamedCall:
    """One function has to be called: the text is its arguments."""

    name: str


@attrs.frozen
class AnyCalls:
    """Functions have to be called, which ones is free: the text is an array of ``{"name", "parameters"}``."""


Forced: TypeAlias = NamedCall | AnyCalls


@attrs.frozen
class Call:
    """A call, its arguments as JSON text, just as the model wrote it."""

    name: str
    arguments: str


def forced_by(body: Mapping[str, Any]) -> Forced | None:
    """What the tool choice of a request forces, which `structout.parsing.parse_request` has taken."""
    for layer in (body, *(body.get(name) for name in CARRIERS)):
        match layer.get("tool_choice") if isinstance(layer, Mapping) else None:
            case "required":
                return AnyCalls()
            case {"function": {"name": str(name)}} | {"name": str(name)}:
                return NamedCall(name)
    return None


def new_call_id() -> str:
    return f"call_{uuid.uuid4().hex}"


# Numbers stay text: only where a value begins and ends is asked for, and no number is too long for that.
_DECODER: Final = JSONDecoder(parse_float=str, parse_int=str)
_SPACE: Final = " \t\n\r"


def read_call(text: str) -> Call | None:
    """A call out of the text of ``{"name": ..., "parameters": ...}``; None if it is anything else."""
    try:
        members = _members(text)
        name = json.loads(members["name"])
        return Call(name, members["parameters"]) if isinstance(name, str) else None
    except (ValueError, KeyError, IndexError, RecursionError):
        return None


def _members(text: str) -> dict[str, str]:
    """The texts of an object's values. Raises ValueError or IndexError where there is no object."""
    members: dict[str, str] = {}
    at = _after_space(text, 0)
    if text[at] != "{":
        raise ValueError("not an object")
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, _after_space(text, at + 1))
        at = _after_space(text, _after_space(text, at) + 1)  # the colon
        _, end = _DECODER.raw_decode(text, at)
        members[name] = text[at:end]
        at = _after_space(text, end)
    return members


def _after_space(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in _SPACE:
        at += 1
    return at


@attrs.define
class CallReader:
    """Reads calls off an array as its text comes, each once it is complete.

    Attributes:
        is_well_formed: whether all elements so far were calls.
    """

    is_well_formed: bool = True
    _element: list[str] = attrs.field(factory=list)
    _depth: int = 0
    _is_in_string: bool = False
    _is_escaped: bool = False

    def push(self, text: str) -> list[Call]:
        """The calls that ``text`` completes."""
        calls = [self._taken() for character in text if self._moves_on(character)]
        return [call for call in calls if call is not None]

    def _moves_on(self, character: str) -> bool:
        """Takes one character; whether it ends an element. An element is an object, directly in the array."""
        was_inside = self._depth > 1
        if self._is_escaped:
            self._is_escaped = False
        elif self._is_in_string:
            self._is_escaped = character == "\\"
            self._is_in_string = character != '"'
        elif character == '"':
            self._is_in_string = True
        else:
            self._depth += (character in "[{") - (character in "]}")
        if was_inside or self._depth > 1:
            self._element.append(character)
        return was_inside and self._depth == 1

    def _taken(self) -> Call | None:
        call = read_call("".join(self._element))
        self._element.clear()
        self.is_well_formed &= call is not None
        return call


def read_calls(text: str) -> list[Call] | None:
    """All calls in a complete array; None if it is not one of calls, or is empty."""
    reader = CallReader()
    calls = reader.push(text)
    return calls if calls and reader.is_well_formed else None


def unfit_for_calls(finished: Finished, forced: Forced | None) -> GrammarError | None:
    """Why a text that had to be calls is not; None if it is, broke off, or did not have to be."""
    is_list = isinstance(forced, AnyCalls) and finished.reason is FinishReason.STOP
    if is_list and read_calls(finished.text) is None:
        return unusable(f"{CODE} the text is no list of tool calls")
    return None
