"""What llguidance does to JSON Schema keywords, measured with version 1.9.1 (see tests/backends/test_llguidance.py)."""

import math
from collections.abc import Iterator
from typing import Any, Final

import attrs

from structout.schema import (
    Node,
    Rule,
    all_of,
    below_root,
    type_allows,
    value_is,
    value_matches,
    without,
)
from structout.spec import Dialect, FormatMode, JsonSchema, KeyOrder
from structout_llguidance.formats import KNOWN_FORMATS
from structout_llguidance.patterns import NotPortable, to_rust

FLOAT_DIGITS: Final = 15
"""Significant decimal digits that survive a double."""

_LARGEST_INTEGER: Final = 2**53

_LARGEST_DIVISOR: Final = 100_000
"""What a multiple may be of, in units of its last decimal place; a million takes llguidance minutes."""


def _numbers(value: Any) -> Iterator[int | float]:
    """All numbers in a JSON value."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield item


def _is_rounded(value: Any) -> bool:
    """Whether a number in the value is more precise than a double, in which llguidance keeps all numbers."""
    return any(
        abs(number) > _LARGEST_INTEGER if isinstance(number, int) else len(_digits(number)) > FLOAT_DIGITS
        for number in _numbers(value)
    )


def _is_rounded_float(value: Any) -> bool:
    return isinstance(value, float) and _is_rounded(value)


def is_large(value: Any) -> bool:
    """Whether a bound is an integer of which a double may not have all digits. It is moved inward a little."""
    return isinstance(value, int) and abs(value) > _LARGEST_INTEGER


def _digits(number: float) -> str:
    """The significant digits of a float's shortest spelling."""
    return repr(number).partition("e")[0].replace(".", "").lstrip("-0").rstrip("0")


def _is_large_divisor(value: Any) -> bool:
    return any(len(_digits(float(number))) > 5 or number > _LARGEST_DIVISOR for number in _numbers(value))


def _bounds(node: Node, lower: str, exclusive: str) -> tuple[list[float], list[float]]:
    """The bounds that ``lower`` and ``exclusive`` give, those that belong to the interval and those that do not.

    Written for the lower end; for the upper end take the other keywords.
    """
    inclusive, beyond = node.keywords.get(lower), node.keywords.get(exclusive)
    if node.dialect is Dialect.DRAFT_4:
        beyond, inclusive = (inclusive, None) if beyond is True else (None, inclusive)
    return list(_numbers(inclusive)), list(_numbers(beyond))


def _takes_open_end(node: Node, _keyword: str) -> bool:
    """Whether an end that is a whole number and excluded, with the other end less than 1 away, gets through."""
    low, above = _bounds(node, "minimum", "exclusiveMinimum")
    high, below = _bounds(node, "maximum", "exclusiveMaximum")
    return any(
        end == math.trunc(end) and end == math.trunc(other)
        for ends, others in ((above, high + below), (below, low + above))
        for end in ends
        for other in others
        if math.isfinite(end) and math.isfinite(other)
    )


def _counts_repeated_names(node: Node, keyword: str) -> bool:
    """Whether fewer names than ``minProperties`` could do, because those that are not required may be repeated."""
    required = node.keywords.get("required")
    certain = len(set(map(str, required))) if isinstance(required, list) else 0
    return any(number > certain + 1 for number in _numbers(node.keywords[keyword]))


def _is_unknown_format(name: Any) -> bool:
    return not isinstance(name, str) or name not in KNOWN_FORMATS


def _is_portable(pattern: Any) -> bool:
    try:
        to_rust(pattern if isinstance(pattern, str) else "")
    except NotPortable:
        return False
    return True


def _has_unportable(patterns: Any) -> bool:
    return isinstance(patterns, dict) and not all(map(_is_portable, patterns))


def _changes_dialect(node: Node, _keyword: str) -> bool:
    return node.parent is not None and node.dialect is not node.parent.dialect


