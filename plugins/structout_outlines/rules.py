"""What outlines_core makes of JSON Schema, keyword by keyword, as read in its source (0.2.14) and measured.

It looks at one keyword of a schema, the first of `DISPATCH` that is there, and at the few that belong to it. All others
it drops without a word. It writes concatenation where ``allOf`` means "and", and union where ``oneOf`` means "one of".
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from structout.schema import Condition, Node, Rule, all_of, below_root, beside, value_matches
from structout_outlines.ecma import string_pattern

DISPATCH: Final = ("properties", "allOf", "anyOf", "oneOf", "prefixItems", "enum", "const", "$ref", "type")
ALL_TYPES: Final = ("boolean", "null", "number", "integer", "string", "array", "object")

_RESTRICTS: Final = {
    "string": "minLength maxLength pattern format",
    "number": "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    "array": "items additionalItems prefixItems unevaluatedItems contains minContains maxContains minItems maxItems "
    "uniqueItems",
    "object": "properties patternProperties additionalProperties unevaluatedProperties propertyNames dependencies "
    "dependentSchemas dependentRequired required minProperties maxProperties",
    "": "type enum const allOf anyOf oneOf not if then else $ref $dynamicRef $recursiveRef",
}
_TYPE_OF: Final = {keyword: name for name, keywords in _RESTRICTS.items() for keyword in keywords.split()}

_BY_TYPE: Final = (
    "type minLength maxLength pattern format items additionalItems minItems maxItems additionalProperties required "
    "minProperties maxProperties"
)
_READ: Final = {
    "properties": "type properties required additionalProperties unevaluatedProperties minProperties maxProperties",
    "prefixItems": "type prefixItems items additionalItems unevaluatedItems minItems maxItems",
    "enum": "type enum",
    "const": "type const",
    "type": _BY_TYPE,
    None: _BY_TYPE,
}
"""What is read, or is true of all that is written, when a schema is taken by this keyword. (Some only for some values:
see the rules.)"""


def dispatch(schema: Any) -> str | None:
    """The keyword by which the library takes a schema (an object); None if it can make nothing of it."""
    return next((keyword for keyword in DISPATCH if keyword in schema), None)


def ref_tokens(reference: Any) -> list[str] | None:
    """The path of a reference that the library resolves as it is meant: from the root, with nothing to unescape."""
    if not isinstance(reference, str) or not re.fullmatch(r"#(?:/[^/~%]+)*", reference):
        return None
    return reference.split("/")[1:]


def _declared(node: Node) -> set[str]:
    types = node.schema.get("type", list(ALL_TYPES)) if isinstance(node.schema, dict) else []
    return {types} if isinstance(types, str) else set(types)


def _written(node: Node) -> set[str]:
    """Types of what is written for a schema, as far as its own keywords tell."""
    match dispatch(node.schema):
        case "properties":
            return {"object"}
        case "prefixItems":
            return {"array"}
        case "enum" | "const":
            return set(map(_type_of_value, _constants(node)))
        case "type" | None:
            return _declared(node)
        case _:
            return set(ALL_TYPES)


def _constants(node: Node) -> list[Any]:
    schema: Any = node.schema
    return schema["enum"] if "enum" in schema else [schema["const"]]


def _type_of_value(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case None:
            return "null"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case int():
            return "integer"
        case _:
            return "integer" if value.is_integer() else "number"


def _is_dropped(node: Node, keyword: str) -> bool:
    restricted, written = _TYPE_OF[keyword], _written(node)
    if restricted == "number":
        written = written | ({"number"} if "integer" in written else set())
    if restricted and restricted not in written:
        return False
    taken_by = dispatch(node.schema)
    return keyword not in _READ.get(taken_by, taken_by or "").split()


def _taken_by(*keywords: str | None) -> Condition:
    return lambda node, _keyword: dispatch(node.schema) in keywords


def _type_is_wider(node: Node, _keyword: str) -> bool:
    declared = _declared(node)
    allowed = declared | ({"integer"} if "number" in declared else set())
    return not declared or not _written(node) <= allowed


def _requires_others(node: Node, keyword: str) -> bool:
    return not set(node.keywords[keyword]) <= set(node.keywords.get("properties", ()))


def _is_no_count(value: Any) -> bool:
    return not isinstance(value, int)


def _exceeds(members: str) -> Condition:
    """Where the keyword's value is more than the number of ``members``, a keyword beside it."""
    return lambda node, name: node.keywords[name] > len(_members(node, members))


