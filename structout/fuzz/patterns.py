"""Strings that match a regular expression of ECMA 262, mostly: what it cannot look into (assertions, references to
groups) it takes as empty. Whoever needs certainty checks."""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import attrs

from structout.fuzz.choices import Choices
from structout.fuzz.values import CHARACTERS, MOST_LENGTH, string

Range: TypeAlias = tuple[int, int]

_DIGIT: Final = ((48, 57),)
_LETTER: Final = ((97, 122), (65, 90))
_WORD: Final = (*_LETTER, *_DIGIT, (95, 95))
_SPACE: Final = (
    *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F)),
    *((0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_BREAK: Final = ((10, 10), (13, 13), (0x2028, 0x2029))
_CLASSES: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_MOST_SAMPLES: Final = 8
"""What repeats more often repeats the same text."""
_QUANTIFIER: Final = re.compile(r"(?:\*|\+|\?|\{(?P<low>\d+)(?P<comma>,(?P<high>\d*))?\})\??")
_GROUP: Final = re.compile(r"\((?:\?(?P<assertion>=|!|<=|<!)|\?:|\?<[^>]*>)?")
_CODE: Final = re.compile(r"u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})")
_PROPERTY: Final = re.compile(r"([pP])\{([^}]*)\}")


@attrs.frozen
class Letter:
    """One character out of some ranges of code points; a plain one, if there is any, half of the time."""

    ranges: tuple[Range, ...]
    plain: tuple[str, ...]

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> "Letter":
        found = tuple(ranges)
        return cls(found, tuple(each for each in CHARACTERS if any(low <= ord(each) <= high for low, high in found)))

    def sample(self, choices: Choices, _more: int) -> str:
        if self.plain and (not self.ranges or not choices.one_in(2)):
            return choices.pick(self.plain)
        low, high = choices.pick(self.ranges) if self.ranges else (97, 97)
        return chr(low + choices.below(high - low + 1))


@attrs.frozen
class Row:
    """One after the other."""

    parts: "tuple[Part, ...]"

    def sample(self, choices: Choices, more: int) -> str:
        return "".join(part.sample(choices, more) for part in self.parts)


@attrs.frozen
class Either:
    """One of several."""

    options: "tuple[Part, ...]"

    def sample(self, choices: Choices, more: int) -> str:
        return choices.pick(self.options).sample(choices, more)


@attrs.frozen
class Repeat:
    """``low`` to ``high`` times."""

    part: "Part"
    low: int
    high: int | None

    def sample(self, choices: Choices, more: int) -> str:
        high = self.low + more if self.high is None else min(self.high, self.low + more)
        times = choices.between(self.low, high)
        if times > _MOST_SAMPLES:
            return (self.part.sample(choices, more) * times)[:MOST_LENGTH]
        return "".join(self.part.sample(choices, more) for _ in range(times))


Part: TypeAlias = Letter | Row | Either | Repeat


def sample(choices: Choices, pattern: str, more: int = 2) -> str:
    """A string in which ``pattern`` is found, mostly.

    Args:
        pattern: as in ``pattern`` of a schema: it may match anywhere, unless it has anchors.
        more: what can repeat repeats at most so many times more than it has to.
    """
    found = _read(pattern).sample(choices, more)
    if choices.one_in(8):
        before = "" if pattern.startswith("^") else string(choices)
        after = "" if pattern.endswith("$") else string(choices)
        return before + found + after
    return found


@functools.lru_cache(maxsize=256)
def _read(pattern: str) -> Part:
    return _Reader(pattern).alternatives()


class _Reader:
    """Recursive descent. What is no regular expression becomes some part too, of no particular meaning."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _next(self) -> str:
        self._at += 1
        return self._text[self._at - 1 : self._at]

    def _match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        if found := expression.match(self._text, self._at):
            self._at = found.end()
        return found

    def alternatives(self) -> Part:
        options = [self._row()]
        while self._peek() == "|":
            self._next()
            options.append(self._row())
        return options[0] if len(options) == 1 else Either(tuple(options))

    def _row(self) -> Part:
        parts: list[Part] = []
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated())
        return Row(tuple(parts))

    def _repeated(self) -> Part:
        part = self._atom()
        while found := self._match(_QUANTIFIER):
            part = Repeat(part, *_times(found))
        return part

    def _atom(self) -> Part:
        if found := self._match(_GROUP):
            inner = self.alternatives()
            self._next()
            return Row(()) if found["assertion"] else inner
        match self._next():
            case "^" | "$":
                return Row(())
            case ".":
                return Letter.of(_without(_BREAK))
            case "[":
                return self._class()
            case "\\" if self._peek() in ("b", "B"):
                self._next()
                return Row(())
            case "\\":
                return Letter.of(self._escape())
            case letter:
                return Letter.of(_only(letter))

    def _class(self) -> Part:
        negated = self._peek() == "^"
        if negated:
            self._next()
        ranges: list[Range] = []
        while self._peek() not in ("", "]"):
            ranges += self._class_range()
        self._next()
        return Letter.of(_without(ranges) if negated else ranges)

    def _class_range(self) -> Sequence[Range]:
        first = self._class_atom()
        if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
            self._next()
            return ((first[0][0], self._class_atom()[-1][1]),)
        return first

    def _class_atom(self) -> Sequence[Range]:
        letter = self._next()
        return self._escape() if letter == "\\" else _only(letter)

    def _escape(self) -> Sequence[Range]:
        if found := self._match(_CODE):
            return _only(chr(int(found[1] or found[2] or found[3], 16)))
        if found := self._match(_PROPERTY):
            ranges: tuple[Range, ...] = _DIGIT if found[2].startswith("N") else _LETTER
            return ranges if found[1] == "p" else _without(ranges)
        letter = self._next()
        if letter == "c":
            return _only(chr(ord(self._next() or "@") % 32))
        if letter.lower() in _CLASSES:
            named = _CLASSES[letter.lower()]
            return named if letter.islower() else _without(named)
        return _only(_CONTROLS.get(letter, letter))


def _times(found: re.Match[str]) -> tuple[int, int | None]:
    if found["low"] is None:
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[0][0]]
        return low, high
    low = int(found["low"])
    return low, low if found["comma"] is None else (int(found["high"]) if found["high"] else None)


def _only(letter: str) -> tuple[Range, ...]:
    return ((ord(letter), ord(letter)),) if letter else ()


def _without(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """All of Unicode but these ranges and the surrogates."""
    free: list[Range] = []
    start = 0
    for low, high in sorted((*ranges, (0xD800, 0xDFFF), (0x110000, 0x110000))):
        if start < low:
            free.append((start, low - 1))
        start = max(start, high + 1)
    return tuple(free)
