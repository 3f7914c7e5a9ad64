"""How xgrammar reads one schema: which of its keywords count, and which are passed over.

It takes the first of `DECIDERS` that a schema has and looks at nothing else there; without one, at ``type`` and the
keywords that go with the types.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from structout.result import Err, Ok
from structout.schema.keywords import DIALECTS, KEYWORDS, Role
from structout.schema.references import ReferenceIndex
from structout.schema.walk import Node, Schema, children, walk_from

DECIDERS: Final = ("$ref", "const", "enum", "anyOf", "oneOf", "allOf")
ALL_TYPES: Final = ("null", "boolean", "object", "array", "number", "string")
OBJECT_MARKS: Final = ("properties", "additionalProperties", "unevaluatedProperties")
"""Without ``type`` any of these makes xgrammar write objects only."""
ARRAY_MARKS: Final = ("items", "prefixItems", "unevaluatedItems")
"""Without ``type`` any of these, and none of `OBJECT_MARKS`, makes it write arrays only."""

_DEPENDENT: Final = frozenset({"then", "else", "minContains", "maxContains", "additionalItems"})
"""Keywords that mean nothing without another one."""

RESTRICTING: Final = frozenset(
    name
    for dialect in DIALECTS
    for name, keyword in KEYWORDS[dialect].items()
    if keyword.role in (Role.APPLICATOR, Role.ASSERTION) and name not in _DEPENDENT
) | {"$ref", "$dynamicRef", "$recursiveRef"}

Follow: TypeAlias = Callable[[Node], Node]
"""What a node stands for: the schema at the end of its ``$ref``, and the next; itself if they lead nowhere."""


def follower(references: ReferenceIndex) -> Follow:
    def follow(node: Node) -> Node:
        seen = {node.place}
        target = node
        while isinstance(reference := target.keywords.get("$ref"), str):
            match references.resolve(target, reference):
                case Ok(found) if found.place not in seen:
                    target = found
                    seen.add(found.place)
                case Ok() | Err():
                    return node
        return target

    return follow


def decider(node: Node) -> str | None:
    """The keyword beside which xgrammar ignores all others."""
    return next((keyword for keyword in DECIDERS if keyword in node.keywords), None)


def parts(node: Node, keyword: str) -> list[Node]:
    """The subschemas that a keyword holds."""
    return [part for part in children(node) if part.keyword == keyword]


def types(node: Node) -> tuple[str, ...] | None:
    """The types that a schema declares; None if it declares none."""
    declared = node.keywords.get("type")
    return (declared,) if isinstance(declared, str) else None if declared is None else tuple(declared)


def written_types(node: Node) -> tuple[str, ...]:
    """The types of the values that are written for a schema without a decider."""
    if (declared := types(node)) is not None:
        return declared
    if not node.keywords.keys().isdisjoint(OBJECT_MARKS):
        return ("object",)
    return ("array",) if not node.keywords.keys().isdisjoint(ARRAY_MARKS) else ALL_TYPES


def restricts(keyword: str, value: Any) -> bool:
    """Whether a keyword of `RESTRICTING` with this value rules anything out."""
    match keyword:
        case "minLength" | "minItems" | "minProperties":
            return bool(value)  # not 0
        case "required" | "dependentRequired" | "dependentSchemas" | "dependencies":
            return bool(value)  # not empty
        case "uniqueItems" | "not":
            return value is not False
        case "properties" | "patternProperties":
            return not all(map(allows_all, value.values()))
        case "additionalProperties" | "unevaluatedProperties" | "items" | "unevaluatedItems" | "propertyNames":
            return not allows_all(value)
        case "anyOf":
            return not any(map(allows_all, value))
        case "allOf":
            return not all(map(allows_all, value))
    return True


def allows_all(schema: object) -> bool:
    """Whether a schema plainly rules nothing out."""
    if not isinstance(schema, dict):
        return schema is True
    return not any(restricts(keyword, value) for keyword, value in schema.items() if keyword in RESTRICTING)


def has_references(node: Node) -> bool:
    return any(not {"$ref", "$dynamicRef", "$recursiveRef"}.isdisjoint(part.keywords) for part in walk_from(node))


def allowed_values(node: Node, *, asserts_format: bool) -> list[Any]:
    """The values of ``const`` or ``enum`` that the other keywords beside it allow, as far as those have no references.

    Where they have, all of them.
    """
    keywords = dict(node.keywords)
    values = [keywords.pop("const")] if "const" in keywords else keywords.pop("enum")
    others = {name: value for name, value in keywords.items() if name in RESTRICTING | _DEPENDENT}
    if not others or has_references(node):
        return list(values)
    import jsonschema_rs

    validator = jsonschema_rs.validator_for({"$schema": str(node.dialect), **others}, validate_formats=asserts_format)
    return [value for value in values if validator.is_valid(value)]


def additional(node: Node) -> Schema | None:
    """What holds for members that ``properties`` does not list; None if the schema does not say."""
    keywords = node.keywords
    found: Schema | None = keywords.get("additionalProperties", keywords.get("unevaluatedProperties"))
    return found


def is_closed(node: Node, *, exact: bool) -> bool:
    """Whether objects are written with members that ``properties`` lists only, although the schema allows others.

    That is what xgrammar itself does by default; keeping others apart from the listed ones multiplies its compile time
    by 10 to 50. It is not done where the language has to be ``exact``.
    """
    listed = node.keywords.get("properties", ())
    suffices = len(listed) >= max(1, node.keywords.get("minProperties", 0))
    return suffices and additional(node) is None and ("patternProperties" in node.keywords or not exact)


def has_others(node: Node, *, exact: bool) -> bool:
    """Whether objects may be written with members that ``properties`` does not list."""
    if not node.keywords.keys().isdisjoint(("patternProperties", "propertyNames")):
        return True
    return additional(node) is not False and not is_closed(node, exact=exact)


def bounds(node: Node) -> dict[str, float]:
    """The bounds of numbers. Draft 4 says whether ``minimum`` is exclusive where later drafts have the bound itself."""
    found: dict[str, float] = {}
    for name, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        for keyword in (name, exclusive):
            value = node.keywords.get(keyword)
            if value is not None and not isinstance(value, bool):
                found[keyword] = value
        if node.keywords.get(exclusive) is True and name in found:
            found[exclusive] = found.pop(name)
    return found


_NAME_KEYWORDS: Final = frozenset({"type", "pattern", "format", "minLength", "maxLength"})


def is_name_schema(names: object) -> bool:
    """Whether a schema for names is one that can be written as a plain string and nothing else, or that allows none."""
    if not isinstance(names, dict) or names.get("type", "string") != "string":
        return names is False
    found = RESTRICTING & names.keys()
    if found <= _NAME_KEYWORDS:
        return True
    values = names["enum"] if "enum" in found else [names.get("const")]
    return found <= {"type", "enum", "const"} and all(isinstance(value, str) for value in values)
