"""JSON scalars, names and values to put into schemas and instances, from the plain to the odd."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from structout.fuzz.choices import Choices

Json: TypeAlias = Any

KINDS: Final = ("string", "integer", "number", "object", "array", "boolean", "null")
"""The types that JSON Schema names."""

CHARACTERS: Final[tuple[str, ...]] = (*"abcabcabcabc", *"xX01 -_./", *'"\\\n\t\x00\x7f', *"éß中\u0301\u2028\ufeff😀")
"""A third of them need an escape in JSON, or more than one byte in UTF-8."""

WIDE: Final = "é中😀\u0301\ufb01\ue000\U000f0000"
"""Characters of two, three and four bytes in UTF-8, some of which take two units in UTF-16; one that combines, one that
a normal form replaces, and two that nobody has assigned."""

NAMES: Final[tuple[str, ...]] = (
    *"abcabcabc",
    "ab",
    "a b",
    "",
    "0",
    "a/b",
    "~",
    '"',
    "\\",
    "\n",
    "é",
    "中",
    "😀",
    "type",
    "$ref",
    "aa-b",
    "a\u0301",
    "\ufb01",
)
"""Names of members. Few, so that the keywords of a schema speak of the same ones. A normal form would replace the last
two."""

INTEGERS: Final = (
    *(0, 1, 2, 3, 5, 10, -1, -2, -10, 100, 255, 1000, 65536),
    *(2**31, -(2**31) - 1, 2**53 + 1, 2**63, -(10**20)),
)
NUMBERS: Final = (0.5, 1.5, 0.1, 2.25, -0.5, -0.0, 1.0, 3.14, -273.15, 0.01, 1e-7, 1e22, -1e22, 12345.678, 1e300)

MOST_LENGTH: Final = 5000
"""No string is longer, whatever a schema asks for."""

COUNTS: Final = (0, 1, 2, 3, 1, 2, 3, 4, 5, 8, 17)
"""For lengths."""


def string(choices: Choices, low: int = 0, high: int | None = None) -> str:
    """A string of ``low`` to ``high`` characters, none of them a surrogate: seldom more than four beyond ``low``, but
    often as long as it may be. One in six is of `WIDE` characters only."""
    length = low + choices.weighted(((4, 0), (4, 1), (3, 2), (2, 3), (1, 4), (1, 12)))
    if high is not None:
        length = max(low, high if choices.one_in(4) else min(length, high))
    alphabet = WIDE if choices.one_in(6) else CHARACTERS
    if length > 64:
        return choices.pick(alphabet) * min(length, MOST_LENGTH)
    return "".join(choices.pick(alphabet) for _ in range(length))


def name(choices: Choices) -> str:
    """A name for a member."""
    return choices.pick(NAMES)


def integer(choices: Choices) -> int:
    """Half of them small."""
    return choices.pick(INTEGERS) if choices.one_in(2) else choices.below(7)


def number(choices: Choices) -> int | float:
    """Integers too."""
    return choices.pick(NUMBERS) if choices.one_in(2) else integer(choices)


def value(choices: Choices, kind: str, depth: int = 1) -> Json:
    """A value of one of `KINDS`; arrays and objects have at most two parts, of any kind while ``depth`` allows it."""
    return _VALUES[kind](choices, depth)


def any_value(choices: Choices, depth: int = 1) -> Json:
    """A value of any kind."""
    return value(choices, choices.pick(KINDS), depth)


def _array(choices: Choices, depth: int) -> list[Json]:
    return [any_value(choices, depth - 1) for _ in range(choices.below(3) if depth > 0 else 0)]


def _object(choices: Choices, depth: int) -> dict[str, Json]:
    return {name(choices): any_value(choices, depth - 1) for _ in range(choices.below(3) if depth > 0 else 0)}


_VALUES: Final[Mapping[str, Callable[[Choices, int], Json]]] = {
    "string": lambda choices, _depth: string(choices),
    "integer": lambda choices, _depth: integer(choices),
    "number": lambda choices, _depth: number(choices),
    "object": _object,
    "array": _array,
    "boolean": lambda choices, _depth: bool(choices.below(2)),
    "null": lambda _choices, _depth: None,
}