def leaves_names_open(node: Node, _keyword: str = "") -> bool:
    """Whether an object may have members besides those whose names the schema mentions."""
    mentions = any(node.keywords.get(name) for name in ("properties", "patternProperties", "required"))
    return mentions and node.keywords.get("additionalProperties") is not False


UNREADABLE: Final = (
    Rule(
        "pattern", "is no pattern that llguidance reads as ECMA 262", when=value_matches(lambda p: not _is_portable(p))
    ),
    Rule("patternProperties", "has a pattern that llguidance reads otherwise", when=value_matches(_has_unportable)),
    Rule("$schema", "cannot change inside of a schema", when=all_of(below_root, _changes_dialect)),
)
"""What would mean something else to llguidance, and so is refused under every policy."""

TOO_LARGE: Final = (
    Rule("multipleOf", "has more digits than llguidance can handle", when=value_matches(_is_large_divisor)),
)

BOUNDS: Final = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")
_VALUES: Final = ("const", "enum", "multipleOf")

_IGNORED: Final = (
    "$dynamicRef",
    "$recursiveRef",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "maxContains",
    "minContains",
    "not",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)

UNENFORCED: Final = (
    *(Rule(keyword, "is not enforced") for keyword in _IGNORED),
    Rule("uniqueItems", "is not enforced", when=value_is(True)),
    Rule(
        "format",
        "has a value that is not enforced",
        when=all_of(value_matches(_is_unknown_format), type_allows("string")),
    ),
    *(Rule(keyword, "has a number that is rounded", when=value_matches(_is_rounded)) for keyword in _VALUES),
    *(Rule(keyword, "is rounded", when=value_matches(_is_rounded_float)) for keyword in BOUNDS),
    *(
        Rule(keyword, "does not exclude its own value", when=all_of(type_allows("number"), _takes_open_end))
        for keyword in ("exclusiveMaximum", "exclusiveMinimum")
    ),
    Rule("minProperties", "counts a repeated name twice", when=all_of(type_allows("object"), _counts_repeated_names)),
)
"""What lets through more than the schema allows."""

ALWAYS_FOUND: Final = frozenset((*_IGNORED, "format", "uniqueItems"))
"""Keywords that llguidance may warn of although `UNENFORCED` has them wherever they matter."""

_CONTROL_CHARACTERS: Final = (
    "leaves other names open, so that strings are without control characters other than \\b\\t\\n\\f\\r"
)

NARROWED: Final = (
    Rule("properties", _CONTROL_CHARACTERS, when=leaves_names_open),
    Rule("patternProperties", _CONTROL_CHARACTERS, when=all_of(leaves_names_open, without("properties"))),
    Rule("required", _CONTROL_CHARACTERS, when=all_of(leaves_names_open, without("properties", "patternProperties"))),
    Rule("format", "is without leap seconds", when=value_is("time", "date-time")),
    Rule("format", "is without encoded names", when=value_is("hostname")),
    Rule("format", "is without quoted names, encoded and long domain names", when=value_is("email")),
    Rule("format", "is without addresses that end like one of IPv4", when=value_is("ipv6", "uri")),
    *(Rule(keyword, "is rounded inward", when=value_matches(is_large)) for keyword in BOUNDS),
    Rule(
        "multipleOf",
        "is without some of the multiples",
        when=value_matches(lambda value: any(number != int(number) for number in _numbers(value))),
    ),
)
"""What lets through less."""

_ONE_ORDER: Final = Rule("properties", "are written in one order", when=value_matches(lambda names: len(names) > 1))


@attrs.frozen
class Rules:
    """What applies to a spec: its format mode and its serialization decide on some."""

    unenforced: tuple[Rule, ...]
    narrowed: tuple[Rule, ...]


def rules_for(spec: JsonSchema) -> Rules:
    narrowed = (*NARROWED, _ONE_ORDER) if spec.serialization.key_order is KeyOrder.ANY else NARROWED
    if spec.format_mode is FormatMode.ASSERT:
        return Rules(UNENFORCED, narrowed)
    return Rules(_without_formats(UNENFORCED), _without_formats(narrowed))


def _without_formats(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.keyword != "format")
