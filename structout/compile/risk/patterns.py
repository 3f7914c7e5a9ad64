"""Regular expressions and the right-hand sides of grammar rules, measured by one scan that knows no dialect exactly.

What it finds is an upper bound for well-formed text: repetitions are written out, and what could be read as one is.
"""

import re
from typing import Final

import attrs

from structout.compile.risk.bounds import Bounds
from structout.compile.risk.measures import CAP, Measure, Measures, text_bytes

# Possessive throughout: every character is looked at a bounded number of times.
_COUNT: Final = r"\{\s*+(?P<least>\d*+)\s*+(?P<comma>,)?\s*+(?P<most>\d*+)\s*+\}"
CLASS: Final = r"\[\^?(?:[^\]\\]|\\.)*+\]?"
QUANTIFIER: Final = rf"(?P<many>[*+])|(?P<maybe>\?)|(?P<count>{_COUNT})"

REGEX: Final = re.compile(
    r"(?P<literal>[^\\\[\](){}|*+?.]++)"
    rf"|{QUANTIFIER}"
    rf"|(?P<wide>{CLASS}|\\[dDwWsSpPhHvVNRX]|\.)"
    r"|(?P<open>\((?:\?(?:<[=!]|P?<|[:=!])?)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<one>\\.?|.)",
    re.DOTALL,
)


class _Part:
    """Part of an expression, repetitions written out.

    Attributes:
        wide: positions that match more than one character, and all that are repeated.
        size: all positions.
        optional: parts that may be absent.
        repetition: largest product of nested counts.
    """

    __slots__ = ("optional", "repetition", "size", "wide")

    def __init__(self, wide: int = 0, size: int = 0) -> None:
        self.wide = wide
        self.size = size
        self.optional = 0
        self.repetition = 1

    def add(self, other: "_Part") -> None:
        self.wide = min(self.wide + other.wide, CAP)
        self.size = min(self.size + other.size, CAP)
        self.optional = min(self.optional + other.optional, CAP)
        self.repetition = max(self.repetition, other.repetition)

    def repeat(self, least: int, most: int) -> None:
        if most > 1:
            self.wide = self.size = min(max(self.size, 1) * most, CAP)
            self.optional = min(self.optional * most, CAP)
            self.repetition = min(self.repetition * most, CAP)
        self.optional = min(self.optional + most - least, CAP)


@attrs.frozen
class Extent:
    """How large an expression is; the numbers as `_Part` has them, and how deep its groups nest."""

    positions: int
    optional: int
    repetition: int
    depth: int


class Scanner:
    """Takes the tokens of one expression, one by one."""

    __slots__ = ("_deepest", "_groups", "_last")

    def __init__(self) -> None:
        self._groups = [_Part()]
        self._last = _Part()
        self._deepest = 0

    def token(self, match: re.Match[str]) -> None:
        """Any token; what is none of `REGEX`'s kinds counts as a literal of its length."""
        match match.lastgroup:
            case "wide":
                self._begin(_Part(1, 1))
            case "many":
                self._last.repeat(0 if match[0] == "*" else 1, 1)
            case "maybe":
                self._last.repeat(0, 1)
            case "count":
                self._last.repeat(*_counts(match))
            case "times":
                least = _number(match["from"])
                self._last.repeat(least, max(least, _number(match["to"]), 1))
            case "open":
                self._begin(_Part())
                self._groups.append(_Part())
                self._deepest = max(self._deepest, len(self._groups) - 1)
            case "close" if len(self._groups) > 1:
                self._close()
            case "bar":
                self._begin(_Part())
            case _:
                self._literal(len(match[0]))

    def end(self) -> Extent:
        """What the expression came to; groups that are open end here."""
        while len(self._groups) > 1:
            self._close()
        self._begin(_Part())
        whole = self._groups[0]
        return Extent(whole.wide, whole.optional, whole.repetition, self._deepest)

    def _begin(self, part: _Part) -> None:
        """A quantifier that follows is about ``part``; the part before it is complete."""
        self._groups[-1].add(self._last)
        self._last = part

    def _literal(self, length: int) -> None:
        if length > 1:
            self._begin(_Part(0, length - 1))
        self._begin(_Part(0, 1))

    def _close(self) -> None:
        self._begin(_Part())
        self._last = self._groups.pop()


def _counts(match: re.Match[str]) -> tuple[int, int]:
    """Least and most of a count, however it is written; ``{3,}`` is three and then any number."""
    least = _number(match["least"])
    most = _number(match["most"]) if match["comma"] and match["most"] else least
    return min(least, most), max(least, most, 1)


def _number(digits: str | None) -> int:
    return (int(digits) if len(digits) < 10 else CAP) if digits else 0


def regex_extent(pattern: str) -> Extent:
    """The extent of a regular expression. Never raises."""
    scanner = Scanner()
    for match in REGEX.finditer(pattern):
        scanner.token(match)
    return scanner.end()


def add_regex(measures: Measures, pattern: str, bounds: Bounds) -> None:
    """Adds a regular expression to what was measured. Never raises; beyond the hard bound of bytes it is not read."""
    measures[Measure.REGEX_BYTES] += text_bytes(pattern)
    if measures[Measure.REGEX_BYTES] > bounds[Measure.REGEX_BYTES].hard:
        return
    extent = regex_extent(pattern)
    measures[Measure.REGEX_DEPTH] = max(measures[Measure.REGEX_DEPTH], extent.depth)
    measures[Measure.POSITIONS] += extent.positions
    measures[Measure.OPTIONAL] += extent.optional
