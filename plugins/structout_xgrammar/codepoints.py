"""Sets of code points, and how they are written in xgrammar's EBNF."""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""A set of code points: sorted, disjoint (first, last) pairs."""

LAST: Final = 0x10FFFF
ALL: Final[Ranges] = ((0, 0xD7FF), (0xE000, LAST))
"""What UTF-8 can hold: all but the surrogates."""
DIGITS: Final[Ranges] = ((0x30, 0x39),)
WORD: Final[Ranges] = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Final[Ranges] = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
LINE_ENDS: Final[Ranges] = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))


def single(point: int) -> Ranges:
    return ((point, point),)


def is_single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def contains(ranges: Ranges, point: int) -> bool:
    return any(first <= point <= last for first, last in ranges)


def characters(ranges: Ranges) -> list[str]:
    return [chr(point) for first, last in ranges for point in range(first, last + 1)]


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The set of pairs in any order, which may overlap."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    ends = [-1, *(last for _, last in ranges)]
    starts = [*(first for first, _ in ranges), LAST + 1]
    return tuple((end + 1, start - 1) for end, start in zip(ends, starts, strict=True) if end + 1 < start)


def intersection(these: Ranges, those: Ranges) -> Ranges:
    def common() -> Iterator[tuple[int, int]]:
        for first, last in these:
            for start, end in those:
                if max(first, start) <= min(last, end):
                    yield max(first, start), min(last, end)

    return tuple(common())


def write(ranges: Ranges) -> str:
    """The set as a class in EBNF, in printable ASCII."""
    pairs = (_point(first) if first == last else f"{_point(first)}-{_point(last)}" for first, last in ranges)
    return f"[{''.join(pairs)}]"


def _point(point: int) -> str:
    if point < 0x80 and chr(point).isalnum():
        return chr(point)
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
