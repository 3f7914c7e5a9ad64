"""What would overflow llguidance's stack, found before it is tried.

llguidance follows the references of a schema, and the rules of a grammar, by recursion while it compiles: a long chain
of them ends the process. With a stack of 8 MiB it takes 1,200 to 3,000 nested subschemas, and 1,000 to 3,000 nested
rules or groups, depending on what they are. (Nesting without references it limits itself.)
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from structout.schema.references import ReferenceIndex
from structout.schema.walk import Node, Schema, children, root
from structout.spec import Dialect

MAX_SCHEMA_DEPTH: Final = 512
"""Subschemas that lead to one another. Schemas in the wild need 83."""

MAX_GRAMMAR_SIZE: Final = 1000
"""Rules and groups of a Lark grammar that could be nested in one another."""

_DEFINITIONS: Final = frozenset({"$defs", "definitions", "contentSchema"})
_RULE: Final = re.compile(r"^[ \t]*[!?]?[A-Za-z_][^:\n]*:", re.MULTILINE)
_Place: TypeAlias = tuple[int, str | int]


def schema_depth(schema: Schema, dialect: Dialect) -> int:
    """An upper bound on how many subschemas can be nested in one another when references are followed.

    Each place counts once, since llguidance compiles it once. Exact where the references make no circle; all that can
    get into a circle counts as one chain, because the order in which llguidance goes through it is its own affair.
    """
    leads_to = _graph(root(schema, dialect))
    led_from: dict[_Place, list[_Place]] = defaultdict(list)
    for place, inner in leads_to.items():
        for next_place in inner:
            led_from[next_place].append(place)
    open_ends = {place: len(inner) for place, inner in leads_to.items()}
    depths: dict[_Place, int] = {}
    done = deque(place for place, count in open_ends.items() if not count)
    while done:
        place = done.popleft()
        depths[place] = 1 + max((depths[inner] for inner in leads_to[place]), default=0)
        for outer in led_from[place]:
            open_ends[outer] -= 1
            if not open_ends[outer]:
                done.append(outer)
    return len(leads_to) - len(depths) + max(depths.values(), default=0)


def _graph(start: Node) -> Mapping[_Place, set[_Place]]:
    """For each place that can be reached, the places that it leads to, in itself or by reference."""
    index = ReferenceIndex(start, {}, start.dialect)
    graph: dict[_Place, set[_Place]] = {start.place: set()}
    pending = [start]
    while pending:
        node = pending.pop()
        for inner in _inner(node, index):
            graph[node.place].add(inner.place)
            if inner.place not in graph:
                graph[inner.place] = set()
                pending.append(inner)
    return graph


def _inner(node: Node, index: ReferenceIndex) -> Iterator[Node]:
    yield from (inner for inner in children(node) if inner.keyword not in _DEFINITIONS)
    yield from index.targets(node)


def grammar_size(text: str) -> int:
    """An upper bound on how many rules and groups of a Lark grammar can be nested in one another.

    Of the schemas in it (``%json``) every object counts, if they can have references at all: a backslash may hide one.
    """
    size = len(_RULE.findall(text)) + text.count("(")
    if "%json" in text and ("$ref" in text or "\\u" in text):
        size += text.count("{")
    return size