def _falls_short_of(members: str) -> Condition:
    return lambda node, name: node.keywords[name] < len(_members(node, members))


def _members(node: Node, keyword: str) -> Any:
    """The list or object of a keyword, whether or not the dialect knows it."""
    return node.schema.get(keyword, ()) if isinstance(node.schema, dict) else ()


def _empty_by(maximum: str) -> Condition:
    """Where a minimum above 0 stands beside a maximum of 0, which alone decides."""
    return lambda node, name: node.keywords[name] > 0 and node.keywords.get(maximum) == 0


def _overlap(branches: Any) -> bool:
    """Whether two branches of a ``oneOf`` could take the same value; they cannot if their types differ."""
    if len(branches) == 1:
        return False
    seen: set[str] = set()
    for branch in branches:
        types = branch.get("type") if isinstance(branch, dict) and dispatch(branch) in ("type", "properties") else None
        names = {types} if isinstance(types, str) else set(types or ALL_TYPES)
        names |= {"integer"} if "number" in names else set()
        if names & seen:
            return True
        seen |= names
    return len(branches) == 0


def _is_altered(value: Any) -> bool:
    """Whether a constant may not be written as the JSON text of the same value."""
    match value:
        case str():
            return not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value)
        case bool() | None:
            return False
        case int():
            return not -(1 << 63) <= value < 1 << 64
        case float():
            # What a parser without big numbers is certain to read as the same number.
            return len(re.sub(r"e.*|[^0-9]", "", repr(value))) > 15 or (not 1e-6 < abs(value) < 1e15 and value != 0)
        case list():
            return any(map(_is_altered, value))
        case dict():
            return not all(re.fullmatch(r"[A-Za-z0-9_ -]*", key) for key in value) or any(
                map(_is_altered, value.values())
            )
        case _:
            return True


def _any_altered(values: Iterable[Any]) -> bool:
    return not values or any(map(_is_altered, values))


def _has_quotable_name(properties: Any) -> bool:
    return any(json.dumps(name, ensure_ascii=False) != f'"{name}"' for name in properties)


_NO_COUNT: Final = "is dropped where it is not written as a whole number"
_TYPED: Final = _taken_by("type", None)

