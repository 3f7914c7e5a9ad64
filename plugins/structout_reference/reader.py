"""What regular expressions and EBNF have in common: options, sequences, repetitions, groups, classes."""

import abc
import re
from collections.abc import Iterator
from typing import Final

from structout.errors import ErrorKind
from structout_reference.characters import Encoding, Ranges, checked, single, union, without
from structout_reference.errors import Refused, refused
from structout_reference.nodes import Alt, Node, Repeat, Seq, alt, repeat, seq

MAX_NESTING: Final = 50
"""Groups inside of one another."""
MAX_REPETITIONS: Final = 100_000
"""Bounds of repetitions inside of one another, multiplied."""

_COUNT: Final = re.compile(r"\{([0-9]{1,6})(,([0-9]{0,6}))?\}", re.ASCII)
_SIGNS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class Reader(abc.ABC):
    """Recursive descent over one text. The two syntaxes say what an atom and an escape are.

    Args:
        source: the text.
        encode: how a character is written.
    """

    def __init__(self, source: str, encode: Encoding) -> None:
        self.source = checked(source)
        self.encode = encode
        self.offset = 0
        self._depth = 0

    @property
    def next(self) -> str:
        """The next character; empty at the end."""
        return self.source[self.offset : self.offset + 1]

    def take(self, expected: str) -> bool:
        """Whether ``expected`` comes next, which is then behind us."""
        found = self.source.startswith(expected, self.offset)
        self.offset += len(expected) * found
        return found

    def take_match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.source, self.offset)
        self.offset = found.end() if found else self.offset
        return found

    def malformed(self, message: str, offset: int | None = None) -> Refused:
        return refused(message, ErrorKind.INVALID_SPEC, offset=self.offset if offset is None else offset)

    def unsupported(self, message: str, offset: int, hint: str | None = None) -> Refused:
        return refused(message, offset=offset, hint=hint)

    @property
    def is_outside(self) -> bool:
        """Whether no group is open."""
        return self._depth == 0

    @abc.abstractmethod
    def skip(self) -> None:
        """Goes on to what matters next."""

    def ends_sequence(self) -> bool:
        return self.next in ("", "|", ")")

    @abc.abstractmethod
    def atom(self, start: int) -> Node:
        """What can be repeated. ``start`` is its offset."""

    @abc.abstractmethod
    def escape(self, start: int) -> Ranges:
        """The characters that an escape stands for, whose backslash, at ``start``, is behind us."""

    def options(self) -> Node:
        sequences = [self.sequence()]
        while self.take("|"):
            sequences.append(self.sequence())
        return alt(*sequences)

    def sequence(self) -> Node:
        return seq(*self._parts())

    def _parts(self) -> Iterator[Node]:
        self.skip()
        while not self.ends_sequence():
            yield self.repeated(self.atom(self.offset))
            self.skip()

    def repeated(self, part: Node) -> Node:
        start = self.offset
        bounds = self.bounds()
        if bounds is None:
            return part
        if bounds[1] is not None and bounds[1] < bounds[0]:
            raise self.malformed("The upper bound of a repetition is below its lower one.", start)
        return repeat(part, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        """The bounds of a repetition that comes next; None if none does."""
        if self.next in _SIGNS:
            self.offset += 1
            return _SIGNS[self.source[self.offset - 1]]
        if count := self.take_match(_COUNT):
            low = int(count[1])
            return low, low if count[2] is None else int(count[3]) if count[3] else None
        return None

    def group(self, start: int) -> Node:
        """The rest of a group whose bracket, at ``start``, is behind us."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            message = f"Groups are nested more than {MAX_NESTING} deep."
            raise refused(message, ErrorKind.TOO_COMPLEX, offset=start)
        inside = self.options()
        if not self.take(")"):
            raise self.malformed("A '(' is not closed.", start)
        self._depth -= 1
        return inside

    def character_class(self, start: int) -> Ranges:
        """The rest of a class whose bracket, at ``start``, is behind us."""
        negated = self.take("^")
        if self.next == "]":
            raise self.unsupported("A class that is empty, or begins with ']', is read in several ways.", start)
        ranges = union(self._class_members(start))
        return without(ranges) if negated else ranges

    def _class_members(self, start: int) -> Iterator[tuple[int, int]]:
        while not self.take("]"):
            offset, first = self.offset, self.class_member(start)
            if self.next == "-" and self.source[self.offset + 1 : self.offset + 2] != "]":
                self.offset += 1
                yield self._range(offset, first, self.class_member(start))
            else:
                yield from first

    def class_member(self, start: int) -> Ranges:
        offset, character = self.offset, self.next
        if not character:
            raise self.malformed("A '[' is not closed.", start)
        self.offset += 1
        return self.escape(offset) if character == "\\" else single(character)

    def _range(self, offset: int, first: Ranges, last: Ranges) -> tuple[int, int]:
        if any(low != high for low, high in first + last):
            raise self.unsupported("A range from or to a class is read in several ways.", offset)
        if first > last:
            raise self.malformed("A range in a class is out of order.", offset)
        return first[0][0], last[0][1]


def repetitions(node: Node) -> int:
    """The bounds of repetitions inside of one another, multiplied, where that is the most."""
    match node:
        case Seq(parts=parts) | Alt(options=parts):
            return max(map(repetitions, parts), default=1)
        case Repeat(part=part, low=low, high=high):
            return max(high or 0, low, 1) * repetitions(part)
        case _:
            return 1


def bounded(node: Node) -> Node:
    """``node``, if its repetitions are within `MAX_REPETITIONS`."""
    if repetitions(node) > MAX_REPETITIONS:
        raise refused(f"Its repetitions multiply to more than {MAX_REPETITIONS:,}.", ErrorKind.TOO_COMPLEX)
    return node
