"""The undocumented ``structured_output: {"type": ..., ...}`` that clients send."""

from typing import Any

from structout.errors import GrammarError
from structout.parsing.fields import STRUCTURED_OUTPUT_TYPES
from structout.parsing.limits import DEFAULT_LIMITS, SpecLimits
from structout.parsing.objects import members, only_one
from structout.parsing.openai import FIELDS_OF_TYPES, placed_response_format, type_of
from structout.parsing.places import Placed, value_of
from structout.parsing.problems import child, quote
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec

_TYPES = (*FIELDS_OF_TYPES, *STRUCTURED_OUTPUT_TYPES)
_HINT = 'Give a type, as in {"type": "json_schema", "schema": {...}}; structured_outputs, in the plural, needs none'


def parse_structured_output(
    value: object, *, limits: SpecLimits = DEFAULT_LIMITS, pointer: str = "/structured_output"
) -> Result[GrammarSpec | None, GrammarError]:
    """Whatever `parse_response_format` takes, and the types of `STRUCTURED_OUTPUT_TYPES`; null is None."""
    return placed_structured_output(value, limits=limits, pointer=pointer).map(value_of)


def placed_structured_output(
    value: object, *, limits: SpecLimits, pointer: str
) -> Result[Placed[GrammarSpec] | None, GrammarError]:
    """`parse_structured_output`, and where the constraint stands."""
    if value is None:
        return Ok(None)
    what = "structured_output"
    match type_of(value, _TYPES, what=what, pointer=pointer, hint=_HINT):
        case Err() as failed:
            return failed
        case Ok(kind) if kind in FIELDS_OF_TYPES:
            return placed_response_format(value, limits=limits, pointer=pointer)
        case Ok(kind):
            names = STRUCTURED_OUTPUT_TYPES[kind][1]
            what = f"{what} of type {quote(kind)}"
            given = members(value, ("type", *names), what=what, pointer=pointer)
            return given.and_then(lambda given: _constraint(given, what, limits, pointer))


def _constraint(
    given: dict[str, Any], what: str, limits: SpecLimits, pointer: str
) -> Result[Placed[GrammarSpec], GrammarError]:
    read, names = STRUCTURED_OUTPUT_TYPES[given["type"]]
    match only_one(given, names, what=what, pointer=pointer):
        case Err() as failed:
            return failed
        case Ok(name):
            return read(given[name], limits=limits, pointer=child(pointer, name))