UNENFORCED: Final = (
    *(Rule(keyword, "is dropped here", when=_is_dropped) for keyword in _TYPE_OF),
    Rule("$id", "is dropped below the root", when=below_root),
    Rule("id", "is dropped below the root", when=below_root),
    Rule("$schema", "is dropped below the root", when=below_root),
    Rule(
        "type",
        "is dropped beside a keyword that allows another type",
        when=all_of(_taken_by("properties", "prefixItems", "enum", "const"), _type_is_wider),
    ),
    Rule("type", "is written as an empty text", when=value_matches(lambda types: types == [])),
    Rule("required", "is dropped for members that properties does not list", when=_requires_others),
    Rule("properties", "writes names that JSON has to escape as they are", when=value_matches(_has_quotable_name)),
    Rule(
        "minProperties",
        "is dropped where required alone does not imply it",
        when=all_of(_taken_by("properties"), _exceeds("required")),
    ),
    Rule(
        "minProperties",
        "counts to 1",
        when=all_of(_TYPED, value_matches(lambda n: n > 1 or _is_no_count(n))),
    ),
    Rule("minProperties", "is dropped beside maxProperties", when=all_of(_TYPED, _empty_by("maxProperties"))),
    Rule(
        "maxProperties",
        "is dropped where properties lists more",
        when=all_of(_taken_by("properties"), _falls_short_of("properties")),
    ),
    Rule(
        "maxProperties",
        "counts to 0",
        when=all_of(_TYPED, value_matches(lambda n: n != 0 or _is_no_count(n))),
    ),
    Rule(
        "minItems",
        "is dropped where prefixItems lists fewer",
        when=all_of(_taken_by("prefixItems"), _exceeds("prefixItems")),
    ),
    Rule(
        "maxItems",
        "is dropped where prefixItems lists more",
        when=all_of(_taken_by("prefixItems"), _falls_short_of("prefixItems")),
    ),
    Rule(
        "items",
        "is dropped beside prefixItems of another dialect",
        when=all_of(_taken_by("prefixItems"), lambda node, _keyword: "prefixItems" not in node.keywords),
    ),
    Rule("minItems", _NO_COUNT, when=all_of(_TYPED, value_matches(_is_no_count))),
    Rule("minItems", "is dropped beside maxItems", when=all_of(_TYPED, _empty_by("maxItems"))),
    Rule("maxItems", _NO_COUNT, when=all_of(_TYPED, value_matches(_is_no_count))),
    Rule("minLength", _NO_COUNT, when=all_of(_TYPED, value_matches(_is_no_count))),
    Rule("maxLength", _NO_COUNT, when=all_of(_TYPED, value_matches(_is_no_count))),
    Rule("allOf", "is written as one text after the other", when=value_matches(lambda branches: len(branches) != 1)),
    Rule("anyOf", "is written as an empty text", when=value_matches(lambda branches: not branches)),
    Rule("oneOf", "is enforced as anyOf", when=value_matches(_overlap)),
    Rule("enum", "has a value that is not written exactly", when=value_matches(_any_altered)),
    Rule("const", "has a value that is not written exactly", when=value_matches(_is_altered)),
    Rule("$ref", "is not a plain path from the root", when=value_matches(lambda ref: ref_tokens(ref) is None)),
)
"""Where more gets through than the schema allows. (Rules that only hold for strings are `STRINGS`.)"""


def _strings(condition: Condition) -> Condition:
    return all_of(_TYPED, lambda node, _keyword: "string" in _written(node), condition)


STRINGS: Final = (
    Rule("pattern", "is dropped beside minLength and maxLength", when=_strings(beside("minLength", "maxLength"))),
    Rule(
        "pattern",
        "has something that cannot stand in a JSON string as it is",
        when=_strings(value_matches(lambda pattern: string_pattern(pattern) is None)),
    ),
    Rule(
        "format",
        "is dropped beside pattern, minLength and maxLength",
        when=_strings(beside("pattern", "minLength", "maxLength")),
    ),
    Rule("format", "is not enforced exactly", when=_strings(value_matches(lambda name: name != "uuid"))),
)


def _is_partial(pattern: str) -> bool:
    found = string_pattern(pattern)
    return found is not None and not found.is_exact


def _is_open(node: Node, _keyword: str) -> bool:
    return dispatch(node.schema) == "properties" and node.keywords.get("additionalProperties") is not False


def _is_taken_by_another_dialect(node: Node, _keyword: str) -> bool:
    keyword = dispatch(node.schema)
    return keyword is not None and keyword not in node.keywords


NARROWED: Final = (
    Rule("type", "is narrowed by a keyword of another dialect beside it", when=_is_taken_by_another_dialect),
    Rule("properties", "is closed: no other members are written", when=_is_open),
    Rule("prefixItems", "is closed: exactly these items are written", when=_taken_by("prefixItems")),
    Rule("pattern", "has to match the whole string", when=_strings(value_matches(_is_partial))),
    Rule("format", "is written in lower case", when=_strings(value_matches(lambda name: name == "uuid"))),
)
"""Where less gets through, and it depends on the schema."""
