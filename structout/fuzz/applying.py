"""Which schemas apply to a value and to what is in it, all branches of a schema included."""

from collections.abc import Iterable, Iterator

from structout.fuzz.subject import Structure
from structout.fuzz.values import Json
from structout.schema.walk import Node, Place

_IN_PLACE = ("allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies")


def applied(structure: Structure, nodes: Iterable[Node], *, negated: bool = False) -> Iterator[Node]:
    """The schemas that may apply to a value because ``nodes`` do, each once, outer ones first.

    Args:
        structure: of the schema.
        nodes: schemas that apply to the value.
        negated: whether those inside ``not`` count.
    """
    return _applied(structure, nodes, (*_IN_PLACE, "not") if negated else _IN_PLACE, set())


def _applied(
    structure: Structure, nodes: Iterable[Node], keywords: tuple[str, ...], seen: set[Place]
) -> Iterator[Node]:
    for node in nodes:
        if node.place not in seen:
            seen.add(node.place)
            yield node
            yield from _applied(structure, structure.targets(node), keywords, seen)
            parts = structure.parts(node)
            for keyword in keywords:
                yield from _applied(structure, parts.get(keyword, ()), keywords, seen)


def parts_of(structure: Structure, nodes: Iterable[Node], keyword: str) -> list[Node]:
    """The subschemas that a keyword of these schemas holds."""
    return [inner for node in nodes for inner in structure.parts(node).get(keyword, ())]


def applied_within(structure: Structure, value: Json) -> Iterator[Node]:
    """The schemas that may apply to a value, to its parts at every depth, or to the name of a member."""
    pending: list[tuple[Json, list[Node]]] = [(value, [structure.root])]
    while pending:
        part, nodes = pending.pop()
        here = list(applied(structure, nodes, negated=True))
        yield from here
        match part:
            case dict():
                pending += [(inner, _of_member(structure, here, name)) for name, inner in part.items()]
                pending += [(name, parts_of(structure, here, "propertyNames")) for name in part]
            case list():
                pending += [(inner, _of_item(structure, here, index)) for index, inner in enumerate(part)]


def _of_member(structure: Structure, nodes: list[Node], name: str) -> list[Node]:
    found = [inner for node in nodes for inner in structure.of_member(node, name)]
    return found + parts_of(structure, nodes, "unevaluatedProperties")


def _of_item(structure: Structure, nodes: list[Node], index: int) -> list[Node]:
    found = [inner for node in nodes for inner in structure.of_item(node, index)]
    return found + [inner for name in ("unevaluatedItems", "contains") for inner in parts_of(structure, nodes, name)]
