"""What the backend does not take of JSON Schema, as data. All that it takes it enforces, so there is no best effort."""

from typing import Any, Final

import attrs

from structout.errors import GrammarError
from structout.schema.keywords import KEYWORDS, Role
from structout.schema.scan import Rule, beside, type_allows, value_is, value_matches
from structout.schema.scan import refusal as schema_refusal
from structout.schema.walk import Node
from structout.spec import GrammarSpec, JsonSchema, KeyOrder, Policy

BACKEND: Final = "reference"

_TAKEN: Final = frozenset(
    {
        *("$schema", "id", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$defs", "definitions"),
        *("$ref", "anyOf", "enum", "const", "type", "format"),
        *("properties", "required", "additionalProperties"),
        *("items", "prefixItems", "minItems", "maxItems"),
        *("minLength", "maxLength", "pattern"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    }
)
_ASSERTIONS: Final = frozenset(
    word.name
    for known in KEYWORDS.values()
    for word in known.values()
    if word.role in (Role.APPLICATOR, Role.ASSERTION) or word.name == "$ref"
)
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def _alone(keyword: str, *allowed: str) -> Rule:
    others = sorted(_ASSERTIONS - {keyword, *allowed, "format"})
    return Rule(keyword, "is not supported next to other keywords", when=beside(*others))


def _requires_others(node: Node, keyword: str) -> bool:
    """Whether names are required that ``properties`` does not list, and that other members could have."""
    is_open = node.keywords.get("additionalProperties") is not False
    names, properties = node.keywords[keyword], node.keywords.get("properties", {})
    return is_open and isinstance(names, list) and any(name not in list(properties) for name in names)


def _has_wide_object(value: Any) -> bool:
    """Whether there is an object in a value whose members could be written in several orders."""
    pending = [value]
    while pending:
        part = pending.pop()
        pending += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and len(part) > 1:
            return True
    return False


RULES: Final = (
    *(
        Rule(word.name, "is not supported")
        for word in {word.name: word for known in KEYWORDS.values() for word in known.values()}.values()
        if word.name not in _TAKEN and word.role is not Role.ANNOTATION
    ),
    _alone("$ref"),
    _alone("anyOf"),
    _alone("enum", "type"),
    _alone("const", "type"),
    *(
        Rule(keyword, "is not supported with objects of several members", when=value_matches(_has_wide_object))
        for keyword in ("enum", "const")
    ),
    Rule("format", "is not supported"),
    Rule("items", "is not supported with an array", when=value_matches(lambda items: isinstance(items, list))),
    Rule("pattern", "is not supported next to a length", when=beside("minLength", "maxLength")),
    *(Rule(bound, "is not supported but for integers", when=type_allows("number")) for bound in _BOUNDS),
    *(Rule(bound, "is not supported as true or false", when=value_is(True, False)) for bound in _BOUNDS),
    Rule("required", "is not supported with names that properties does not list", when=_requires_others),
)
_IN_ANY_ORDER: Final = Rule("properties", "is not supported in any order", when=value_matches(bool))


def refusal(spec: GrammarSpec) -> GrammarError | None:
    """The error with which ``compile`` refuses a schema for its keywords; None if it has no other."""
    if not isinstance(spec, JsonSchema):
        return None
    rules = (*RULES, _IN_ANY_ORDER) if spec.serialization.key_order is KeyOrder.ANY else RULES
    error = schema_refusal(attrs.evolve(spec, policy=Policy.SOUND), rules, backend=BACKEND)
    return error and attrs.evolve(error, hint="use another backend")
