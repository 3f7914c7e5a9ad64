"""The order of members that a schema declares."""

from collections.abc import Iterable, Iterator
from typing import Final

from structout.fuzz.choices import Choices
from structout.fuzz.subject import Structure
from structout.fuzz.values import Json
from structout.schema.walk import Node, Place

_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies")


def declared(structure: Structure, value: Json) -> Json:
    """A value with its members in declared order, at every depth.

    A constant of the schema keeps its own order. Else first come the members that ``properties`` names, in its order;
    then those that are only ``required``; then the others, in the order that they have. If several schemas apply to an
    object and name its members, those that one comes to first are first: a schema, what it refers to, and what is in
    place in it, in document order.
    """
    return _ordered(structure, value, [structure.root])


def _ordered(structure: Structure, value: Json, nodes: list[Node]) -> Json:
    match value:
        case dict() if value:
            applied = list(_applied(structure, nodes, set()))
            if (constant := _constant(applied, value)) is not None:
                return constant
            names = [name for name in _names(structure, applied) if name in value]
            return {name: _member(structure, value, name, applied) for name in dict.fromkeys([*names, *value])}
        case list() if value:
            applied = list(_applied(structure, nodes, set()))
            return [_item(structure, value, index, applied) for index in range(len(value))]
        case _:
            return value


def _constant(nodes: list[Node], value: Json) -> Json:
    """The value as ``const`` or ``enum`` writes it; None if they do not have it."""
    constants = [node.keywords["const"] for node in nodes if "const" in node.keywords]
    constants += [each for node in nodes for each in node.keywords.get("enum", ())]
    return next((constant for constant in constants if constant == value), None)


def _applied(structure: Structure, nodes: Iterable[Node], seen: set[Place]) -> Iterator[Node]:
    """The schemas that apply to the same value because of ``nodes``, those of all branches included, each once."""
    for node in nodes:
        if node.place not in seen:
            seen.add(node.place)
            yield node
            yield from _applied(structure, structure.targets(node), seen)
            parts = structure.parts(node)
            for keyword in _IN_PLACE:
                yield from _applied(structure, parts.get(keyword, ()), seen)


def _names(structure: Structure, nodes: list[Node]) -> Iterator[str]:
    for node in nodes:
        yield from (str(inner.path[-1]) for inner in structure.parts(node).get("properties", ()))
    for node in nodes:
        yield from node.keywords.get("required", ())


def _member(structure: Structure, value: dict[str, Json], name: str, nodes: list[Node]) -> Json:
    inner = [found for node in nodes for found in structure.of_member(node, name)]
    return _ordered(structure, value[name], inner or _all_parts(structure, nodes, "unevaluatedProperties"))


def _item(structure: Structure, value: list[Json], index: int, nodes: list[Node]) -> Json:
    inner = [found for node in nodes for found in structure.of_item(node, index)]
    inner = inner or _all_parts(structure, nodes, "unevaluatedItems")
    return _ordered(structure, value[index], [*inner, *_all_parts(structure, nodes, "contains")])


def _all_parts(structure: Structure, nodes: list[Node], keyword: str) -> list[Node]:
    return [inner for node in nodes for inner in structure.parts(node).get(keyword, ())]


def shuffled(choices: Choices, value: Json) -> Json:
    """A value with its members in any order, at every depth."""
    match value:
        case dict():
            names = list(value)
            return {name: shuffled(choices, value[name]) for name in _permuted(choices, names)}
        case list():
            return [shuffled(choices, item) for item in value]
        case _:
            return value


def _permuted(choices: Choices, names: list[str]) -> list[str]:
    return [names.pop(choices.below(len(names))) for _ in range(len(names))]
