"""How JSON is written under a serialization policy: the pieces that the rules of a schema are made of."""

import functools
import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from structout.spec import Serialization, Whitespace
from structout_reference.characters import ALL, Encoding, blocks, digits, json_string, single, union, without
from structout_reference.errors import refused
from structout_reference.nodes import EMPTY, Node, alt, one_of, optional, repeat, seq, text

_QUOTE: Final = text(b'"')
_MINUS: Final = text(b"-")
_DIGIT: Final = one_of(b"0123456789")
_SPACE: Final = repeat(one_of(b" \t\n\r"))
MAX_DIGITS: Final = 400
"""Of numbers in enumerations, and of bounds."""

INTEGER: Final = seq(optional(_MINUS), alt(text(b"0"), seq(one_of(b"123456789"), repeat(_DIGIT))))
NUMBER: Final = seq(
    INTEGER,
    optional(seq(text(b"."), repeat(_DIGIT, 1))),
    optional(seq(one_of(b"eE"), optional(one_of(b"+-")), repeat(_DIGIT, 1))),
)
BOOLEAN: Final = alt(text(b"true"), text(b"false"))
NULL: Final = text(b"null")


class Writer:
    """JSON under one policy.

    Attributes:
        blank: white space where there need not be any.
        comma, colon: with the white space around them.
        character: how one character of a string is written.
    """

    def __init__(self, serialization: Serialization) -> None:
        spaced = text(b" ") if serialization.whitespace is Whitespace.SPACED else EMPTY
        self.blank = _SPACE if serialization.whitespace is Whitespace.ANY else EMPTY
        self.comma = seq(self.blank, text(b","), self.blank, spaced)
        self.colon = seq(self.blank, text(b":"), self.blank, spaced)
        self.character: Encoding = functools.cache(json_string(serialization.escapes))
        self._any_character = self.character(ALL)

    def text(self, value: str) -> Node:
        """This string."""
        return seq(_QUOTE, *self._characters(value), _QUOTE)

    def _characters(self, value: str) -> Iterator[Node]:
        return (self.character(single(character)) for character in value)

    def string(self, low: int = 0, high: int | None = None) -> Node:
        """A string of ``low`` to ``high`` characters."""
        return self.matching(repeat(self._any_character, low, high))

    def matching(self, characters: Node) -> Node:
        """A string of such characters."""
        return seq(_QUOTE, characters, _QUOTE)

    def other_than(self, names: Sequence[str]) -> Node:
        """A string that is none of these: where it leaves the tree of their beginnings, or ends inside of it."""
        following: dict[str, set[str]] = {"": set()}
        for name in names:
            following.setdefault(name, set())
            for length, character in enumerate(name):
                following.setdefault(name[:length], set()).add(character)
        options: list[Node] = []
        for beginning, inside in following.items():
            outside = self.character(without(union(single(character)[0] for character in inside)))
            end = () if beginning in names else (EMPTY,)
            rest = alt(seq(outside, repeat(self._any_character)), *end)
            options.append(seq(_QUOTE, *self._characters(beginning), rest, _QUOTE))
        return alt(*options)

    def array(self, items: Node) -> Node:
        return seq(text(b"["), self.blank, items, self.blank, text(b"]"))

    def object(self, members: Node) -> Node:
        return seq(text(b"{"), self.blank, members, self.blank, text(b"}"))

    def value(self, value: Any) -> Node:
        """This JSON value. A number with a fraction or exponent is also written in the usual other ways."""
        match value:
            case bool() | None:
                return {True: text(b"true"), False: text(b"false"), None: NULL}[value]
            case str():
                return self.text(value)
            case int() | Decimal():
                return _number(value)
            case list():
                return self.array(_joined([self.value(item) for item in value], self.comma))
            case _:
                members = [seq(self.text(name), self.colon, self.value(item)) for name, item in value.items()]
                return self.object(_joined(members, self.comma))


def _joined(parts: Sequence[Node], comma: Node) -> Node:
    return seq(*parts[:1], *(seq(comma, part) for part in parts[1:]))


def _number(value: int | Decimal) -> Node:
    if abs(Decimal(value).adjusted()) > MAX_DIGITS:
        raise refused("A number has too many digits.")
    return alt(*(text(spelling.encode()) for spelling in sorted(_spellings(value))))


def _spellings(value: int | Decimal) -> set[str]:
    if isinstance(value, int):
        return {str(value)}
    spellings = [format(value, "f"), format(value, ".0f"), json.dumps(float(value))]
    return {spelling for spelling in spellings if Decimal(spelling) == value}


def integers(low: int | None, high: int | None) -> Node:
    """The integers from ``low`` to ``high``, None for no bound."""
    if low is None and high is None:
        return INTEGER
    options: list[Node] = []
    if high is None or high >= 0:
        options += _naturals(max(low or 0, 0), high)
    if low is None or low < 0:
        least = 1 if high is None or high >= 0 else -high
        options += (seq(_MINUS, node) for node in _naturals(least, None if low is None else -low))
    if (low or 0) <= 0 <= (high or 0):
        options.append(text(b"-0"))
    return alt(*options)


def _naturals(low: int, high: int | None) -> Iterator[Node]:
    """The numbers from ``low``, at least 0, to ``high``, one count of digits after the other."""
    most = len(str(low)) if high is None else len(str(high))
    if most > MAX_DIGITS:
        raise refused("A bound has too many digits.")
    for count in range(len(str(low)), most + 1):
        first, last = max(low, 10 ** (count - 1) if count > 1 else 0), 10**count - 1
        last = last if high is None else min(last, high)
        if first <= last:
            for block in blocks(digits(first, 10, count), digits(last, 10, count), 9):
                yield seq(*(one_of(range(0x30 + least, 0x31 + greatest)) for least, greatest in block))
    if high is None:
        yield seq(one_of(b"123456789"), repeat(_DIGIT, most))
