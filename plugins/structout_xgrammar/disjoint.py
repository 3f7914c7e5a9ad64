"""Proofs that no value is valid under two schemas at once. Where there is one, ``oneOf`` means what ``anyOf`` does."""

import itertools
from collections.abc import Iterable
from typing import Any, Final

from structout.schema.walk import Node
from structout_xgrammar.reading import ALL_TYPES, Follow, decider, parts, types

_MAX_DEPTH: Final = 4


def pairwise_disjoint(branches: list[Node], follow: Follow) -> bool:
    """Whether no value is valid under two of these schemas, as far as this can tell."""
    return all(_disjoint(first, second, follow, _MAX_DEPTH) for first, second in itertools.combinations(branches, 2))


def types_of(node: Node, follow: Follow, depth: int = _MAX_DEPTH) -> frozenset[str]:
    """Types that include those of all its instances, ``"number"`` for integers too."""
    node = follow(node)
    if node.schema is False:
        return frozenset()
    found = broad(types(node) or ALL_TYPES)
    if (values := _values(node)) is not None:
        found &= frozenset(map(_type_of_value, values))
    for keyword in ("anyOf", "oneOf", "allOf"):
        allowed = [types_of(part, follow, depth - 1) for part in parts(node, keyword)] if depth else []
        if allowed and keyword == "allOf":
            found = found.intersection(*allowed)
        elif allowed:
            found &= frozenset().union(*allowed)
    return found


def _disjoint(first: Node, second: Node, follow: Follow, depth: int) -> bool:
    first, second = follow(first), follow(second)
    common = types_of(first, follow) & types_of(second, follow)
    if not common:
        return True
    these, those = _values(first), _values(second)
    if these is not None and those is not None:
        return not any(_same(this, that) for this in these for that in those)
    return common == {"object"} and depth > 0 and _objects_disjoint(first, second, follow, depth - 1)


def broad(names: Iterable[str]) -> frozenset[str]:
    return frozenset("number" if name == "integer" else name for name in names)


def _objects_disjoint(first: Node, second: Node, follow: Follow, depth: int) -> bool:
    these, those = _members(first), _members(second)
    required = _required(first) & _required(second)
    return (
        any(name in these and name in those and _disjoint(these[name], those[name], follow, depth) for name in required)
        or any(_forbids(second, name) for name in _required(first))
        or any(_forbids(first, name) for name in _required(second))
    )


def _forbids(node: Node, name: str) -> bool:
    keywords = node.keywords
    closed = keywords.get("additionalProperties") is False and "patternProperties" not in keywords
    member = keywords.get("properties", {}).get(name)
    return member is False or (closed and member is None)


def _required(node: Node) -> set[str]:
    return set(node.keywords.get("required", ()))


def _members(node: Node) -> dict[str | int, Node]:
    return {part.path[-1]: part for part in parts(node, "properties")}


def _values(node: Node) -> list[Any] | None:
    keywords = node.keywords
    match decider(node):
        case "const":
            return [keywords["const"]]
        case "enum":
            return list(keywords["enum"])
        case _:
            return None


def _type_of_value(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _same(this: Any, that: Any) -> bool:
    """Equality as JSON Schema has it: 1 is 1.0, and no boolean is a number."""
    match this, that:
        case (bool(), _) | (_, bool()):
            return this is that
        case list(), list():
            return len(this) == len(that) and all(map(_same, this, that))
        case dict(), dict():
            return this.keys() == that.keys() and all(_same(this[key], that[key]) for key in this)
        case _:
            return bool(this == that)
