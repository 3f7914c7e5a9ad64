"""Builds a value from the outside in. The result may be wrong; whoever asks for it checks it."""

from collections.abc import Iterable
from typing import Any, Final

from structout.fuzz import values
from structout.fuzz.building import scalars
from structout.fuzz.building.demand import Demand, gather, kind_of_value
from structout.fuzz.building.names import new_name, wanted_names
from structout.fuzz.choices import Choices
from structout.fuzz.subject import Structure
from structout.fuzz.values import Json
from structout.schema.walk import Node

_ROOMY_DEPTH: Final = 3
"""From here on only what has to be there is built, so that recursive schemas end."""
_MOST_DEPTH: Final = 12
_MOST_PARTS: Final = 300
"""Items and members that are built at most for one value, whatever a schema asks for; about as many."""


class Builder:
    """Builds values of one schema with one source of choices."""

    def __init__(self, choices: Choices, structure: Structure) -> None:
        self._choices = choices
        self._structure = structure
        self._left = _MOST_PARTS

    def root(self) -> Json:
        """A value that is likely to satisfy the schema."""
        self._left = _MOST_PARTS
        return self._value([self._structure.root], 0)

    def _value(self, nodes: Iterable[Node], depth: int) -> Json:
        """A value that is likely to satisfy all of ``nodes``, with ``depth`` arrays and objects around it; null where
        there can be none, or where it would become too deep or too large."""
        self._left -= 1
        demand = gather(self._choices, self._structure, nodes, shallow=depth >= _ROOMY_DEPTH)
        if demand.impossible or depth > _MOST_DEPTH or self._left < 0:
            return None
        if not demand.nodes:
            return values.any_value(self._choices, depth=1 if depth < _ROOMY_DEPTH else 0)
        if literals := _literals(demand):
            return self._choices.pick(literals)
        return self._of_kind(kind_of_value(self._choices, demand), demand, depth)

    def _of_kind(self, kind: str | None, demand: Demand, depth: int) -> Json:
        match kind:
            case "string":
                return scalars.string(self._choices, demand)
            case "number" | "integer":
                return scalars.number(self._choices, demand, whole=kind == "integer")
            case "array":
                return self._array(demand, depth)
            case "object":
                return self._object(demand, depth)
            case "boolean":
                return bool(self._choices.below(2))
            case _:
                return None

    def _array(self, demand: Demand, depth: int) -> list[Json]:
        contained = self._contained(demand)
        low = min(max(demand.lowest("minItems"), len(contained)), _MOST_PARTS)
        high = demand.highest("maxItems")
        spare = self._choices.pick((0, 1, 2, 1, 3)) if depth < _ROOMY_DEPTH else 0
        length = low + spare if high is None else min(low + spare, max(high, low))
        start = self._choices.below(max(1, length - len(contained) + 1))
        items: list[Json] = []
        for index in range(length):
            nodes = self._item_nodes(demand, index)
            if any(node.schema is False for node in nodes):
                break
            if 0 <= index - start < len(contained):
                nodes = [*nodes, contained[index - start]]
            items.append(self._item(nodes, items if True in demand.values("uniqueItems") else [], depth))
        return items

    def _contained(self, demand: Demand) -> list[Node]:
        """What has to be contained, as often as it has to or, if it may, up to twice more."""
        found = []
        for node in demand.nodes:
            for inner in self._structure.parts(node).get("contains", ()):
                low = int(node.keywords.get("minContains", 1))
                high = int(node.keywords.get("maxContains", low + 2))
                found += [inner] * min(low + self._choices.below(max(1, min(2, high - low) + 1)), _MOST_PARTS)
        return found

    def _item_nodes(self, demand: Demand, index: int) -> list[Node]:
        found = [inner for node in demand.nodes for inner in self._structure.of_item(node, index)]
        return found or self._all_parts(demand, "unevaluatedItems")

    def _item(self, nodes: list[Node], others: list[Json], depth: int) -> Json:
        for _ in range(3):
            item = self._choices.part(lambda: self._value(nodes, depth + 1))
            if item not in others:
                break
        return item

    def _object(self, demand: Demand, depth: int) -> dict[str, Json]:
        roomy = depth < _ROOMY_DEPTH
        names = wanted_names(self._choices, self._structure, demand, roomy=roomy)
        low, high = min(demand.lowest("minProperties"), _MOST_PARTS), demand.highest("maxProperties")
        members: dict[str, Json] = {}
        for name, needed in names.items():
            if needed or high is None or len(members) < high:
                self._add_member(members, name, demand, depth, needed=needed)
        tries = low * 2 + self._choices.weighted(((4, 0), (2, 1), (1, 3))) * roomy
        while tries > 0 and (high is None or len(members) < high) and (roomy or len(members) < low):
            tries -= 1
            name = self._new_name(demand)
            self._add_member(members, name, demand, depth, needed=False)
        return members

    def _new_name(self, demand: Demand) -> str:
        described = self._all_parts(demand, "propertyNames")
        if not described:
            return new_name(self._choices, self._structure, demand)
        name = gather(self._choices, self._structure, described, shallow=True)
        literals = [text for text in _literals(name) if isinstance(text, str)]
        return self._choices.pick(literals) if literals else scalars.string(self._choices, name)

    def _add_member(self, members: dict[str, Json], name: str, demand: Demand, depth: int, *, needed: bool) -> None:
        nodes = [inner for node in demand.nodes for inner in self._structure.of_member(node, name)]
        nodes = nodes or self._all_parts(demand, "unevaluatedProperties")
        if needed or (name not in demand.avoided and all(node.schema is not False for node in nodes)):
            members.setdefault(name, self._choices.part(lambda: self._value(nodes, depth + 1)))

    def _all_parts(self, demand: Demand, keyword: str) -> list[Node]:
        return [inner for node in demand.nodes for inner in self._structure.parts(node).get(keyword, ())]


def _literals(demand: Demand) -> list[Any]:
    """The values that ``const`` and ``enum`` leave, as far as one keyword of the first conjunct that has one tells."""
    for node in demand.nodes:
        if "const" in node.keywords:
            return [node.keywords["const"]]
        if node.keywords.get("enum"):
            return list(node.keywords["enum"])
    return []
