"""Random texts, trees and edits, out of which cases are made. The weights are stated here."""

from collections.abc import Sequence
from typing import Final

import attrs

from structout.fuzz.choices import Choices
from structout.fuzz.language_nodes import (
    ANY_BUT_NEWLINE,
    CLUSTERS,
    SAMPLE,
    Alt,
    CharClass,
    Literal,
    Node,
    Repeat,
    RuleRef,
    Seq,
)

WEIGHTS: Final = (
    (6, "literal"),
    (3, "class"),
    (1, "dot"),
    (3, "rule"),
    (4, "sequence"),
    (3, "options"),
    (4, "repetition"),
)
"""How often each kind of tree comes up where it can: dots in regular expressions, rules in grammars; at the innermost
level there are no trees of several parts."""
COUNTS: Final[Sequence[tuple[int, int | None]]] = (
    *((0, 1), (0, None), (1, None)),
    *((2, 2), (0, 2), (1, 3), (2, None), (3, 5)),
)
"""Bounds of repetitions, all as likely."""
RANGES: Final = (("a", "z"), ("0", "9"), ("A", "F"), ("é", "ü"), ("字", "漢"), ("!", "/"))
"""Ranges in classes; one in three is between any two characters instead, and one in two is a single character."""

_PARTS: Final = (*("abab01" * 6), *SAMPLE, *CLUSTERS)
_LEAVES: Final = ("literal", "class", "dot", "rule")


def text(choices: Choices, shortest: int = 1, longest: int = 3) -> str:
    """A short text. Half of its parts are the plainest characters."""
    length = choices.between(shortest, longest)
    return "".join(choices.pick(_PARTS) for _ in range(length))


@attrs.frozen
class Trees:
    """A source of trees.

    Attributes:
        choices: decides.
        names: the rules that may be referred to.
        dots: whether there are dots.
    """

    choices: Choices
    names: Sequence[str] = ()
    dots: bool = False

    def tree(self, depth: int = 3) -> Node:
        """A tree of at most so many levels."""
        weights = [(weight, kind) for weight, kind in WEIGHTS if self._is_possible(kind, depth)]
        match self.choices.weighted(weights):
            case "literal":
                return Literal(text(self.choices, 0 if self.choices.one_in(10) else 1))
            case "class":
                return self._class()
            case "dot":
                return ANY_BUT_NEWLINE
            case "rule":
                return RuleRef(self.choices.pick(self.names))
            case "sequence":
                return Seq(self._several(depth - 1))
            case "options":
                return Alt(self._several(depth - 1))
            case _:
                return Repeat(self.tree(depth - 1), *self.choices.pick(COUNTS))

    def _is_possible(self, kind: str, depth: int) -> bool:
        missing = {"dot": not self.dots, "rule": not self.names}
        return (depth > 1 or kind in _LEAVES) and not missing.get(kind, False)

    def _several(self, depth: int) -> tuple[Node, ...]:
        return tuple(self.choices.part(lambda: self.tree(depth)) for _ in range(self.choices.between(2, 3)))

    def _class(self) -> CharClass:
        ranges = tuple(self._range() for _ in range(self.choices.between(1, 3)))
        return CharClass(ranges, negated=self.choices.one_in(4))

    def _range(self) -> tuple[str, str]:
        one = self.choices.pick(SAMPLE)
        if not self.choices.one_in(2):
            return one, one
        other = self.choices.pick(SAMPLE)
        return (min(one, other), max(one, other)) if self.choices.one_in(3) else self.choices.pick(RANGES)


def edited(choices: Choices, original: str) -> str:
    """A text with one small change: cut off, prolonged, or a character left out, put in, replaced or moved."""
    at = choices.below(len(original) + 1)
    before, after = original[:at], original[at:]
    match choices.below(6):
        case 0:
            return before
        case 1:
            return original + text(choices)
        case 2:
            return before + after[1:]
        case 3:
            return before + text(choices, 1, 1) + after
        case 4:
            return before + text(choices, 1, 1) + after[1:]
        case _:
            return after[:1] + before + after[1:]
