"""What xgrammar does not enforce of a JSON Schema: the table, with its reasons.

All of it was seen in xgrammar 0.2.9, in its converter's source and on the official test suite, MaskBench and public
bug reports. What `structout_xgrammar.prepare` makes good is not in here.
"""

import math
import re
from typing import Any, Final

from structout.schema.references import ReferenceIndex
from structout.schema.scan import Condition, Rule, all_of, beside, value_matches
from structout.schema.walk import Node
from structout.spec import FormatMode, JsonSchema, Policy
from structout_xgrammar.conditions import (
    BOUNDS,
    LOWER_BOUNDS,
    UPPER_BOUNDS,
    alone,
    for_type,
    has_unlisted,
    writes_fractions,
)
from structout_xgrammar.disjoint import broad, pairwise_disjoint, types_of
from structout_xgrammar.formats import FORMATS
from structout_xgrammar.reading import (
    RESTRICTING,
    Follow,
    additional,
    allows_all,
    bounds,
    decider,
    follower,
    has_others,
    has_references,
    is_name_schema,
    parts,
    restricts,
    types,
)


def unenforced(spec: JsonSchema, references: ReferenceIndex) -> tuple[Rule, ...]:
    """What lets through more than the schema does, under the spec's modes."""
    follow = follower(references)
    return (
        *_PASSED_OVER,
        *_passed_over_types(follow),
        Rule("oneOf", "is taken for anyOf, and its schemas may overlap", when=_decides_unless_disjoint(follow)),
        *_UNENFORCED,
        *_object_rules(exact=spec.policy is Policy.EXACT),
        *(_UNENFORCED_FORMATS if spec.format_mode is FormatMode.ASSERT else ()),
    )


# Keywords beside a decider


_WINNERS: Final = ("$ref", "anyOf", "oneOf", "allOf")


def _loses_to(winner: str) -> Condition:
    return lambda node, keyword: decider(node) == winner and restricts(keyword, node.keywords[keyword])


def _is_ignored(keyword: str, winner: str, *conditions: Condition) -> Rule:
    return Rule(keyword, f"is ignored beside {winner}", when=all_of(_loses_to(winner), *conditions))


_PASSED_OVER: Final = tuple(
    _is_ignored(keyword, winner) for winner in _WINNERS for keyword in sorted(RESTRICTING - {winner, "type"})
)


def _passed_over_types(follow: Follow) -> tuple[Rule, ...]:
    def matters(node: Node, _keyword: str) -> bool:
        return not _implies_type(node, follow)

    return tuple(_is_ignored("type", winner, matters) for winner in _WINNERS)


def _implies_type(node: Node, follow: Follow) -> bool:
    """Whether the schemas under its decider allow no types but those that ``node`` declares."""
    declared = frozenset(types(node) or ())
    if "integer" in declared and "number" not in declared:
        return False  # types are compared with integers counted as numbers
    winner = decider(node)
    branches = [follow(node)] if winner in (None, "$ref") else parts(node, winner)
    found = [types_of(branch, follow) for branch in branches]
    return frozenset().union(*found) <= broad(declared)


def _decides_unless_disjoint(follow: Follow) -> Condition:
    return lambda node, _keyword: decider(node) == "oneOf" and not pairwise_disjoint(parts(node, "oneOf"), follow)


def _several_restrict(node: Node, keyword: str) -> bool:
    return decider(node) == keyword and sum(not allows_all(part.schema) for part in parts(node, keyword)) > 1


# Constants


def _is_rounded(value: Any) -> bool:
    """Whether a JSON value holds a number that xgrammar, which has 64 bits for it, writes as another one."""
    match value:
        case bool():
            return False
        case int():
            return not -(2**63) <= value < 2**63
        case float():
            return not math.isfinite(value)
        case list():
            return any(map(_is_rounded, value))
        case dict():
            return any(map(_is_rounded, value.values()))
    return False


# Numbers

_MAX_DIVISOR: Final = 1024
_MAX_WIDTH: Final = 10_000


def _divisor_is_ignored(node: Node, keyword: str) -> bool:
    divisor = node.keywords[keyword]
    if writes_fractions(node, keyword) or not float(divisor).is_integer() or divisor > _MAX_DIVISOR:
        return True
    found = bounds(node)
    lower = [found[name] for name in LOWER_BOUNDS if name in found]
    upper = [found[name] for name in UPPER_BOUNDS if name in found]
    if not lower and not upper:
        return False
    return not lower or not upper or min(upper) - max(lower) >= _MAX_WIDTH


# Objects


