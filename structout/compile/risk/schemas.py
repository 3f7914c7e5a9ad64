"""JSON Schemas and structural tags, measured by one walk over their JSON.

Every array and object counts, and every keyword as what it says, also where it stands in data: an upper bound.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from structout.compile.risk.bounds import Bounds
from structout.compile.risk.grammars import add_grammar
from structout.compile.risk.measures import CAP, Measure, Measures
from structout.compile.risk.patterns import add_regex

_COUNTS: Final = frozenset(
    f"{bound}{what}" for bound in ("max", "min") for what in ("Length", "Items", "Properties", "Contains")
)
_REFERENCES: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_OTHERS: Final = frozenset(
    {"$id", "id", "multipleOf", "enum", "const", "pattern", "patternProperties", "properties", "grammar"}
)
_UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_KEYWORDS: Final = _COUNTS | _REFERENCES | _UNEVALUATED | _OTHERS
_DIGITS: Final = 9
"""What has more digits is over `CAP`, or taken to be."""


class Walk:
    """The arrays and objects of some documents, each before what is inside it, and what they are by themselves.

    Attributes:
        values: the arrays and objects.
        names: for each, the name of the member that holds it; "" for a document and in an array.
        parents: for each, the number of the array or object around it; -1 for a document.
        documents: for each, the number of its document.
        counts: for each, the largest count that its keywords set; 1 if they set none.
        references: the array or object, and the URI, of each reference.
        twice: the objects whose unevaluatedProperties or unevaluatedItems has all that applies in place looked at once
            more.
        embedded: whether a schema inside a document has an identifier of its own.
    """

    def __init__(self, measures: Measures, bounds: Bounds) -> None:
        self.values: list[Any] = []
        self.names: list[str] = []
        self.parents: list[int] = []
        self.documents: list[int] = []
        self.counts: list[int] = []
        self.references: list[tuple[int, str]] = []
        self.twice: set[int] = set()
        self.embedded = False
        self._divisors: set[int] = set()
        self._measures = measures
        self._bounds = bounds

    @property
    def is_over(self) -> bool:
        """Whether it stopped because there are too many arrays and objects."""
        return len(self.values) > self._bounds[Measure.SUBSCHEMAS].hard

    @property
    def depth(self) -> int:
        """The largest number of arrays and objects inside one another."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 + (depths[parent] if parent >= 0 else 0))
        return max(depths, default=0)

    def add(self, document: Any) -> None:
        """Walks over a document, until there is too much of it."""
        values, first = self.values, len(self.values)
        stack = [(document, "", -1)] if isinstance(document, dict | list) else []
        limit = self._bounds[Measure.SUBSCHEMAS].hard
        while stack and len(values) <= limit:
            value, name, parent = stack.pop()
            node = len(values)
            values.append(value)
            self.names.append(name)
            self.parents.append(parent)
            self.documents.append(first)
            self.counts.append(1)
            if type(value) is dict:
                self._object(value, node)
                stack += [(inner, key, node) for key, inner in value.items() if type(inner) in (dict, list)]
            elif type(value) is list:
                stack += [(inner, "", node) for inner in value if type(inner) in (dict, list)]
        self._measures[Measure.SUBSCHEMAS] = len(values)

    def _object(self, value: dict[str, Any], node: int) -> None:
        for key in _KEYWORDS.intersection(value):
            inner = value[key]
            if key in _COUNTS:
                self.counts[node] = max(self.counts[node], _whole(inner))
            elif key in _REFERENCES:
                self.references.append((node, str(inner)))
            elif key in _UNEVALUATED:
                self.twice.add(node)
            elif key in ("$id", "id"):
                self.embedded |= isinstance(inner, str) and self.parents[node] >= 0
            else:
                self._other(key, inner, value)

    def _other(self, key: str, inner: Any, value: dict[str, Any]) -> None:
        measures = self._measures
        match key, inner:
            case "enum", list():
                measures[Measure.ENUM] += len(inner)
                measures[Measure.CONST_BYTES] += sum(len(item) for item in inner if type(item) is str)
            case "const", str():
                measures[Measure.CONST_BYTES] += len(inner)
            case "pattern", str():
                add_regex(measures, inner, self._bounds)
            case "patternProperties", dict():
                for pattern in inner:
                    add_regex(measures, pattern, self._bounds)
            case "properties", dict() if not _is_closed(value):
                measures[Measure.OPEN_NAMES] += sum(map(len, inner))
            case "grammar", str():
                add_grammar(measures, inner, self._bounds, lark=value.get("syntax") == "lark")
            case "multipleOf", _:
                self._divide(_divisor(inner))

    def _divide(self, divisor: int) -> None:
        # Once each: in the worst case they meet in one number, which is then a multiple of them all.
        if divisor not in self._divisors:
            self._divisors.add(divisor)
            self._measures[Measure.DIVISOR] = min(max(self._measures[Measure.DIVISOR], 1) * divisor, CAP)


def _is_closed(schema: Mapping[str, Any]) -> bool:
    return schema.get("additionalProperties") is False or schema.get("unevaluatedProperties") is False


def _whole(value: object) -> int:
    """A count; 1 for what is none."""
    if isinstance(value, int):
        return max(1, min(value, CAP))
    return int(max(1, min(value, CAP))) if isinstance(value, float) and not math.isnan(value) else 1


def _divisor(value: object) -> int:
    """A divisor's digits as a whole number: 0.25 is as hard as 25."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(min(abs(value), CAP)):
        return 1
    if value == 0 or abs(value) >= CAP:
        return CAP
    digits = f"{abs(value):.{_DIGITS}f}".rstrip("0").replace(".", "").lstrip("0")
    return min(int(digits or CAP), CAP) if isinstance(value, float) else abs(value)
