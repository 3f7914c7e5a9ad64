"""Writes small languages as regular expressions and as GBNF."""

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from structout.fuzz.language_nodes import (
    ANY_BUT_NEWLINE,
    Alt,
    CharClass,
    Literal,
    Node,
    Repeat,
    RuleRef,
    Seq,
)

_CONTROL: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_REGEX_SIGNS: Final = frozenset("\\.+*?()|[]{}^$")
_CLASS_SIGNS: Final = frozenset("\\]^-[")
_COUNTS: Final[dict[tuple[int, int | None], str]] = {(0, None): "*", (1, None): "+", (0, 1): "?"}


def to_regex(node: Node, *, capture: bool = False) -> str:
    """A regular expression without references, in what all dialects have in common.

    Args:
        node: what to write.
        capture: whether groups are written ``( )`` instead of ``(?: )``.
    """
    group = "" if capture else "?:"
    return _Writer(_regex_literal, ".", group, "", f"({group})", "").options(node)


def to_gbnf(rules: Mapping[str, Node]) -> str:
    """A grammar of these rules, one of which is ``root``."""
    writer = _Writer(_gbnf_literal, "[^\\n]", "", " ", '""', '""')
    return "".join(f"{name} ::= {writer.options(body)}\n" for name, body in rules.items())


def _regex_literal(text: str) -> str:
    return "".join(_escaped(character, _REGEX_SIGNS) for character in text)


def _gbnf_literal(text: str) -> str:
    return '"' + "".join(_escaped(character, frozenset('\\"')) for character in text) + '"'


def _escaped(character: str, signs: frozenset[str]) -> str:
    return "\\" + character if character in signs else _CONTROL.get(character, character)


@attrs.frozen
class _Writer:
    """One of the two syntaxes.

    Attributes:
        literal: writes a text.
        dot: any character but the line feed.
        group: what follows the bracket that opens a group.
        space: what stands between parts.
        empty: the empty text where something is repeated.
        nothing: the empty text elsewhere.
    """

    literal: Callable[[str], str]
    dot: str
    group: str
    space: str
    empty: str
    nothing: str

    def options(self, node: Node) -> str:
        """A tree where options need no group."""
        if isinstance(node, Alt):
            return f"{self.space}|{self.space}".join(map(self.sequence, node.options))
        return self.sequence(node)

    def sequence(self, node: Node) -> str:
        """A tree where parts one after the other need no group."""
        if isinstance(node, Seq):
            return self.space.join(filter(None, map(self.part, node.parts))) or self.nothing
        return self.part(node)

    def part(self, node: Node) -> str:
        """A tree as one part of a sequence."""
        match node:
            case Literal(text=text):
                return self.literal(text)
            case Repeat(part=part, low=low, high=high):
                return self.repeated(part) + _COUNTS.get((low, high), _count(low, high))
            case CharClass() | RuleRef():
                return self.repeated(node)
            case _:
                return f"({self.group}{self.options(node)})"

    def repeated(self, node: Node) -> str:
        """A tree that a repetition can follow."""
        match node:
            case CharClass():
                return self.dot if node == ANY_BUT_NEWLINE else _class(node)
            case RuleRef(name=name):
                return name
            case Literal(text=text) if len(text) == 1 or (text and self.space):
                return self.literal(text)
            case Literal(text=""):
                return self.empty
            case _:
                return f"({self.group}{self.options(node)})"


def _class(node: CharClass) -> str:
    inside = "".join(_class_range(first, last) for first, last in node.ranges)
    return f"[{'^' * node.negated}{inside}]"


def _class_range(first: str, last: str) -> str:
    ends = [_escaped(end, _CLASS_SIGNS) for end in (first, last)]
    return ends[0] if first == last else "-".join(ends)


def _count(low: int, high: int | None) -> str:
    if low == high:
        return f"{{{low}}}"
    return f"{{{low},{'' if high is None else high}}}"
