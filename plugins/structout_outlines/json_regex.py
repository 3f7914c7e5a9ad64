"""From a JSON Schema to the regular expression that outlines_core makes of it, without what it would get wrong."""

import json
from typing import Any, Final

from outlines_core.json_schema import build_regex_from_schema

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.schema import Node, reachable
from structout.schema.loading import load_schema
from structout.spec import FormatMode, JsonSchema, Whitespace
from structout_outlines.ecma import string_pattern
from structout_outlines.extent import MAX_DEPTH
from structout_outlines.rules import ALL_TYPES, dispatch

_WHITESPACE: Final = {Whitespace.ANY: "[ ]?", Whitespace.COMPACT: ""}
_APPROXIMATE_FORMATS: Final = ("uuid", "date", "date-time")
# Keywords that the library made up. To JSON Schema they say nothing.
_FOREIGN: Final = (
    *("depth", "minDigits", "maxDigits", "minDigitsInteger", "maxDigitsInteger"),
    *("minDigitsFraction", "maxDigitsFraction", "minDigitsExponent", "maxDigitsExponent"),
)


def to_regex(spec: JsonSchema) -> Result[str, GrammarError]:
    """The pattern for the JSON texts of a schema that `structout_outlines.refusals` has not refused."""
    match load_schema(spec):
        case Err() as error:
            return error
        case Ok(schema):
            pass
    for node in list(reachable(schema, spec.dialect)):
        _prepare(node, spec.format_mode)
    try:
        # The recursion depth counts references that are nested; without recursion there are not many.
        text = json.dumps(schema, ensure_ascii=False)
        return Ok(build_regex_from_schema(text, _WHITESPACE[spec.serialization.whitespace], MAX_DEPTH))
    except (ValueError, TypeError) as error:
        return Err(_explained(error))


def _prepare(node: Node, format_mode: FormatMode) -> None:
    """Changes a schema in place into what the library takes as it is meant, except for what is listed as unenforced."""
    schema = node.schema
    if schema is True and node.parent is not None and node.keyword != "additionalProperties":
        _replace(node, {"type": list(ALL_TYPES)})
    if isinstance(schema, bool):
        return
    for keyword in _FOREIGN:
        schema.pop(keyword, None)
    _prepare_string(schema, format_mode)
    if dispatch(schema) is None:
        # The library has no group around the alternatives of {}, and no notion of other schemas without a type.
        schema["type"] = list(ALL_TYPES)


def _prepare_string(schema: dict[str, Any], format_mode: FormatMode) -> None:
    if "pattern" in schema:
        pattern = string_pattern(schema.pop("pattern"))
        if pattern is not None:
            schema["pattern"] = pattern.text
    if format_mode is FormatMode.ANNOTATE or schema.get("format") not in _APPROXIMATE_FORMATS:
        schema.pop("format", None)


def _replace(node: Node, schema: dict[str, Any]) -> None:
    assert node.parent is not None
    holder: Any = node.parent.schema
    for token in node.path[:-1]:
        holder = holder[token]
    holder[node.path[-1]] = schema


def _explained(error: ValueError | TypeError) -> GrammarError:
    """What an error of the library means."""
    return GrammarError(
        kind=ErrorKind.UNSUPPORTED,
        message="outlines cannot write this schema as a regular expression.",
        hint="use another backend",
        detail=str(error)[:500],
    )
