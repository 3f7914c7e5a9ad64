"""``tools`` and ``tool_choice``: what a forced function call may look like."""

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from structout.errors import GrammarError
from structout.parsing.json_text import JsonText, read_json
from structout.parsing.limits import DEFAULT_LIMITS, SpecLimits
from structout.parsing.places import Place, Placed, value_of
from structout.parsing.problems import child, describe, invalid, quote, quote_all, suggestion, unsupported
from structout.parsing.rebase import rebase
from structout.parsing.texts import check_text
from structout.result import Err, Ok, Result
from structout.spec import Dialect, JsonSchema

_MODES: Final = ("none", "auto", "required")
_UNSUPPORTED_CHOICES: Final = ("allowed_tools", "custom")
_HINT = 'Use "none", "auto", "required" or {"type": "function", "function": {"name": ...}}'
_NO_PARAMETERS: Final = '{"type": "object", "properties": {}}'


@attrs.frozen
class _Function:
    """A function that may be called.

    Attributes:
        name: what the model calls it.
        parameters: the schema of its arguments as the client sent it; an empty one counts as left out.
        pointer: where it is described in the request.
    """

    name: str
    parameters: object
    pointer: str

    @property
    def place(self) -> Place:
        """Where its parameters stand; itself where they are left out."""
        return Place(self.pointer, {}) if self._left_out else Place(child(self.pointer, "parameters"))

    @property
    def _left_out(self) -> bool:
        return self.parameters is None or (isinstance(self.parameters, dict) and not self.parameters)

    def read(self, limits: SpecLimits) -> Result[JsonText, GrammarError]:
        """Its parameters, which must be a schema that is an object; any object where there are none."""
        pointer = child(self.pointer, "parameters")
        what = f"the schema of the parameters of {quote(self.name)}"
        schema = _NO_PARAMETERS if self._left_out else self.parameters
        read = read_json(schema, what=what, limits=limits, pointer=pointer)
        if isinstance(read, Ok) and not isinstance(read.value.value, dict):
            return invalid(f"{what} must be an object, not {describe(read.value.value)}", pointer=pointer)
        return read


def parse_tools(
    tools: object,
    tool_choice: object,
    *,
    parallel_tool_calls: object = None,
    limits: SpecLimits = DEFAULT_LIMITS,
    pointer: str = "",
) -> Result[JsonSchema | None, GrammarError]:
    """What ``tool_choice`` forces: a function's arguments, or a list of calls.

    null, ``"none"`` and ``"auto"`` are None, and ``tools`` are not looked at then, ``strict`` functions included: when
    a model is free to call, the form of a call is the model's own, which a request does not say. A function by name is
    the JSON of its parameters, in the Chat Completions form as in that of the Responses API. ``"required"`` is a JSON
    array of ``{"name", "parameters"}``, one at least, and one at most where ``parallel_tool_calls`` is false.
    ``pointer`` is where the three fields stand.
    """
    forced = placed_tools(tools, tool_choice, parallel_tool_calls=parallel_tool_calls, limits=limits, pointer=pointer)
    return forced.map(value_of)


def placed_tools(
    tools: object, tool_choice: object, *, parallel_tool_calls: object, limits: SpecLimits, pointer: str
) -> Result[Placed[JsonSchema] | None, GrammarError]:
    """`parse_tools`, and where the parameters stand that the schema is made of."""
    place = child(pointer, "tool_choice")
    if tool_choice is None:
        return Ok(None)
    if not isinstance(tool_choice, str):
        return _chosen_name(tool_choice, place).and_then(lambda name: _call_of(name, tools, limits, pointer))
    if tool_choice not in _MODES:
        message = f"{quote(tool_choice)} is not a tool choice{suggestion(tool_choice, _MODES)}"
        return invalid(message, pointer=place, keyword="tool_choice", hint=_HINT)
    if tool_choice != "required":
        return Ok(None)
    functions = _functions(tools, limits, child(pointer, "tools"), others_too=False)
    return functions.and_then(
        lambda functions: _any_call(functions, parallel_tool_calls is False, limits, child(pointer, "tools"))
    )


def _chosen_name(tool_choice: object, pointer: str) -> Result[str, GrammarError]:
    """The name in ``{"type": "function", "function": {"name"}}`` or ``{"type": "function", "name"}``."""
    if not isinstance(tool_choice, Mapping):
        message = f"tool_choice must be a string or an object, not {describe(tool_choice)}"
        return invalid(message, pointer=pointer, keyword="tool_choice", hint=_HINT)
    kind = tool_choice.get("type")
    if isinstance(kind, str) and kind in _UNSUPPORTED_CHOICES:
        message = f"a tool choice of type {quote(kind)} is not supported"
        return unsupported(message, pointer=child(pointer, "type"), keyword="type", hint=_HINT)
    if not isinstance(kind, str) or kind != "function":
        message = 'the type of a tool choice must be "function"'
        return invalid(message, pointer=child(pointer, "type"), keyword="type", hint=_HINT)
    function, place = _function_object(tool_choice, pointer)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        message = "tool_choice does not name a function"
        return invalid(message, pointer=child(place, "name"), keyword="name", hint=_HINT)
    return Ok(name)


def _function_object(value: Mapping[str, Any], pointer: str) -> tuple[object, str]:
    """Chat Completions put a function's fields under ``function``, the Responses API beside ``type``."""
    return (value["function"], child(pointer, "function")) if "function" in value else (value, pointer)


