"""Regular expressions in ECMA 262's syntax, read into trees.

xgrammar's own regular expressions are not used: they take every pattern for a whole-text match, ignore look-ahead and
anchors in the middle with a warning to stderr, let ``.`` match a line feed and classes match bytes that are not UTF-8,
and their automata merge states that differ (``(a|a(|b))|cc`` matches ``ccb``; ``(a(bc)*|d){2,}`` matches ``ddbc``).
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

import attrs

from structout.errors import ErrorKind
from structout.result import Err, Ok, Result
from structout_xgrammar import codepoints
from structout_xgrammar.codepoints import Ranges


@attrs.frozen
class Chars:
    """One character of a set."""

    ranges: Ranges


@attrs.frozen
class Anchor:
    """``^``, or ``$`` if ``at_end``."""

    at_end: bool


@attrs.frozen
class Sequence:
    """One after the other; none is the empty text."""

    parts: "tuple[Tree, ...]"


@attrs.frozen
class Choice:
    """One of several."""

    options: "tuple[Tree, ...]"


@attrs.frozen
class Repeat:
    """``lower`` to ``upper`` times, without an upper bound if that is None."""

    part: "Tree"
    lower: int
    upper: int | None


Tree: TypeAlias = Chars | Anchor | Sequence | Choice | Repeat

ANYTHING: Final = Repeat(Chars(codepoints.ALL), 0, None)
"""Any text."""


@attrs.frozen
class Fault(Exception):
    """Why a pattern cannot be had.

    Attributes:
        message: what is wrong with it, as a clause.
        offset: where, in characters.
        kind: INVALID_SPEC if it is no regular expression; UNSUPPORTED if there is something in it that is not
            supported; TOO_COMPLEX over a limit; UNSATISFIABLE if it matches nothing.
    """

    message: str
    offset: int | None = None
    kind: ErrorKind = attrs.field(default=ErrorKind.UNSUPPORTED, kw_only=True)


def read(pattern: str) -> Result[Tree, Fault]:
    """The tree of a pattern."""
    try:
        return Ok(_Reader(pattern).read())
    except Fault as fault:
        return Err(fault)


def anywhere(tree: Tree) -> Tree:
    """What JSON Schema means by a pattern: it matches somewhere in the text, unless anchors say where."""
    return Sequence((ANYTHING, tree, ANYTHING))


_CLASS_ESCAPES: Final = {"d": codepoints.DIGITS, "w": codepoints.WORD, "s": codepoints.SPACE}
_CONTROL_ESCAPES: Final = {"n": 0x0A, "r": 0x0D, "t": 0x09, "f": 0x0C, "v": 0x0B}
_QUANTIFIERS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}

_COUNT: Final = re.compile(r"\{([0-9]{1,9})(,([0-9]{0,9}))?\}", re.ASCII)
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{0*([0-9a-fA-F]{1,6})\}|c([a-zA-Z])", re.ASCII)
_LOW_SURROGATE: Final = re.compile(r"\\u([dD][c-fC-F][0-9a-fA-F]{2})", re.ASCII)
_GROUP: Final = re.compile(r"\?(?::|P?<[A-Za-z_][A-Za-z0-9_]*>)", re.ASCII)


class _Reader:
    """Recursive descent over one pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._offset = 0

    def read(self) -> Tree:
        tree = self._choice()
        if self._offset < len(self._pattern):
            raise self._fault("there is a ')' without its '('", malformed=True)
        return tree

    @property
    def _next(self) -> str:
        return self._pattern[self._offset : self._offset + 1]

    def _fault(self, message: str, start: int | None = None, *, malformed: bool = False) -> Fault:
        kind = ErrorKind.INVALID_SPEC if malformed else ErrorKind.UNSUPPORTED
        return Fault(message, self._offset if start is None else start, kind=kind)

    def _choice(self) -> Tree:
        options: list[list[Tree]] = [[]]
        while self._next and self._next != ")":
            if self._next == "|":
                self._offset += 1
                options.append([])
            else:
                options[-1].append(self._quantified(self._atom()))
        sequences = tuple(Sequence(tuple(parts)) for parts in options)
        return sequences[0] if len(sequences) == 1 else Choice(sequences)

    def _quantified(self, atom: Tree) -> Tree:
        start, bounds = self._offset, self._quantifier()
        if bounds is None:
            return atom
        if self._next == "?":  # lazy: it prefers another match, of the same language
            self._offset += 1
        if isinstance(atom, Anchor):
            raise self._fault("an anchor cannot be repeated", start, malformed=True)
        again = self._offset
        if self._quantifier() is not None:
            raise self._fault("there are two quantifiers in a row", again, malformed=True)
        return Repeat(atom, *bounds)

    def _quantifier(self) -> tuple[int, int | None] | None:
        if self._next in _QUANTIFIERS:
            self._offset += 1
            return _QUANTIFIERS[self._pattern[self._offset - 1]]
        if self._pattern.startswith("{,", self._offset):
            raise self._fault("a repetition without a lower bound means different things in different dialects")
        if not (count := _COUNT.match(self._pattern, self._offset)):
            return None
        lower = int(count[1])
        upper = (int(count[3]) if count[3] else None) if count[2] else lower
        if upper is not None and upper < lower:
            raise self._fault("a repetition's upper bound is below its lower one", malformed=True)
        self._offset = count.end()
        return lower, upper

    def _atom(self) -> Tree:
        start, sign = self._offset, self._next
        self._offset += 1
        match sign:
            case "^" | "$":
                return Anchor(at_end=sign == "$")
            case "(":
                return self._group(start)
            case "[":
                return Chars(self._class(start))
            case ".":
                return Chars(codepoints.complement(codepoints.LINE_ENDS))
            case "\\":
                return Chars(self._escape(start, in_class=False))
            case "*" | "+" | "?":
                raise self._fault(f"there is nothing for {sign!r} to repeat", start, malformed=True)
            case _:
                return Chars(codepoints.single(ord(sign)))

    def _group(self, start: int) -> Tree:
        if opening := _GROUP.match(self._pattern, self._offset):
            self._offset = opening.end()
        elif self._next == "?":
            raise self._fault("look-around and flags in a group are not supported", start)
        tree = self._choice()
        if not self._next:
            raise self._fault("a '(' is not closed", start, malformed=True)
        self._offset += 1
        return tree

    def _class(self, start: int) -> Ranges:
        negated = self._next == "^"
        self._offset += negated
        ranges = codepoints.union(self._class_members(start))
        self._offset += 1
        return codepoints.complement(ranges) if negated else ranges

    def _class_members(self, start: int) -> Iterator[tuple[int, int]]:
        while self._next != "]":
            first = self._class_unit(start)
            if self._next != "-" or self._pattern[self._offset + 1 : self._offset + 2] in ("]", ""):
                yield from first
            else:
                self._offset += 1
                yield self._range(first, self._class_unit(start), start)

    def _range(self, first: Ranges, last: Ranges, start: int) -> tuple[int, int]:
        if not codepoints.is_single(first) or not codepoints.is_single(last):
            raise self._fault("a range from or to a class means different things in different dialects", start)
        if last < first:
            raise self._fault("a range in a class is out of order", start, malformed=True)
        return first[0][0], last[0][0]

    def _class_unit(self, start: int) -> Ranges:
        sign = self._next
        self._offset += 1
        if not sign:
            raise self._fault("a '[' is not closed", start, malformed=True)
        if sign == "[" and self._next == ":":
            raise self._fault("named classes such as [:alpha:] are not supported", start)
        return self._escape(self._offset - 1, in_class=True) if sign == "\\" else codepoints.single(ord(sign))

    def _escape(self, start: int, *, in_class: bool) -> Ranges:
        """What the escape whose backslash is at ``start`` stands for."""
        sign = self._next
        self._offset += 1
        if sign.lower() in _CLASS_ESCAPES:
            ranges = _CLASS_ESCAPES[sign.lower()]
            return codepoints.complement(ranges) if sign.isupper() else ranges
        if code := _CODE.match(self._pattern, start + 1):
            self._offset = code.end()
            return self._coded(code, start)
        if sign in _CONTROL_ESCAPES:
            return codepoints.single(_CONTROL_ESCAPES[sign])
        if sign == "b" and in_class:
            return codepoints.single(0x08)
        if sign == "0" and not self._next.isdigit():
            return codepoints.single(0)
        if not sign:
            raise self._fault("it ends in a backslash", start, malformed=True)
        if sign.isalnum():
            raise self._fault(f"\\{sign} is not supported", start)
        return codepoints.single(ord(sign))

    def _coded(self, code: re.Match[str], start: int) -> Ranges:
        two, four, braced, control = code.groups()
        point = ord(control) % 32 if control else int(two or four or braced, 16)
        if 0xD800 <= point < 0xDC00 and (low := _LOW_SURROGATE.match(self._pattern, self._offset)):
            self._offset = low.end()
            point = 0x10000 + ((point - 0xD800) << 10) + int(low[1], 16) - 0xDC00
        if point > codepoints.LAST:
            raise self._fault("it names a character beyond Unicode", start, malformed=True)
        return codepoints.single(point)
