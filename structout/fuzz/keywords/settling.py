"""What makes a schema object, once written, more likely to mean something: bounds in order, recursion that can end."""

from collections.abc import Collection, Iterator
from typing import Any, Final

from structout.fuzz.choices import Choices

_COUNTS: Final = (
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minContains", "maxContains"),
)
_LOWER: Final = ("minimum", "exclusiveMinimum")
_UPPER: Final = ("maximum", "exclusiveMaximum")
_FORCING: Final = frozenset(
    {"required", "minProperties", "dependentRequired", "dependencies", "minItems", "contains", "minContains"}
)
_PARTS: Final = (
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
    *("prefixItems", "items", "additionalItems", "unevaluatedItems", "contains"),
)


def settle(choices: Choices, schema: dict[str, Any], recursive: Collection[str]) -> None:
    """Changes a schema object in place.

    Bounds that cross are put right, but for one in 16. A member or item that ``recursive`` references make as deep as
    the schema itself may be null instead, wherever something might force it to be there.
    """
    if not choices.one_in(16):
        _uncross(choices, schema)
    if not _FORCING.isdisjoint(schema):
        for holder, key in _places(schema):
            inner = holder[key]
            if isinstance(inner, dict) and inner.get("$ref") in recursive:
                holder[key] = {"anyOf": [{"type": "null"}, inner]}


def _uncross(choices: Choices, schema: dict[str, Any]) -> None:
    for low, high in _COUNTS:
        if low in schema and high in schema:
            schema[high] = max(schema[low], schema[high])
    lower = [schema[name] for name in _LOWER if name in schema]
    upper = [name for name in _UPPER if name in schema]
    for name in upper:
        if lower and schema[name] <= max(lower):
            schema[name] = _sum(max(lower), choices.pick((1, 2, 10)))


def _places(schema: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    for keyword in _PARTS:
        match schema.get(keyword):
            case list() as items:
                yield from ((items, index) for index in range(len(items)))
            case dict() as members if keyword in ("properties", "patternProperties"):
                yield from ((members, name) for name in members)
            case dict():
                yield schema, keyword


def _sum(bound: int | float, distance: int) -> int | float:
    """Without the digits that binary fractions add."""
    return bound + distance if isinstance(bound, int) else round(bound + distance, 9)
