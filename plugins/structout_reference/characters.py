"""Sets of characters, and the bytes that they are written with: as UTF-8, or inside of a JSON string."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from structout.errors import ErrorKind
from structout.spec import Escapes
from structout_reference.errors import refused
from structout_reference.nodes import Bytes, Node, alt, one_of, seq, text

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""A set of code points: disjoint (first, last) pairs in order."""
Encoding: TypeAlias = Callable[[Ranges], Node]
"""How one character of a set is written."""

LAST: Final = 0x10FFFF
ALL: Final[Ranges] = ((0, 0xD7FF), (0xE000, LAST))
"""All characters; surrogates are none."""


def literal(source: str) -> Node:
    """This text, as UTF-8."""
    return text(checked(source).encode())


def checked(source: str) -> str:
    """``source``, if there is UTF-8 for it."""
    if any("\ud800" <= character <= "\udfff" for character in source):
        raise refused("The text has half of a surrogate pair, which no UTF-8 text can have.", ErrorKind.INVALID_SPEC)
    return source


def single(character: str) -> Ranges:
    return ((ord(character), ord(character)),)


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The set of the characters in pairs of code points that may overlap, in any order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return intersection(tuple(merged), ALL)


def intersection(these: Ranges, those: Ranges) -> Ranges:
    pairs = ((max(one[0], other[0]), min(one[1], other[1])) for one in these for other in those)
    return tuple(sorted((first, last) for first, last in pairs if first <= last))


def without(ranges: Ranges) -> Ranges:
    """All characters that are not in the set."""
    ends = [-1, *(last for _, last in ranges)]
    starts = [*(first for first, _ in ranges), LAST + 1]
    gaps = tuple((end + 1, start - 1) for end, start in zip(ends, starts, strict=True) if end + 1 < start)
    return intersection(ALL, gaps)


def blocks(first: Sequence[int], last: Sequence[int], top: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Splits the numbers from ``first`` to ``last``, given as their digits, into blocks: a range for each digit.

    Args:
        first, last: as many digits each, the most significant first.
        top: the largest digit; the smallest is 0.
    """
    (low, *lows), (high, *highs) = first, last
    zeros, tops = [0] * len(lows), [top] * len(lows)
    if low == high:
        tails = blocks(lows, highs, top) if lows else iter([()])
        yield from (((low, high), *tail) for tail in tails)
        return
    if lows != zeros:
        yield from (((low, low), *tail) for tail in blocks(lows, tops, top))
        low += 1
    if highs != tops:
        yield from (((high, high), *tail) for tail in blocks(zeros, highs, top))
        high -= 1
    if low <= high:
        yield ((low, high), *((0, top) for _ in lows))


def digits(number: int, base: int, count: int) -> list[int]:
    """The last ``count - 1`` digits of a number and, as the first, all that is before them."""
    last = [number // base**place % base for place in reversed(range(count - 1))]
    return [number // base ** (count - 1), *last]


_UTF8: Final = ((0, 0x7F, 0), (0x80, 0x7FF, 0xC0), (0x800, 0xFFFF, 0xE0), (0x10000, LAST, 0xF0))
"""First and last code point of the characters of one, two, three and four bytes, and the mark in the first byte."""


def utf8(ranges: Ranges) -> Node:
    """One character of a set, as UTF-8."""
    options: list[Node] = []
    for trailing, (lowest, highest, mark) in enumerate(_UTF8):
        for first, last in intersection(ranges, ((lowest, highest),)):
            ends = digits(first, 64, trailing + 1), digits(last, 64, trailing + 1)
            options += (_utf8_block(block, mark) for block in blocks(*ends, 63))
    return alt(*options)


def _utf8_block(block: Sequence[tuple[int, int]], mark: int) -> Node:
    (first, last), *trailing = block
    return seq(_bytes(mark + first, mark + last), *(_bytes(0x80 + low, 0x80 + high) for low, high in trailing))


def _bytes(first: int, last: int) -> Bytes:
    return one_of(range(first, last + 1))


_SHORT: Final = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_ESCAPED: Final[Ranges] = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C))
_SURROGATES: Final = 0xD800, 0xDC00


def json_string(escapes: Escapes) -> Encoding:
    """Writes characters of JSON strings: by themselves where JSON allows it, in their short escape, or in hexadecimal.

    MINIMAL: an escape only where there has to be one, the short one if there is one.
    """

    def encode(ranges: Ranges) -> Node:
        escaped = ranges if escapes is Escapes.ANY else intersection(ranges, _ESCAPED)
        in_short = [char for char in _SHORT if intersection(escaped, single(char))]
        coded = escaped if escapes is Escapes.ANY else intersection(escaped, without(union(map(_pair, _SHORT))))
        return alt(
            utf8(intersection(ranges, without(_ESCAPED))),
            seq(text(b"\\"), one_of(ord(_SHORT[char]) for char in in_short)),
            *_hexadecimal(coded),
        )

    return encode


def _pair(character: str) -> tuple[int, int]:
    return ord(character), ord(character)


def _hexadecimal(ranges: Ranges) -> Iterator[Node]:
    """``\\u`` and four digits; twice, with a surrogate each, for characters that need more."""
    for first, last in intersection(ranges, ((0, 0xFFFF),)):
        yield _hex_range(first, last)
    for first, last in intersection(ranges, ((0x10000, LAST),)):
        ends = digits(first - 0x10000, 1024, 2), digits(last - 0x10000, 1024, 2)
        for block in blocks(*ends, 1023):
            pair = zip(_SURROGATES, block, strict=True)
            yield seq(*(_hex_range(surrogate + low, surrogate + high) for surrogate, (low, high) in pair))


def _hex_range(first: int, last: int) -> Node:
    quads = blocks(digits(first, 16, 4), digits(last, 16, 4), 15)
    return seq(text(b"\\u"), alt(*(seq(*(_hex_digit(low, high) for low, high in quad)) for quad in quads)))


def _hex_digit(first: int, last: int) -> Bytes:
    both_cases = "0123456789abcdef"[first : last + 1] + "0123456789ABCDEF"[first : last + 1]
    return one_of(both_cases.encode())
