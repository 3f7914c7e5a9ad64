"""What lm-format-enforcer does with a schema that is not what the schema says. The library is not needed to find out.

It looks at a few keywords in a fixed order and takes the first for all there is. So every schema has a shape, the
keyword or type that decides, and a shape has companions, the keywords that count beside it. All others are ignored.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from structout import Err, ErrorKind, Finding, GrammarError, GrammarSpec, JsonSchema, Ok, Policy, Result
from structout.grammar import refusal_of
from structout.schema import Node, Rule, all_of, beside, findings, reachable, value_is, value_matches, without
from structout.schema.keywords import KEYWORDS, Role
from structout.spec import Escapes, Whitespace

RESTRICTING: Final = frozenset(
    word.name for words in KEYWORDS.values() for word in words.values() if word.role is not Role.ANNOTATION
)
_HARMLESS: Final = {"$schema", "$defs", "definitions", "$vocabulary"}
_TYPE: Final = {"type"}

COMPANIONS: Final[Mapping[str | None, set[str]]] = {
    "anyOf": {"anyOf"},
    "const": {"const"} | _TYPE,
    "enum": {"enum"} | _TYPE,
    "$ref": {"$ref"},
    "types": _TYPE,
    "boolean": _TYPE,
    "null": _TYPE,
    "string": _TYPE | {"minLength", "pattern"},
    "array": _TYPE | {"items", "minItems", "maxItems"},
    "object": _TYPE | {"properties", "required", "additionalProperties"},
    "map": _TYPE | {"additionalProperties", "required"},
    None: set(),
}

_NO_NUMBERS: Final = "lets numbers through that are no JSON, such as 1.e5, or no integers, such as 1e-5"
_COMMA: Final = "lets a comma through before the end of an object"
_OPEN: Final = f"is missing, and anything {_NO_NUMBERS}"
_UNWRITABLE: Final = re.compile(r'^\s|["\\\x00-\x1f]')
_ODD_PATTERN: Final = re.compile(
    r"""\\[^d*+?()\[\]{}|/^$-] | \(\? | [.\s"] | \[\^ | \[\] | \{, | (?<!\\)[\^$]""", re.VERBOSE
)


def shape_of(node: Node) -> str | None:
    """What decides about a schema; None where that is nothing that is enforced."""
    words = node.keywords
    if decisive := [word for word in ("anyOf", "const", "enum", "$ref") if word in words]:
        return decisive[0]
    match words.get("type"):
        case "object":
            return "object" if "properties" in words else "map"
        case "string" | "boolean" | "null" | "array" as name:
            return str(name)
        case [*names] if names and set(names) <= {"string", "boolean", "null"}:
            return "types"
    return None


def _is_ignored(node: Node, keyword: str) -> bool:
    return keyword not in COMPANIONS[shape_of(node)]


def _cannot_write(text: object) -> bool:
    """Whether a text has to be escaped in JSON, or begins with a space, which is taken for one around the text."""
    return not isinstance(text, str) or _UNWRITABLE.search(text) is not None


def _is_no_text(node: Node, _keyword: str) -> bool:
    """Whether the type beside a value rules texts out, which are all that is written."""
    return node.keywords.get("type", "string") not in ("string", ["string"])


def _is_odd_enum(node: Node, keyword: str) -> bool:
    values = node.keywords[keyword]
    return not values or any(map(_cannot_write, values)) or _is_no_text(node, keyword)


def _is_odd_const(node: Node, keyword: str) -> bool:
    return _cannot_write(node.keywords[keyword]) or _is_no_text(node, keyword)


def _is_odd_reference(reference: object) -> bool:
    return re.fullmatch(r"#/(\$defs|definitions)/[A-Za-z0-9_.-]+", str(reference)) is None


def _is_odd_pattern(pattern: object) -> bool:
    """Whether a pattern means something else to the library, or can begin with a space. A dot and the like can."""
    text = str(pattern)
    return text.endswith("\\$") or _ODD_PATTERN.search(text.removeprefix("^").removesuffix("$")) is not None


def _is_partial(pattern: object) -> bool:
    text = str(pattern)
    return not (text.startswith("^") and text.endswith("$")) or "|" in text


def _requires_unknown(node: Node, keyword: str) -> bool:
    return not set(node.keywords[keyword]) <= node.keywords["properties"].keys()


def _has_optional(node: Node, keyword: str) -> bool:
    return not node.keywords[keyword].keys() <= set(node.keywords.get("required", ()))


def _mixes_branches(branches: Iterable[object]) -> bool:
    """Whether a branch keeps account of where it is in a place that it shares with another."""
    others = [branch for branch in branches if not _is_literal(branch)]
    return len(others) > 1 or not all(map(_stands_alone, others))


def _is_literal(branch: object) -> bool:
    words = branch if isinstance(branch, dict) else {}
    return words.get("type") in ("boolean", "null") or not words.keys().isdisjoint({"enum", "const"})


def _stands_alone(branch: object) -> bool:
    words = branch if isinstance(branch, dict) else {}
    return "type" in words and words.keys().isdisjoint({"anyOf", "$ref"})


RULES: Final = (
    *(Rule(word, "is not enforced here", when=_is_ignored) for word in sorted(RESTRICTING - _HARMLESS - _TYPE)),
    Rule("type", _NO_NUMBERS, when=all_of(value_is("integer", "number"), without("enum"))),
    Rule("type", "is not enforced here", when=lambda node, _: shape_of(node) is None and _is_list(node)),
    Rule("type", f"has items without a schema, and {_NO_NUMBERS}", when=all_of(value_is("array"), without("items"))),
    Rule(
        "type",
        f"has members without a schema, and {_NO_NUMBERS}",
        when=all_of(value_is("object"), without("properties", "additionalProperties")),
    ),
    Rule("enum", "has a value that is not written exactly", when=_is_odd_enum),
    Rule("const", "is not written exactly", when=_is_odd_const),
    Rule("anyOf", "mixes up its branches", when=value_matches(_mixes_branches)),
    Rule("$ref", "is no name in $defs or definitions", when=value_matches(_is_odd_reference)),
    Rule("definitions", "hides $defs", when=beside("$defs")),
    Rule(
        "properties", "has a name that is not written exactly", when=value_matches(lambda v: any(map(_cannot_write, v)))
    ),
    Rule("properties", f"has one that is not required, and {_COMMA}", when=_has_optional),
    Rule("additionalProperties", _COMMA, when=without("properties")),
    Rule("required", "names what properties does not have", when=all_of(beside("properties"), _requires_unknown)),
    Rule("items", "is taken for a single schema", when=value_matches(lambda value: isinstance(value, list))),
    Rule("maxItems", "of 0 lets one through", when=value_is(0)),
    Rule("minLength", "counts an escape as one character", when=value_matches(lambda value: value > 1)),
    Rule("minLength", "cannot stand beside pattern", when=beside("pattern")),
    Rule("pattern", "may be read in another way", when=value_matches(_is_odd_pattern)),
)
"""What lets more through than the schema, or ends in an error."""

NARROWING: Final = (
    Rule("type", "is written without \\u escapes", when=value_matches(lambda value: "string" in value)),
    Rule("enum", "is written in one form"),
    Rule("const", "is written in one form"),
    Rule("properties", "are closed and written in one form: no other members are"),
    Rule("pattern", "has to match the whole string", when=value_matches(_is_partial)),
)
"""What lets less through."""


def _is_list(node: Node) -> bool:
    return isinstance(node.keywords["type"], list)


def unenforced(spec: JsonSchema) -> Result[tuple[Finding, ...], GrammarError]:
    """What of a schema is not enforced."""
    return findings(spec, RULES).map(lambda found: (*found, *_open_places(spec)))


def narrowed(spec: JsonSchema) -> Result[tuple[Finding, ...], GrammarError]:
    """What of a schema cannot be written."""
    return findings(spec, NARROWING)


def _open_places(spec: JsonSchema) -> Iterable[Finding]:
    """The schemas that take anything or nothing. Of those beside properties nothing is left: no other member is."""
    for node in reachable(spec.schema(), spec.dialect):
        is_closed = node.keyword == "additionalProperties" and node.parent and "properties" in node.parent.keywords
        if not is_closed and not node.keywords.keys() & (RESTRICTING - _HARMLESS):
            yield Finding(
                node.location, "type", "is missing: nothing is taken for anything" if node.schema is False else _OPEN
            )


def refusal(spec: GrammarSpec) -> GrammarError | None:
    """Why a spec is refused, as far as its text tells; None if it may be taken."""
    if not isinstance(spec, JsonSchema):
        return None
    if spec.serialization.whitespace is not Whitespace.ANY or spec.serialization.escapes is not Escapes.ANY:
        message = "lmfe writes any white space and any escape that JSON allows."
        hint = "ask for any white space and any escapes, or name another backend"
        return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, hint=hint)
    match unenforced(spec):
        case Err(error):
            return error
        case Ok(found) if found and spec.policy is not Policy.BEST_EFFORT:
            return refusal_of(found, spec.policy)
    return None


def known(value: Any) -> bool:
    """Whether a JSON value is a schema with something in it that restricts."""
    return isinstance(value, dict) and bool(value.keys() & (RESTRICTING - _HARMLESS))
