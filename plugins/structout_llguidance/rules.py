"""What llguidance does to JSON Schema keywords, measured with version 1.9.1 (see tests/backends/test_llguidance.py)."""

import math
from collections.abc import Iterable, Iterator
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
from structout_llguidance.patterns import NotPortable, has_unescapable_literal, to_rust

FLOAT_DIGITS: Final = 15
"""Significant decimal digits that survive a double."""

_LARGEST_INTEGER: Final = 2**53

_NEARLY_64_BITS: Final = 9.2e18
"""llguidance takes a larger integer for the nearest of 64 bits: it then writes that one, or overflows its stack."""

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


def _is_beyond_64_bits(value: Any) -> bool:
    return any(abs(number) > _NEARLY_64_BITS for number in _numbers(value))


def _rules_out_64_bits(node: Node, keyword: str) -> bool:
    """Whether a bound leaves no integers but those beyond 64 bits."""
    sign = 1 if "min" in keyword.lower() else -1
    return any(sign * number > _NEARLY_64_BITS for number in _numbers(node.keywords[keyword]))


def _leaves_out_integers(value: Any) -> bool:
    return is_large(value) or _is_beyond_64_bits(value)


def _is_respelled(value: Any) -> bool:
    """Whether a number in the value has an exponent or a fraction of 0 where Python writes it, which llguidance does
    not write."""
    return any(isinstance(number, float) and ("e" in repr(number) or number.is_integer()) for number in _numbers(value))


def _has_unescapable(value: Any) -> bool:
    """Whether a string in the value has a control character without a short escape."""
    match value:
        case str():
            return any((char < " " and char not in "\b\t\n\f\r") or char == "\x7f" for char in value)
        case list():
            return any(map(_has_unescapable, value))
        case dict():
            return any(map(_has_unescapable, value.values()))
    return False


def _has_order(value: Any) -> bool:
    """Whether an object in the value has several members."""
    match value:
        case dict():
            return len(value) > 1 or any(map(_has_order, value.values()))
        case list():
            return any(map(_has_order, value))
    return False


def _is_without_multiples(node: Node, keyword: str) -> bool:
    return _AS_NUMBER(node, keyword) or any(number != int(number) for number in _numbers(node.keywords[keyword]))


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


BOUNDS: Final = ("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum")

_AS_NUMBER: Final = type_allows("number")

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
    *(
        Rule(keyword, "has a number beyond the 64 bits of llguidance", when=value_matches(_is_beyond_64_bits))
        for keyword in ("const", "enum")
    ),
    *(Rule(keyword, "is beyond the 64 bits of llguidance", when=_rules_out_64_bits) for keyword in BOUNDS),
)
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

_LOSES_CONTROL: Final = "loses a control character, because names are left open in the schema"

_UNENFORCED_IN_OPEN: Final = (
    *(Rule(keyword, _LOSES_CONTROL, when=value_matches(_has_unescapable)) for keyword in ("const", "enum")),
    Rule("pattern", _LOSES_CONTROL, when=value_matches(has_unescapable_literal)),
    Rule(
        "patternProperties", _LOSES_CONTROL, when=value_matches(lambda names: any(map(has_unescapable_literal, names)))
    ),
)
"""What more is let through where names are left open anywhere, and so no ``\\u`` is allowed."""

ALWAYS_FOUND: Final = frozenset((*_IGNORED, "format", "uniqueItems"))
"""Keywords that llguidance may warn of although `UNENFORCED` has them wherever they matter."""

_CONTROL_CHARACTERS: Final = (
    "leaves other names open, so that strings are without control characters other than \\b\\t\\n\\f\\r"
)

ROUNDED_INWARD: Final = "is rounded inward, to 64 bits"

NARROWED: Final = (
    Rule("properties", _CONTROL_CHARACTERS, when=leaves_names_open),
    Rule("patternProperties", _CONTROL_CHARACTERS, when=all_of(leaves_names_open, without("properties"))),
    Rule("required", _CONTROL_CHARACTERS, when=all_of(leaves_names_open, without("properties", "patternProperties"))),
    Rule("format", "is without leap seconds", when=value_is("time", "date-time")),
    Rule("format", "is without encoded names", when=value_is("hostname")),
    Rule("format", "is without quoted names, encoded and long domain names", when=value_is("email")),
    Rule("format", "is without addresses that end like one of IPv4", when=value_is("ipv6", "uri")),
    *(Rule(keyword, ROUNDED_INWARD, when=value_matches(_leaves_out_integers)) for keyword in BOUNDS),
    *(
        Rule(keyword, "is without numbers with an exponent, or with fewer decimals than it has itself", when=_AS_NUMBER)
        for keyword in BOUNDS
    ),
    Rule("multipleOf", "is without some of the multiples, or some of their forms", when=_is_without_multiples),
    *(
        Rule(keyword, "has a number that is rounded, and so left out", when=value_matches(_is_rounded))
        for keyword in ("const", "enum")
    ),
    *(
        Rule(
            keyword, "has a number that is written without its exponent or fraction", when=value_matches(_is_respelled)
        )
        for keyword in ("const", "enum")
    ),
)
"""What lets through less."""

_ONE_ORDER: Final = (
    Rule("properties", "are written in one order", when=value_matches(lambda names: len(names) > 1)),
    *(
        Rule(keyword, "has members that are written in one order", when=value_matches(_has_order))
        for keyword in ("const", "enum")
    ),
)


@attrs.frozen
class Rules:
    """What applies to a spec: its format mode and its serialization decide on some."""

    unenforced: tuple[Rule, ...]
    narrowed: tuple[Rule, ...]


def rules_for(spec: JsonSchema, nodes: Iterable[Node]) -> Rules:
    """The rules for a spec whose schema has these subschemas."""
    unenforced = (*UNENFORCED, *_UNENFORCED_IN_OPEN) if any(map(leaves_names_open, nodes)) else UNENFORCED
    narrowed = (*NARROWED, *_ONE_ORDER) if spec.serialization.key_order is KeyOrder.ANY else NARROWED
    if spec.format_mode is FormatMode.ASSERT:
        return Rules(unenforced, narrowed)
    return Rules(_without_formats(unenforced), _without_formats(narrowed))


def _without_formats(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.keyword != "format")
