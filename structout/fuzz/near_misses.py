"""Values that are invalid, but only just: one keyword is against them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from structout.fuzz.building.builder import Builder
from structout.fuzz.choices import Choices
from structout.fuzz.edits import edit, hints_of
from structout.fuzz.json_text import write
from structout.fuzz.serializations import plain_text
from structout.fuzz.subject import Subject
from structout.fuzz.values import Json
from structout.schema.keywords import DIALECTS, KEYWORDS, Holds
from structout.schema.walk import Node

_EDITS: Final = 30
"""Changes that are tried on each value."""
_WEAKER: Final = 12
"""Schemas that are tried which lack one keyword, or have its opposite."""
_ALIKE: Final = 2
"""Near misses that may have the same path."""


@attrs.frozen
class NearMiss:
    """An invalid value.

    Attributes:
        text: the value, written as the spec's policy says.
        keyword: the keyword that it violates, the innermost if several contain one another.
        path: all keywords on the way to it, from the root: ``("properties", "allOf", "minLength")``.
    """

    text: str
    keyword: str
    path: tuple[str, ...]


def near_misses(choices: Choices, subject: Subject, instances: Sequence[Json], most: int = 12) -> list[NearMiss]:
    """Up to ``most`` near misses from valid values, at most two with the same path.

    They are found in two ways: by small changes to the instances, and by instances of the schema without one of its
    keywords, or with its opposite. Those count of which the reference validator says that exactly one keyword, in
    however many places, is violated.
    """
    found: dict[str, NearMiss] = {}
    times: Counter[tuple[str, ...]] = Counter()
    for value in _candidates(choices, subject, instances):
        path = violated(subject, write(value))
        if path is not None and times[path] < _ALIKE and (text := plain_text(subject, value)) not in found:
            times[path] += 1
            found[text] = NearMiss(text, path[-1], path)
        if len(found) == most:
            break
    return list(found.values())


def _candidates(choices: Choices, subject: Subject, instances: Sequence[Json]) -> Iterator[Json]:
    hints = hints_of(subject.structure)
    places = [
        (node, keyword) for node in subject.structure.reachable() if not node.document for keyword in node.keywords
    ]
    for _ in range(min(_WEAKER, len(places)) if instances else 0):
        node, keyword = places.pop(choices.below(len(places)))
        yield from _weaker(choices, subject, node, keyword)
    for value in instances:
        for _ in range(_EDITS):
            yield edit(choices, value, hints)


_OPPOSITES: Final = {
    "minimum": ("exclusiveMaximum", 0),
    "maximum": ("exclusiveMinimum", 0),
    "exclusiveMinimum": ("maximum", 0),
    "exclusiveMaximum": ("minimum", 0),
    "minLength": ("maxLength", -1),
    "maxLength": ("minLength", 1),
    "minItems": ("maxItems", -1),
    "maxItems": ("minItems", 1),
    "minContains": ("maxContains", -1),
    "maxContains": ("minContains", 1),
    "minProperties": ("maxProperties", -1),
    "maxProperties": ("minProperties", 1),
}
"""What a value satisfies that violates a keyword, and how far the bound moves."""


def _weaker(choices: Choices, subject: Subject, node: Node, keyword: str) -> Iterator[Json]:
    """Three values of the schema that lacks a keyword, or has its opposite instead."""
    instead: dict[str, Any] = {}
    if keyword in _OPPOSITES:
        opposite, distance = _OPPOSITES[keyword]
        instead[opposite] = node.keywords[keyword] + distance
    structure = subject.changed(node, keyword, instead)
    builder = Builder(choices, structure)
    for _ in range(3):
        yield builder.root()


def violated(subject: Subject, text: str) -> tuple[str, ...] | None:
    """The keywords that lead to the one that ``text`` violates; None if it is valid, or violates several."""
    paths = {keywords_on(path) for path in subject.validator.violations(text)}
    return paths.pop() if len(paths) == 1 else None


_HOLDS: Final = {name: word.holds for dialect in DIALECTS for name, word in KEYWORDS[dialect].items()} | {
    "items": Holds.EITHER
}


def keywords_on(path: Sequence[str | int]) -> tuple[str, ...]:
    """The keywords on an evaluation path: without names of members and indices."""
    keywords: list[str] = []
    skip = False
    for token in path:
        if isinstance(token, str) and not skip:
            keywords.append(token)
            skip = _HOLDS.get(token) is Holds.MAP
        else:
            skip = False
    return tuple(keywords)
