"""All keywords that schemas are generated from: the assertions and applicators of a dialect, and ``$ref``."""

import functools
from collections.abc import Mapping
from typing import Final

from structout.fuzz.keywords.containers import CONTAINERS
from structout.fuzz.keywords.in_place import IN_PLACE
from structout.fuzz.keywords.scalars import SCALARS
from structout.fuzz.keywords.scope import WriteValue
from structout.schema.keywords import KEYWORDS, REF_SUPPRESSES_SIBLINGS, Role
from structout.spec import Dialect

WRITERS: Final[Mapping[str, WriteValue]] = {**SCALARS, **CONTAINERS, **IN_PLACE}
"""What writes the value of each keyword."""

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "then": ("if",),
    "else": ("if",),
    "if": ("then", "else"),
    "minContains": ("contains",),
    "maxContains": ("contains",),
    "additionalItems": ("items",),
}
"""The keywords without one of which a keyword means nothing."""

_ON: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": (
        *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains", "minContains", "maxContains"),
        *("minItems", "maxItems", "uniqueItems"),
    ),
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties", "unevaluatedProperties"),
        *("dependentRequired", "dependentSchemas", "dependencies"),
    ),
}

_WEIGHTS: Final = {"properties": 5, "required": 3, "additionalProperties": 2, "items": 3}


def kinds_of(keyword: str) -> tuple[str, ...]:
    """The types of instances that a keyword restricts; none if it may restrict all."""
    kinds = tuple(kind for kind, keywords in _ON.items() if keyword in keywords)
    return ("number", "integer") if kinds == ("number",) else kinds


@functools.cache
def generated(dialect: Dialect) -> tuple[str, ...]:
    """The keywords of a dialect that schemas are generated from, those that need no subschemas first."""
    known = KEYWORDS[dialect]
    names = [word.name for word in known.values() if word.role in (Role.ASSERTION, Role.APPLICATOR)]
    return (*sorted(names, key=lambda name: known[name].role is Role.APPLICATOR), "$ref")


@functools.cache
def pairs(dialect: Dialect) -> tuple[tuple[str, str], ...]:
    """The pairs of them that can mean something in one schema object, each in the order of `generated`."""
    names = generated(dialect)
    alone = {"$ref"} if dialect in REF_SUPPRESSES_SIBLINGS else set()
    return tuple((one, two) for at, one in enumerate(names) for two in names[at + 1 :] if not alone & {one, two})


@functools.cache
def own(dialect: Dialect, kind: str) -> tuple[str, ...]:
    """The keywords of a dialect that restrict instances of ``kind``, and the simple ones on any; the usual ones more
    than once, which is their weight."""
    on = _ON.get("number" if kind == "integer" else kind, ())
    known = [name for name in on for _ in range(_WEIGHTS.get(name, 1)) if name in KEYWORDS[dialect]]
    return ("type", "type", *known, "enum", "const", "type")