def _functions(
    tools: object, limits: SpecLimits, pointer: str, *, others_too: bool
) -> Result[tuple[_Function, ...], GrammarError]:
    """The functions among the tools; another kind of tool is passed over or refused."""
    if not isinstance(tools, list) or not tools:
        found = "is empty" if isinstance(tools, list) else f"is {describe(tools)}"
        message = f"tool_choice forces a call, but tools, which must be an array of functions, {found}"
        return invalid(message, pointer=pointer, keyword="tools", hint='Give the functions in tools, or use "auto"')
    functions: list[_Function] = []
    for index, tool in enumerate(tools):
        place = child(pointer, index)
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if isinstance(kind, str) and kind != "function":
            if others_too:
                continue
            message = f"a call of a tool of type {quote(kind)} is not supported"
            hint = 'Name a function in tool_choice, or use "auto"'
            return unsupported(message, pointer=child(place, "type"), keyword="type", hint=hint)
        match _function(tool, limits, place):
            case Err() as failed:
                return failed
            case Ok(function):
                functions.append(function)
    return _distinct(functions)


def _function(tool: object, limits: SpecLimits, pointer: str) -> Result[_Function, GrammarError]:
    if not isinstance(tool, Mapping):
        return invalid(f"a tool must be an object, not {describe(tool)}", pointer=pointer)
    function, place = _function_object(tool, pointer)
    if not isinstance(function, Mapping):
        return invalid(f"a function must be an object, not {describe(function)}", pointer=place)
    name = function.get("name")
    if not isinstance(name, str) or not name:
        return invalid("a function has no name", pointer=child(place, "name"), keyword="name")
    checked = check_text(name, what="the name of a function", limits=limits, pointer=child(place, "name"))
    return checked.and_then(lambda name: Ok(_Function(name, function.get("parameters"), place)))


def _distinct(functions: list[_Function]) -> Result[tuple[_Function, ...], GrammarError]:
    seen: set[str] = set()
    for function in functions:
        if function.name in seen:
            message = f"two functions have the name {quote(function.name)}"
            return invalid(message, pointer=child(function.pointer, "name"), keyword="name", hint="Rename one of them")
        seen.add(function.name)
    return Ok(tuple(functions))


def _call_of(name: str, tools: object, limits: SpecLimits, pointer: str) -> Result[Placed[JsonSchema], GrammarError]:
    match _functions(tools, limits, child(pointer, "tools"), others_too=True):
        case Err() as failed:
            return failed
        case Ok(functions):
            pass
    for function in functions:
        if function.name == name:
            return _arguments(function, limits)
    names = tuple(function.name for function in functions)
    message = f"tool_choice names {quote(name)}, which is not a function in tools{suggestion(name, names)}"
    hint = f"The functions are {quote_all(names, 'and')}" if names else "Give at least one function in tools"
    return invalid(message, pointer=child(pointer, "tool_choice"), keyword="tool_choice", hint=hint)


def _arguments(function: _Function, limits: SpecLimits) -> Result[Placed[JsonSchema], GrammarError]:
    return function.read(limits).map(lambda parameters: Placed(JsonSchema(parameters.text), function.place))


def _any_call(
    functions: tuple[_Function, ...], at_most_one: bool, limits: SpecLimits, place: str
) -> Result[Placed[JsonSchema], GrammarError]:
    definitions: dict[str, Any] = {}
    parts: dict[str, str] = {}
    dialects: set[str] = set()
    for index, function in enumerate(functions):
        match function.read(limits):
            case Err() as failed:
                return failed
            case Ok(parameters):
                dialects.add(_take_dialect(parameters.value))
                name = f"parameters_{index}"
                definitions[name] = rebase(parameters.value, f"/$defs/{name}")
                parts |= {f"/$defs/{name}{inside}": outside for inside, outside in function.place.parts.items()}
    if len(dialects) > 1:
        message = f"the parameters of the functions are in more than one dialect: {quote_all(sorted(dialects), 'and')}"
        hint = 'Give all of them the same "$schema"'
        return unsupported(message, pointer=place, keyword="$schema", hint=hint)
    calls = [_call(function.name, name) for function, name in zip(functions, definitions, strict=True)]
    text = json.dumps(_list_of(calls, definitions, dialects.pop(), at_most_one), ensure_ascii=False)
    checked = check_text(text, what="the schema of all calls", limits=limits, pointer=place)
    return checked.map(lambda text: Placed(JsonSchema(text), Place(place, parts)))


def _list_of(
    calls: list[dict[str, Any]], definitions: dict[str, Any], dialect: str, at_most_one: bool
) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": {"anyOf": calls}, "minItems": 1}
    if at_most_one:
        schema["maxItems"] = 1
    if dialect != Dialect.DRAFT_2020_12.value:
        schema = {"$schema": dialect, **schema}
    return {**schema, "$defs": definitions}


def _take_dialect(schema: dict[str, Any]) -> str:
    """Takes ``$schema``, which says something at the root only, out of a schema that is about to lie elsewhere."""
    if "$id" not in schema and isinstance(schema.get("$schema"), str):
        return str(schema.pop("$schema"))
    return Dialect.DRAFT_2020_12.value


def _call(function: str, definition: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "name": {"type": "string", "enum": [function]},
            "parameters": {"$ref": f"#/$defs/{definition}"},
        },
        "required": ["name", "parameters"],
        "additionalProperties": False,
    }
