"""Which bytes may follow: J. Earley's algorithm (An Efficient Context-Free Parsing Algorithm, 1970) on expressions.

A state, called a chart, is a set of items. An item is what is left of a rule's body, and where that rule was called
from: a chart and the rule's name. So charts refer to earlier charts, and a text needs no other memory. Left recursion
and ambiguity cost nothing special. What is left of an expression after a byte are its partial derivatives
(V. Antimirov, Partial Derivatives of Regular Expressions, 1996), in which a count is a number, never copies. A rule
that matches the empty text is stepped over where it is called (Aycock and Horspool, Practical Earley Parsing, 2002).

Equal charts are one object. So a regular grammar has a finite number of them, and each step from one is computed once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from structout.backend import BitmaskRow
from structout_reference.nodes import (
    EMPTY,
    Alt,
    Bytes,
    Node,
    Ref,
    Repeat,
    Rules,
    Seq,
    Text,
    holds,
    nullable_rules,
    once_less,
    one_of,
    seq,
    text,
)

MAX_CHARTS: Final = 4_000
"""So many charts are remembered; then they are forgotten, and computed again when they are needed."""

Call: TypeAlias = tuple["Chart", str]
"""The chart in which a rule was called, and the rule."""
Item: TypeAlias = tuple[Node, Call | None]
"""What is left of a rule, and the call to return to; None for the text as a whole."""


class Chart:
    """A state. Its items never change; the other fields are what is remembered of it.

    Attributes:
        items: see the module's docstring.
        steps: the chart after a byte, None where it may not follow; for the bytes asked so far.
        row: the text tokens that may follow; None as long as nobody asked.
        scans: single bytes that may follow, each with the item after it; None as long as nobody asked.
        callers: by rule, the items that go on where the rule, called in this chart, ends.
    """

    __slots__ = ("callers", "items", "row", "scans", "steps")

    def __init__(self, items: frozenset[Item]) -> None:
        self.items = items
        self.steps: dict[int, Chart | None] = {}
        self.row: BitmaskRow | None = None
        self.scans: list[tuple[Bytes, Item]] | None = None
        self.callers: dict[str, set[Item]] = {}

    def forget(self) -> None:
        self.steps = {}
        self.row = None


class Recognizer:
    """Charts of one grammar. May be shared between threads: what is remembered is replaced as a whole.

    Args:
        rules: by name; pruned, so that every chart leads to an end.
        start: the rule for the whole text.
    """

    def __init__(self, rules: Rules, start: str) -> None:
        self._rules = rules
        self._nullable = nullable_rules(rules)
        self._charts: dict[frozenset[Item], Chart] = {}
        self.first: Final = self._chart(frozenset([(rules[start], None)]))

    def step(self, chart: Chart, byte: int) -> Chart | None:
        """The chart after one more byte; None if it may not follow."""
        steps = chart.steps
        if byte not in steps:
            steps[byte] = self._step(chart, byte)
        return steps[byte]

    def is_complete(self, chart: Chart) -> bool:
        """Whether the text so far is of the language."""
        return any(call is None and self._is_nullable(rest) for rest, call in chart.items)

    def _step(self, chart: Chart, byte: int) -> Chart | None:
        items = {item for allowed, item in self._scans(chart) if byte in allowed.allowed}
        return self._chart(self._completed(items)) if items else None

    def _chart(self, items: frozenset[Item]) -> Chart:
        if len(self._charts) >= MAX_CHARTS:
            self._forget()
        return self._charts.setdefault(items, Chart(items))

    def _forget(self) -> None:
        charts, self._charts = self._charts, {}
        for chart in tuple(charts.values()):
            chart.forget()

    def _completed(self, items: set[Item]) -> frozenset[Item]:
        """``items``, and those that go on where a rule has come to its end."""
        found, pending = set(items), list(items)
        while pending:
            rest, call = pending.pop()
            if call is not None and self._is_nullable(rest):
                fresh = self._callers(*call) - found
                found |= fresh
                pending += fresh
        return frozenset(item for item in found if item[0] != EMPTY or item[1] is None)

    def _callers(self, chart: Chart, rule: str) -> set[Item]:
        self._scans(chart)
        return chart.callers[rule]

    def _scans(self, chart: Chart) -> list[tuple[Bytes, Item]]:
        if chart.scans is None:
            callers = defaultdict[str, set[Item]](set)
            scans = list(self._predicted(chart, callers))
            chart.callers = callers
            chart.scans = scans
        return chart.scans

    def _predicted(self, chart: Chart, callers: dict[str, set[Item]]) -> Iterator[tuple[Bytes, Item]]:
        """The bytes that can follow, with the items after them; notes who calls which rule."""
        pending = list(chart.items)
        while pending:
            node, call = pending.pop()
            for head, rest in self._heads(node):
                if isinstance(head, Bytes):
                    yield head, (rest, call)
                else:
                    if head.rule not in callers:
                        pending.append((self._rules[head.rule], (chart, head.rule)))
                    callers[head.rule].add((rest, call))

    def _heads(self, node: Node) -> Iterator[tuple[Bytes | Ref, Node]]:
        """What a node can begin with, a byte or a rule, and what is left after it."""
        pending: list[tuple[Node, Node]] = [(node, EMPTY)]
        while pending:
            node, after = pending.pop()
            match node:
                case Bytes() | Ref():
                    yield node, after
                case Text(data=data):
                    yield one_of(data[:1]), seq(text(data[1:]), after)
                case Seq(parts=parts):
                    pending += self._beginnings(parts, after)
                case Alt(options=options):
                    pending += ((option, after) for option in options)
                case Repeat(part=part):
                    pending.append((part, seq(once_less(node), after)))

    def _beginnings(self, parts: tuple[Node, ...], after: Node) -> Iterable[tuple[Node, Node]]:
        """The parts of a sequence that it can begin with, and what comes after each."""
        for index, part in enumerate(parts):
            yield part, seq(*parts[index + 1 :], after)
            if not self._is_nullable(part):
                break

    def _is_nullable(self, node: Node) -> bool:
        return holds(node, lambda leaf: isinstance(leaf, Ref) and leaf.rule in self._nullable)
