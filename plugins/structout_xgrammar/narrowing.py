"""What xgrammar leaves out of the language of a JSON Schema: the table, with its reasons.

It is about values. That the name or the string ``a`` could be written ``\\u0061``, or the integer 1 as ``1.0``, and is
not, is no loss.
"""

from collections.abc import Iterator
from typing import Any, Final

from structout.schema.scan import Rule, value_matches, without
from structout.schema.walk import Node
from structout.spec import FormatMode, JsonSchema, KeyOrder, Policy
from structout_xgrammar.conditions import BOUNDS, alone, for_type, has_unlisted, writes_fractions
from structout_xgrammar.formats import EXACT, FORMATS
from structout_xgrammar.reading import ARRAY_MARKS, OBJECT_MARKS, additional, is_closed
from structout_xgrammar.strings import is_counted_without_escapes


def narrowed(spec: JsonSchema) -> tuple[Rule, ...]:
    """What lets through less than the schema does, under the spec's modes."""
    exact, asserts_format = spec.policy is Policy.EXACT, spec.format_mode is FormatMode.ASSERT

    def closed(node: Node, _keyword: str) -> bool:
        return is_closed(node, exact=exact)

    def unescaped(node: Node, _keyword: str) -> bool:
        return is_counted_without_escapes(node.keywords, asserts_format=asserts_format)

    return (
        Rule("properties", "leaves out members that it does not list", when=for_type("object", closed)),
        *(
            Rule(keyword, "leaves out characters that JSON escapes", when=for_type("string", unescaped))
            for keyword in ("minLength", "maxLength")
        ),
        *_NARROWED,
        *(_NARROWED_FORMATS if asserts_format else ()),
        *(_NARROWED_IN_ANY_ORDER if spec.serialization.key_order is KeyOrder.ANY else ()),
    )


def _parts(value: Any) -> Iterator[Any]:
    """A JSON value and all that is in it."""
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _parts(part)


def _is_respelled(value: Any) -> bool:
    """Whether a number in a JSON value is written without the fraction that it has in Python: ``1`` for ``1.0``."""
    return any(isinstance(part, float) and repr(part).endswith(".0") for part in _parts(value))


def _has_order(value: Any) -> bool:
    return any(isinstance(part, dict) and len(part) > 1 for part in _parts(value))


_NARROWED: Final = (
    *(
        Rule(keyword, "has a whole number with a fraction, which is written without", when=value_matches(_is_respelled))
        for keyword in ("const", "enum")
    ),
    Rule(
        "required",
        "has names that properties does not list, whose members come before other such members",
        when=for_type("object", has_unlisted),
    ),
    *(Rule(keyword, "leaves out values that are not objects", when=alone(without("type"))) for keyword in OBJECT_MARKS),
    *(
        Rule(keyword, "leaves out values that are not arrays", when=alone(without("type", *OBJECT_MARKS)))
        for keyword in ARRAY_MARKS
    ),
    Rule(
        "patternProperties",
        "leaves out members that it does not match",
        when=for_type("object", lambda node, _keyword: additional(node) is not False),
    ),
    *(
        Rule(bound, "leaves out numbers with an exponent or more than 6 decimals", when=alone(writes_fractions))
        for bound in BOUNDS
    ),
    *(
        Rule(
            bound,
            "leaves out integers beyond 64 bits",
            when=for_type("number", value_matches(lambda bound: abs(bound) >= 2**63)),
        )
        for bound in BOUNDS
    ),
)

_NARROWED_FORMATS: Final = (
    Rule(
        "format",
        "leaves out some texts of it",
        when=for_type("string", value_matches(lambda name: name in FORMATS and name not in EXACT)),
    ),
)

_NARROWED_IN_ANY_ORDER: Final = (
    Rule(
        "properties",
        "leaves out members in another order",
        when=for_type("object", value_matches(lambda properties: len(properties) > 1)),
    ),
    *(
        Rule(keyword, "leaves out members in another order", when=value_matches(_has_order))
        for keyword in ("const", "enum")
    ),
)
