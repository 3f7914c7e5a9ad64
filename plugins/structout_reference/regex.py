"""Regular expressions: what all dialects read alike, and what only one dialect has where that dialect is meant.

Taken: literals, ``.``, classes, ``* + ? {m} {m,} {m,n}`` (lazy ones, too: they match the same texts), ``|``, ``( )``,
``(?: )``, anchors at both ends of the whole and of its options, the escapes ``\\n \\r \\t \\f \\v \\xHH \\uHHHH``, and
escaped punctuation. By itself ``.`` is any character but ``\\n``. What Python, ECMA 262 and Rust's ``regex`` read
differently is refused, such as ``\\d``, ``\\w`` and ``\\s``; in a ``pattern``, all has its meaning in ECMA 262.
"""

import re
import string
from collections.abc import Mapping
from typing import Final

import attrs

from structout_reference.characters import ALL, Encoding, Ranges, single, union, without
from structout_reference.nodes import Node, alt, repeat, seq
from structout_reference.reader import Reader, bounded

_CONTROL: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
_PUNCTUATION: Final = frozenset(string.punctuation) - set("<>")  # word boundaries in Rust
_CODE: Final = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})", re.ASCII)
_SET_OPERATION: Final = re.compile(r"\[|--|&&|~~|\|\|")
_TWICE: Final = re.compile(r"[*+?{]")


@attrs.frozen
class Dialect:
    """What dialects differ in: the characters of the dot, and of escapes such as ``\\d`` by their letter."""

    dot: Ranges
    classes: Mapping[str, Ranges]


def _with_complements(classes: Mapping[str, Ranges]) -> dict[str, Ranges]:
    return {**classes, **{letter.upper(): without(ranges) for letter, ranges in classes.items()}}


PORTABLE: Final = Dialect(without(single("\n")), {})
ECMA_262: Final = Dialect(
    without(union((*single("\n"), *single("\r"), (0x2028, 0x2029)))),
    _with_complements(
        {
            "d": ((0x30, 0x39),),
            "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
            "s": union(
                (ord(char), ord(char))
                for char in "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"
                + "".join(map(chr, range(0x2000, 0x200B)))
            ),
        }
    ),
)


@attrs.frozen
class _Option:
    """One of the options that the whole pattern consists of."""

    node: Node
    from_start: bool
    to_end: bool


def whole(pattern: str, encode: Encoding) -> Node:
    """The texts that a pattern matches from their first to their last character."""
    return bounded(alt(*(option.node for option in _PatternReader(pattern, encode, PORTABLE).pattern())))


def anywhere(pattern: str, encode: Encoding) -> Node:
    """The texts in which a pattern of ECMA 262 matches somewhere, or where its anchors say."""
    around = repeat(encode(ALL))
    parts = (
        seq(*(() if option.from_start else (around,)), option.node, *(() if option.to_end else (around,)))
        for option in _PatternReader(pattern, encode, ECMA_262).pattern()
    )
    return bounded(alt(*parts))


class _PatternReader(Reader):
    def __init__(self, pattern: str, encode: Encoding, dialect: Dialect) -> None:
        super().__init__(pattern, encode)
        self._dialect = dialect

    def skip(self) -> None:
        """Everything matters: white space too is text."""

    def pattern(self) -> list[_Option]:
        found = [self._option()]
        while self.take("|"):
            found.append(self._option())
        if self.next == ")":
            raise self.malformed("A ')' closes nothing.")
        return found

    def _option(self) -> _Option:
        from_start = self.take("^")
        return _Option(self.sequence(), from_start, self.take("$"))

    def ends_sequence(self) -> bool:
        """Also at an anchor that is the last of an option of the whole pattern."""
        is_last = self.source[self.offset + 1 : self.offset + 2] in ("", "|")
        return super().ends_sequence() or (self.next == "$" and is_last and self.is_outside)

    def atom(self, start: int) -> Node:
        character = self.next
        self.offset += 1
        match character:
            case "(":
                return self._group(start)
            case "[":
                return self.encode(self.character_class(start))
            case ".":
                return self.encode(self._dialect.dot)
            case "\\":
                return self.encode(self.escape(start))
            case "^" | "$":
                raise self.unsupported("An anchor is supported at the ends of a pattern only.", start)
            case "*" | "+" | "?":
                raise self.malformed(f"There is nothing for {character!r} to repeat.", start)
            case "{":
                raise self.unsupported("A '{' that begins no repetition is read in several ways.", start, "write \\{")
            case _:
                return self.encode(single(character))

    def _group(self, start: int) -> Node:
        if self.next == "?" and not self.take("?:"):
            raise self.unsupported("Look-around, flags and named groups are not supported.", start)
        return self.group(start)

    def repeated(self, part: Node) -> Node:
        before = self.offset
        node = super().repeated(part)
        if self.offset > before and not self.take("?") and self.next == "+":
            raise self.unsupported("A repetition that gives nothing back is not supported.", self.offset)
        if self.offset > before and _TWICE.match(self.next):
            raise self.malformed("There are two repetitions in a row.")
        return node

    def class_member(self, start: int) -> Ranges:
        if _SET_OPERATION.match(self.source, self.offset):
            raise self.unsupported("Some dialects read an operation on sets here.", self.offset, "use a backslash")
        return super().class_member(start)

    def escape(self, start: int) -> Ranges:
        letter = self.next
        if code := self.take_match(_CODE):
            return self._coded(int(code[1] or code[2], 16), start)
        self.offset += 1
        if letter in _CONTROL or letter in _PUNCTUATION:
            return single(_CONTROL.get(letter, letter))
        if letter in self._dialect.classes:
            return self._dialect.classes[letter]
        if not letter:
            raise self.malformed("It ends in a backslash.", start)
        if letter in "dDwWsS":
            raise self.unsupported(f"\\{letter} is read in several ways.", start, "write a class, such as [0-9]")
        raise self.unsupported(f"\\{letter} is not supported.", start)

    def _coded(self, code: int, start: int) -> Ranges:
        if 0xD800 <= code < 0xE000:
            raise self.unsupported("Half of a surrogate pair is no character.", start, "write the character itself")
        return single(chr(code))
