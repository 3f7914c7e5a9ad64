"""Which keywords, and which pairs of them in one schema object, a run has seen."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import attrs

from structout.fuzz.keywords.table import generated, pairs
from structout.schema.walk import Schema, walk
from structout.spec import Dialect


@attrs.define
class Coverage:
    """Counts for one dialect: of the schema objects in which a keyword, or a pair, stands.

    What there is to cover is what schemas are generated from: assertions, applicators and ``$ref``. Other keywords are
    not counted, nor are those that mean nothing beside a ``$ref``.
    """

    dialect: Dialect = Dialect.DRAFT_2020_12
    schemas: int = 0
    keywords: Counter[str] = attrs.field(factory=Counter)
    pairs: Counter[tuple[str, str]] = attrs.field(factory=Counter)

    def add(self, schema: Schema) -> None:
        """Counts a schema and all its subschemas, definitions included."""
        self.schemas += 1
        order = {name: at for at, name in enumerate(generated(self.dialect))}
        for node in walk(schema, self.dialect):
            names = sorted(node.keywords.keys() & order.keys(), key=order.__getitem__)
            self.keywords.update(names)
            self.pairs.update(combinations(names, 2))

    def merge(self, other: "Coverage") -> None:
        """Adds the counts of another run of the same dialect."""
        self.schemas += other.schemas
        self.keywords.update(other.keywords)
        self.pairs.update(other.pairs)

    def missing_keywords(self) -> list[str]:
        """The keywords that stood in no schema."""
        return [name for name in generated(self.dialect) if name not in self.keywords]

    def missing_pairs(self) -> list[tuple[str, str]]:
        """The pairs that stood together in no schema object."""
        return [pair for pair in pairs(self.dialect) if pair not in self.pairs]

    def lines(self, most: int = 10) -> Iterator[str]:
        """The totals, and at most so many of the missing keywords and pairs, to be printed."""
        keywords, both = self.missing_keywords(), self.missing_pairs()
        yield (
            f"{self.schemas} schemas, {self.dialect.name}: "
            f"keywords {_share(generated(self.dialect), keywords)}, pairs {_share(pairs(self.dialect), both)}"
        )
        if keywords:
            yield f"keywords never seen: {_some(keywords, most)}"
        if both:
            yield f"pairs never seen: {_some([' + '.join(pair) for pair in both], most)}"

    def to_json(self) -> dict[str, Any]:
        """JSON-able data."""
        return {
            "dialect": str(self.dialect),
            "schemas": self.schemas,
            "keywords": dict(self.keywords),
            "pairs": [[*pair, count] for pair, count in self.pairs.items()],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Coverage":
        """The inverse of `to_json`. Raises KeyError, TypeError or ValueError on what it cannot have made."""
        counts = Counter({(one, two): count for one, two, count in data["pairs"]})
        return cls(Dialect(data["dialect"]), data["schemas"], Counter(data["keywords"]), counts)


def _share(everything: tuple[Any, ...], missing: list[Any]) -> str:
    return f"{len(everything) - len(missing)} of {len(everything)}"


def _some(names: list[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
