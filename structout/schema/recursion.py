"""How deep a validator has to recurse into a schema before it gets to a smaller part of the instance."""

from collections.abc import Iterator
from typing import Final

from structout.result import Err, Ok, Result
from structout.schema.references import ReferenceIndex
from structout.schema.walk import Node, Place, children

_IN_PLACE: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"}
)


def in_place_depth(index: ReferenceIndex, limit: int) -> Result[int, Node]:
    """The most subschemas that apply to one and the same part of the instance, each because of the one before.

    Above ``limit`` it counts no further, and returns some number above it. The error is a subschema that applies
    because of itself: what such a schema means is undefined.
    """
    depths: dict[Place, int] = {}
    deepest = 0
    for node in index.reachable():
        if node.place not in depths and (looping := _measure(node, index, depths, limit)):
            return Err(looping)
        deepest = max(deepest, depths[node.place])
        if deepest > limit:
            break
    return Ok(deepest)


def _measure(start: Node, index: ReferenceIndex, depths: dict[Place, int], limit: int) -> Node | None:
    """Depth-first search that fills in ``depths`` for all that ``start`` leads to, or finds a node on a circle."""
    path = [(start.place, _successors(start, index))]
    on_path = {start.place: 1}
    while path:
        place, successors = path[-1]
        node = next(successors, None)
        if node is None:
            path.pop()
            depths[place] = on_path.pop(place)
            if path:
                on_path[path[-1][0]] = max(on_path[path[-1][0]], depths[place] + 1)
        elif node.place in on_path:
            return node
        elif node.place in depths or len(path) > limit:
            on_path[place] = max(on_path[place], depths.get(node.place, limit) + 1)
        else:
            path.append((node.place, _successors(node, index)))
            on_path[node.place] = 1
    return None


def _successors(node: Node, index: ReferenceIndex) -> Iterator[Node]:
    yield from (inner for inner in children(node) if inner.keyword in _IN_PLACE)
    yield from index.targets(node)
