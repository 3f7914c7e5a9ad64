"""The order of members that a schema declares."""

from collections.abc import Iterator

from structout.fuzz.applying import applied, parts_of
from structout.fuzz.choices import Choices
from structout.fuzz.subject import Structure
from structout.fuzz.values import Json
from structout.schema.walk import Node


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
            here = list(applied(structure, nodes))
            if (constant := _constant(here, value)) is not None:
                return constant
            names = [name for name in _names(structure, here) if name in value]
            return {name: _member(structure, value, name, here) for name in dict.fromkeys([*names, *value])}
        case list() if value:
            here = list(applied(structure, nodes))
            return [_item(structure, value, index, here) for index in range(len(value))]
        case _:
            return value


def _constant(nodes: list[Node], value: Json) -> Json:
    """The value as ``const`` or ``enum`` writes it; None if they do not have it."""
    constants = [node.keywords["const"] for node in nodes if "const" in node.keywords]
    constants += [each for node in nodes for each in node.keywords.get("enum", ())]
    return next((constant for constant in constants if constant == value), None)


def _names(structure: Structure, nodes: list[Node]) -> Iterator[str]:
    for node in nodes:
        yield from (str(inner.path[-1]) for inner in structure.parts(node).get("properties", ()))
    for node in nodes:
        yield from node.keywords.get("required", ())


def _member(structure: Structure, value: dict[str, Json], name: str, nodes: list[Node]) -> Json:
    inner = [found for node in nodes for found in structure.of_member(node, name)]
    return _ordered(structure, value[name], inner or parts_of(structure, nodes, "unevaluatedProperties"))


def _item(structure: Structure, value: list[Json], index: int, nodes: list[Node]) -> Json:
    inner = [found for node in nodes for found in structure.of_item(node, index)]
    inner = inner or parts_of(structure, nodes, "unevaluatedItems")
    return _ordered(structure, value[index], [*inner, *parts_of(structure, nodes, "contains")])


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
