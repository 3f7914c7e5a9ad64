"""Values for the keywords whose subschemas apply to the same instance."""

from collections.abc import Mapping
from typing import Final

from structout.fuzz import values
from structout.fuzz.keywords.scope import Scope, WriteValue
from structout.schema.walk import Schema


def _same(scope: Scope) -> Schema:
    return scope.choices.part(lambda: scope.inner(scope.kind, in_place=True, least=1))


def _option(scope: Scope) -> Schema:
    kind = scope.choices.pick(values.KINDS) if scope.choices.one_in(2) else scope.kind
    return scope.choices.part(lambda: scope.inner(kind, in_place=True, least=1))


def _options(scope: Scope) -> list[Schema]:
    return [_option(scope) for _ in range(scope.choices.weighted(((2, 1), (4, 2), (1, 3))))]


def _all(scope: Scope) -> list[Schema]:
    return [_same(scope) for _ in range(scope.choices.between(1, 2))]


def _not(scope: Scope) -> Schema:
    """Of another kind half of the time, so that the instances that the schema is meant for pass it; seldom empty."""
    kind = scope.choices.pick(values.KINDS) if scope.choices.one_in(2) else scope.kind
    return scope.inner(kind, in_place=True, least=0 if scope.choices.one_in(8) else 1)


IN_PLACE: Final[Mapping[str, WriteValue]] = {
    "allOf": _all,
    "anyOf": _options,
    "oneOf": _options,
    "not": _not,
    "if": _same,
    "then": _same,
    "else": _same,
    "$ref": lambda scope: scope.refer(),
}
