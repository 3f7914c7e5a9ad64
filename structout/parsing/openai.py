"""OpenAI's ``response_format``, and what vLLM, SGLang and llama.cpp have made of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from structout.errors import GrammarError
from structout.parsing.constructors import json_object, json_schema
from structout.parsing.limits import DEFAULT_LIMITS, SpecLimits
from structout.parsing.objects import members, only_one
from structout.parsing.places import Placed, as_it_stands, value_of
from structout.parsing.problems import child, describe, invalid, quote, quote_all, suggestion
from structout.parsing.tags import placed_tag
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec, JsonSchema

# ``schema`` beside json_object is llama.cpp's form, beside json_schema that of the Responses API.
FIELDS_OF_TYPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "text": (),
        "json_object": ("schema",),
        "json_schema": ("json_schema", "schema", "name", "description", "strict"),
        "structural_tag": ("format", "structures", "triggers", "at_least_one"),
    }
)
_WRAPPER_FIELDS = ("name", "description", "schema", "strict")
_json_schema_at = as_it_stands(json_schema)
_TYPE_HINT = 'Use an object with a type, such as {"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}'


def parse_response_format(
    value: object, *, limits: SpecLimits = DEFAULT_LIMITS, pointer: str = "/response_format"
) -> Result[GrammarSpec | None, GrammarError]:
    """``{"type": ...}``: ``text`` and null are None; ``json_object``; ``json_schema``; ``structural_tag``.

    A schema stands under ``json_schema.schema``, or directly under ``schema``, as in the Responses API's
    ``text.format``. ``json_object`` with a ``schema`` is that schema, and not any object. ``name`` and ``description``
    do not matter here. ``strict`` changes nothing: the schema is enforced soundly, which is what ``true`` promises,
    also where it is false or left out. To let more through, say so: ``structured_outputs.enforcement``.
    """
    return placed_response_format(value, limits=limits, pointer=pointer).map(value_of)


def placed_response_format(
    value: object, *, limits: SpecLimits, pointer: str
) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    """`parse_response_format`, and where the constraint stands."""
    if value is None:
        return Ok(None)
    match type_of(value, tuple(FIELDS_OF_TYPES), what="response_format", pointer=pointer, hint=_TYPE_HINT):
        case Err() as failed:
            return failed
        case Ok("structural_tag"):
            return placed_tag(value, limits=limits, pointer=pointer)
        case Ok(kind):
            what = f"response_format of type {quote(kind)}"
            given = members(value, ("type", *FIELDS_OF_TYPES[kind]), what=what, pointer=pointer)
            return given.and_then(lambda given: _constraint(given, limits, pointer))


def type_of(value: object, known: tuple[str, ...], *, what: str, pointer: str, hint: str) -> Result[str, GrammarError]:
    """The ``type`` of an object, which must be one of the ``known`` ones; ``hint`` is for an object without one."""
    if not isinstance(value, Mapping):
        return invalid(f"{what} must be an object, not {describe(value)}", pointer=pointer, hint=hint)
    pointer = child(pointer, "type")
    kind = value.get("type")
    if not isinstance(kind, str):
        found = "no type" if kind is None else f"{describe(kind)} for a type"
        return invalid(f"{what} has {found}", pointer=pointer, keyword="type", hint=hint)
    if kind not in known:
        message = f"{quote(kind)} is not a type of {what}{suggestion(kind, known)}"
        return invalid(message, pointer=pointer, keyword="type", hint=f"The types are {quote_all(known, 'and')}")
    return Ok(kind)


def _constraint(
    given: dict[str, Any], limits: SpecLimits, pointer: str
) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    match given["type"]:
        case "text":
            return Ok(None)
        case "json_object" if "schema" not in given:
            return as_it_stands(json_object)(True, limits=limits, pointer=pointer)
        case "json_object":
            return _json_schema_at(given["schema"], limits=limits, pointer=child(pointer, "schema"))
        case _:
            return _json_schema(given, limits, pointer)


def _json_schema(given: dict[str, Any], limits: SpecLimits, pointer: str) -> Result[Placed[JsonSchema], GrammarError]:
    match only_one(given, ("json_schema", "schema"), what="response_format", pointer=pointer):
        case Err() as failed:
            return failed
        case Ok("schema"):
            return _from_wrapper(given, limits, pointer)
        case Ok():
            return wrapped_schema(given["json_schema"], limits=limits, pointer=child(pointer, "json_schema"))


def wrapped_schema(value: object, *, limits: SpecLimits, pointer: str) -> Result[Placed[JsonSchema], GrammarError]:
    """A schema in OpenAI's wrapper, ``{"name", "description", "schema", "strict"}``."""
    if isinstance(value, Mapping) and value.get("schema") is None:
        message = "json_schema has no schema in it"
        hint = 'Put the schema itself under "schema": {"name": "answer", "schema": {...}}'
        return invalid(message, pointer=child(pointer, "schema"), keyword="schema", hint=hint)
    wrapper = members(value, _WRAPPER_FIELDS, what="json_schema", pointer=pointer, hint='Use {"name", "schema"}')
    return wrapper.and_then(lambda given: _from_wrapper(given, limits, pointer))


def schema_or_wrapped(
    value: object, /, *, limits: SpecLimits, pointer: str
) -> Result[Placed[JsonSchema], GrammarError]:
    """A schema, or a schema in OpenAI's wrapper, which has to be told apart: as a schema it would allow everything, for
    none of its names is a keyword that restricts anything."""
    if isinstance(value, Mapping) and "schema" in value and value.keys() <= set(_WRAPPER_FIELDS):
        return wrapped_schema(value, limits=limits, pointer=pointer)
    return _json_schema_at(value, limits=limits, pointer=pointer)


def _from_wrapper(given: dict[str, Any], limits: SpecLimits, pointer: str) -> Result[Placed[JsonSchema], GrammarError]:
    if not isinstance(strict := given.get("strict", False), bool):
        message = f"strict must be a boolean, not {describe(strict)}"
        return invalid(message, pointer=child(pointer, "strict"), keyword="strict")
    return _json_schema_at(given["schema"], limits=limits, pointer=child(pointer, "schema"))
