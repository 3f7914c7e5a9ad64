"""Values for the keywords on arrays and objects."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from structout.fuzz import values
from structout.fuzz.choices import Choices
from structout.fuzz.keywords.scalars import count, pattern
from structout.fuzz.keywords.scope import Scope, WriteValue
from structout.schema.keywords import KEYWORDS
from structout.schema.walk import Schema

T = TypeVar("T")

_NAME_PATTERNS: Final = ("^a", "b$", "^x-", "[0-9]", "é", "^", "^.{2}$")


def part(scope: Scope) -> Schema:
    """A schema for a member or an item."""
    return scope.choices.part(lambda: scope.inner(scope.choices.pick(values.KINDS), in_place=False))


def rest(scope: Scope) -> Schema:
    """A schema for the members or items that no other keyword speaks of: as often as not, that there are none."""
    return part(scope) if scope.choices.one_in(2) else scope.choices.one_in(6)


def _parts(scope: Scope) -> list[Schema]:
    return [part(scope) for _ in range(scope.choices.between(1, 2))]


def _items(scope: Scope) -> Schema | list[Schema]:
    if "prefixItems" not in KEYWORDS[scope.dialect] and ("additionalItems" in scope.company or scope.choices.one_in(4)):
        return _parts(scope)
    return rest(scope) if "prefixItems" in scope.company else part(scope)


def known_name(scope: Scope) -> str:
    """A name that the schema speaks of already, three times out of four."""
    written: list[str] = [name for keyword in ("properties", "required") for name in scope.written.get(keyword, ())]
    if not written or scope.choices.one_in(4):
        return values.name(scope.choices)
    return scope.choices.pick(written)


def _by(name: Callable[[Scope], str], make: Callable[[Scope], T], most: int) -> Callable[[Scope], dict[str, T]]:
    """A map of at least one and at most so many entries."""

    def write(scope: Scope) -> dict[str, T]:
        members: dict[str, T] = {}
        for _ in range(scope.choices.between(1, most)):
            key, value = scope.choices.part(lambda: (name(scope), make(scope)))
            members.setdefault(key, value)
        return members

    return write


def _new_name(scope: Scope) -> str:
    """A name for ``properties``: one that is required already, as often as not, if there is any."""
    required: list[str] = scope.written.get("required", [])
    return scope.choices.pick(required) if required and scope.choices.one_in(2) else values.name(scope.choices)


def _names(scope: Scope) -> list[str]:
    return list(dict.fromkeys(known_name(scope) for _ in range(scope.choices.between(1, 2))))


def _name_pattern(scope: Scope) -> str:
    return pattern(scope.choices) if scope.choices.one_in(3) else scope.choices.pick(_NAME_PATTERNS)


def _in_place(scope: Scope) -> Schema:
    return scope.inner("object", in_place=True, least=1)


def _dependency(scope: Scope) -> list[str] | Schema:
    return _in_place(scope) if scope.choices.one_in(2) else _names(scope)


def _few(choices: Choices) -> int:
    return choices.pick((1, 2, 0, 3))


CONTAINERS: Final[Mapping[str, WriteValue]] = {
    "minItems": count,
    "maxItems": count,
    "uniqueItems": lambda scope: not scope.choices.one_in(8),
    "prefixItems": _parts,
    "items": _items,
    "additionalItems": rest,
    "unevaluatedItems": rest,
    "contains": lambda scope: scope.inner(scope.choices.pick(values.KINDS), in_place=False, least=1),
    "minContains": lambda scope: _few(scope.choices),
    "maxContains": lambda scope: _few(scope.choices),
    "minProperties": count,
    "maxProperties": count,
    "required": _names,
    "properties": _by(_new_name, part, 3),
    "patternProperties": _by(_name_pattern, part, 2),
    "additionalProperties": rest,
    "unevaluatedProperties": rest,
    "propertyNames": lambda scope: scope.inner("string", in_place=False, least=1),
    "dependentRequired": _by(known_name, _names, 2),
    "dependentSchemas": _by(known_name, _in_place, 2),
    "dependencies": _by(known_name, _dependency, 2),
}