def _object_rules(*, exact: bool) -> tuple[Rule, ...]:
    def open_to_others(node: Node, _keyword: str) -> bool:
        return has_others(node, exact=exact)

    return (
        Rule(
            "properties",
            "has a name that is written with an escape or beyond ASCII, under which another value may be given",
            when=for_type("object", open_to_others, value_matches(_needs_care)),
        ),
        Rule(
            "minProperties",
            "counts a member that is given twice as two",
            when=for_type("object", open_to_others, value_matches(lambda least: least > 1)),
        ),
    )


def _needs_care(properties: dict[str, Any]) -> bool:
    """xgrammar keeps other members from having a listed name, but for names that are not plain ASCII."""
    return any(not name.isascii() or not name.isprintable() or '"' in name or "\\" in name for name in properties)


def _matches_listed(node: Node, _keyword: str) -> bool:
    """Whether a pattern may match a name that ``properties`` lists."""
    listed = node.keywords.get("properties", {})
    return any(_may_match(pattern, name) for pattern in node.keywords.get("patternProperties", ()) for name in listed)


def _may_match(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name, re.ASCII) is not None
    except re.error:
        return True


def _is_open(node: Node, _keyword: str) -> bool:
    return bool(node.keywords.get("properties")) and additional(node) not in (None, False)


# The tables

_UNENFORCED: Final = (
    Rule("allOf", "of several schemas is ignored", when=_several_restrict),
    *(
        Rule(
            keyword,
            "is let through although other keywords, with references in them, may rule it out",
            when=lambda node, keyword: decider(node) == keyword and has_references(node),
        )
        for keyword in ("const", "enum")
    ),
    Rule("const", "has a number that does not fit 64 bits", when=value_matches(_is_rounded)),
    Rule("enum", "has a number that does not fit 64 bits", when=value_matches(_is_rounded)),
    Rule("not", "is ignored", when=alone(value_matches(lambda value: value is not False))),
    Rule("if", "is ignored", when=alone(beside("then", "else"))),
    Rule("$dynamicRef", "is ignored", when=alone()),
    Rule("$recursiveRef", "is ignored", when=alone()),
    Rule("dependencies", "is ignored", when=for_type("object", value_matches(bool))),
    Rule("dependentRequired", "is ignored", when=for_type("object", value_matches(bool))),
    Rule("dependentSchemas", "is ignored", when=for_type("object", value_matches(bool))),
    Rule(
        "required",
        "is ignored for members that properties does not list",
        when=for_type("object", beside("patternProperties", "propertyNames"), has_unlisted),
    ),
    Rule(
        "patternProperties",
        "of several patterns is not enforced for names that match two",
        when=for_type("object", value_matches(lambda patterns: len(patterns) > 1)),
    ),
    Rule(
        "patternProperties",
        "is ignored for members that properties lists",
        when=for_type("object", _matches_listed),
    ),
    Rule(
        "properties",
        "is ignored for members that patternProperties matches",
        when=for_type("object", _matches_listed),
    ),
    Rule(
        "patternProperties",
        "is ignored where properties and additionalProperties allow other members",
        when=for_type("object", _is_open),
    ),
    Rule(
        "propertyNames",
        "is ignored beside properties, patternProperties or additionalProperties: false",
        when=for_type(
            "object",
            lambda node, _keyword: (
                bool(node.keywords.get("properties"))
                or "patternProperties" in node.keywords
                or additional(node) is False
            ),
            value_matches(lambda names: not allows_all(names)),
        ),
    ),
    Rule(
        "propertyNames",
        "is enforced for plain string schemas only",
        when=for_type("object", value_matches(lambda names: not allows_all(names) and not is_name_schema(names))),
    ),
    Rule(
        "uniqueItems",
        "is ignored",
        when=for_type("array", value_matches(bool), lambda node, _keyword: node.keywords.get("maxItems", 2) > 1),
    ),
    Rule(
        "contains",
        "is ignored",
        when=for_type(
            "array", lambda node, _keyword: node.keywords.get("minContains") != 0 or "maxContains" in node.keywords
        ),
    ),
    Rule("multipleOf", "is ignored for this divisor and these bounds", when=for_type("number", _divisor_is_ignored)),
    *(
        Rule(
            bound,
            "is rounded to 53 bits",
            when=alone(writes_fractions, value_matches(lambda bound: abs(bound) > 2**53)),
        )
        for bound in BOUNDS
    ),
)

_UNENFORCED_FORMATS: Final = (
    Rule(
        "format",
        "is not one of those that are enforced",
        when=for_type("string", value_matches(lambda name: name not in FORMATS)),
    ),
    Rule("format", "is ignored beside pattern", when=for_type("string", beside("pattern"))),
)
