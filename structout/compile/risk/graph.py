"""An order of a graph's nodes in which what a node leads to comes before it."""

from collections import deque
from collections.abc import Collection, Sequence

import attrs


@attrs.frozen
class Order:
    """A graph's nodes in three lots, of which one may be without circles and yet be between two of them.

    Attributes:
        inner: what leads into no circle, each node behind all that it leads to.
        circular: what is in a circle or between two, in the order of the nodes.
        outer: what leads into a circle and is led to from none, each node behind all of these that it leads to.
    """

    inner: list[int]
    circular: list[int]
    outer: list[int]


def inner_first(leads_to: Sequence[Sequence[int]]) -> Order:
    """In time linear in nodes and edges (A. B. Kahn, Topological sorting of large networks, 1962), from both ends.

    Args:
        leads_to: for each node, the nodes that it leads to, as often as it does.
    """
    led_from: list[list[int]] = [[] for _ in leads_to]
    for node, inner in enumerate(leads_to):
        for other in inner:
            led_from[other].append(node)
    inner = _peel(leads_to, led_from, set(range(len(leads_to))))
    rest = set(range(len(leads_to))).difference(inner)
    outer = _peel(led_from, leads_to, rest)
    return Order(inner, sorted(rest.difference(outer)), outer[::-1])


def _peel(leads_to: Sequence[Sequence[int]], led_from: Sequence[Sequence[int]], nodes: Collection[int]) -> list[int]:
    """Those of some nodes that lead into no circle of them, each behind all that it leads to."""
    open_ends = {node: sum(other in nodes for other in leads_to[node]) for node in nodes}
    ready = deque(node for node, count in open_ends.items() if not count)
    order: list[int] = []
    while ready:
        order.append(node := ready.popleft())
        for outer in led_from[node]:
            if outer in nodes:
                open_ends[outer] -= 1
                if not open_ends[outer]:
                    ready.append(outer)
    return order
