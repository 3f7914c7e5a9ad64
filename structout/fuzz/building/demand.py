"""What one value has to satisfy: a schema flattened into conjuncts, with a choice made wherever it leaves one."""

from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from structout.fuzz.choices import Choices
from structout.fuzz.keywords.table import kinds_of
from structout.fuzz.subject import Parts, Structure
from structout.fuzz.values import KINDS
from structout.schema.walk import Node, Place


@attrs.define
class Demand:
    """Conjuncts.

    Attributes:
        nodes: schemas of which the keywords with subschemas in place are dealt with already.
        denied: schemas that the value must not satisfy.
        required: names of members that a choice asks for, beyond the keyword ``required``.
        avoided: names of members that a choice leaves out.
        impossible: whether one of the conjuncts is false.
    """

    nodes: list[Node] = attrs.field(factory=list)
    denied: list[Node] = attrs.field(factory=list)
    required: list[str] = attrs.field(factory=list)
    avoided: set[str] = attrs.field(factory=set)
    impossible: bool = False

    def values(self, keyword: str) -> list[Any]:
        """The values of a keyword in all conjuncts that have it."""
        return [node.keywords[keyword] for node in self.nodes if keyword in node.keywords]

    def lowest(self, keyword: str, default: int = 0) -> int:
        """The least length that a keyword such as ``minLength`` leaves."""
        return max((int(value) for value in self.values(keyword)), default=default)

    def highest(self, keyword: str) -> int | None:
        """The greatest length that a keyword such as ``maxLength`` leaves; None if it leaves all."""
        return min((int(value) for value in self.values(keyword)), default=None)


def gather(choices: Choices, structure: Structure, nodes: Iterable[Node], *, shallow: bool) -> Demand:
    """What a value that satisfies all of ``nodes`` may aim at.

    Of the branches of ``anyOf`` and ``oneOf`` a ``shallow`` one is chosen among those that are no mere references, if
    there are any, so that recursion ends.
    """
    demand = Demand()
    pending = list(nodes)
    seen: set[Place] = set()
    while pending:
        node = pending.pop(0)
        if node.place in seen:
            continue
        seen.add(node.place)
        if isinstance(node.schema, bool):
            demand.impossible |= not node.schema
            continue
        demand.nodes.append(node)
        pending += [*structure.targets(node), *_in_place(choices, structure.parts(node), demand, shallow)]
    return demand


def _in_place(choices: Choices, parts: Parts, demand: Demand, shallow: bool) -> list[Node]:
    chosen = list(parts.get("allOf", ()))
    for keyword in ("anyOf", "oneOf"):
        if options := [node for node in parts.get(keyword, ()) if node.schema is not False]:
            simple = [node for node in options if "$ref" not in node.keywords] if shallow else options
            taken = choices.pick(simple or options)
            chosen.append(taken)
            demand.denied += [node for node in options if keyword == "oneOf" and node is not taken]
    chosen += _conditional(choices, parts, demand)
    demand.denied += parts.get("not", ())
    for keyword in ("dependentSchemas", "dependencies"):
        chosen += _dependent(choices, parts.get(keyword, ()), demand)
    return chosen


def _conditional(choices: Choices, parts: Parts, demand: Demand) -> Sequence[Node]:
    if "if" not in parts:
        return ()
    if choices.one_in(2):
        demand.denied += parts["if"]
        return parts.get("else", ())
    return (*parts["if"], *parts.get("then", ()))


def _dependent(choices: Choices, nodes: Iterable[Node], demand: Demand) -> list[Node]:
    chosen = []
    for node in nodes:
        name = str(node.path[-1])
        if node.schema is not False and choices.one_in(2):
            demand.required.append(name)
            chosen.append(node)
        else:
            demand.avoided.add(name)
    return chosen


def kind_of_value(choices: Choices, demand: Demand) -> str | None:
    """A type that all conjuncts allow; None if there is none. Types that their keywords restrict come up more often."""
    allowed = [kind for kind in KINDS if all(_allows(declared, kind) for declared in demand.values("type"))]
    denied = [node.keywords["type"] for node in demand.denied if node.keywords.keys() == {"type"}]
    allowed = [kind for kind in allowed if not any(_allows(declared, kind) for declared in denied)]
    if not allowed:
        return None
    spoken_of = {kind for node in demand.nodes for keyword in node.keywords for kind in kinds_of(keyword)}
    spoken_of |= {"object"} if demand.required else set()
    return choices.weighted([(12 if kind in spoken_of else 1, kind) for kind in allowed])


def _allows(declared: Any, kind: str) -> bool:
    names = declared if isinstance(declared, list) else [declared]
    return kind in names or (kind == "integer" and "number" in names)
