"""An order of a graph's nodes in which what a node leads to comes before it."""

from collections import deque
from collections.abc import Sequence


def inner_first(leads_to: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """The nodes that lead into no circle, each behind all that it leads to; and the others, in their own order.

    In time linear in nodes and edges (A. B. Kahn, Topological sorting of large networks, 1962).

    Args:
        leads_to: for each node, the nodes that it leads to, as often as it does.
    """
    led_from: list[list[int]] = [[] for _ in leads_to]
    for node, inner in enumerate(leads_to):
        for other in inner:
            led_from[other].append(node)
    open_ends = [len(inner) for inner in leads_to]
    ready = deque(node for node, count in enumerate(open_ends) if not count)
    order: list[int] = []
    while ready:
        order.append(node := ready.popleft())
        for outer in led_from[node]:
            open_ends[outer] -= 1
            if not open_ends[outer]:
                ready.append(outer)
    return order, [node for node, count in enumerate(open_ends) if count]
