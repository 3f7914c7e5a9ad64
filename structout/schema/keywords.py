"""The keywords of JSON Schema, draft 4 to 2020-12, as one table: what each is for and where it holds subschemas."""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from structout.spec import Dialect


class Role(enum.StrEnum):
    """What a keyword does.

    CORE: names schemas or refers to them. APPLICATOR: applies subschemas. ASSERTION: restricts the instance by itself.
    ANNOTATION: restricts nothing. (``format`` is listed as an assertion; `structout.spec.FormatMode` decides.)
    """

    CORE = "core"
    APPLICATOR = "applicator"
    ASSERTION = "assertion"
    ANNOTATION = "annotation"


class Holds(enum.StrEnum):
    """Where a keyword's value has subschemas.

    NONE: nowhere. VALUE: the value is one. LIST: each item. MAP: each member's value (``dependencies`` may also have
    lists of names there). EITHER: the value or, if it is an array, each item.
    """

    NONE = "none"
    VALUE = "value"
    LIST = "list"
    MAP = "map"
    EITHER = "either"


@attrs.frozen
class Keyword:
    """One keyword in the dialects from ``since`` to ``until``, both included."""

    name: str
    role: Role
    holds: Holds = Holds.NONE
    since: Dialect = Dialect.DRAFT_4
    until: Dialect = Dialect.DRAFT_2020_12


DIALECTS: Final = (
    Dialect.DRAFT_4,
    Dialect.DRAFT_6,
    Dialect.DRAFT_7,
    Dialect.DRAFT_2019_09,
    Dialect.DRAFT_2020_12,
)
"""Oldest first."""

_CORE, _APPLICATOR, _ASSERTION, _ANNOTATION = Role
_NONE, _VALUE, _LIST, _MAP, _EITHER = Holds
_4, _6, _7, _2019, _2020 = DIALECTS

_TABLE: Final = (
    Keyword("$schema", _CORE),
    Keyword("id", _CORE, until=_4),
    Keyword("$id", _CORE, since=_6),
    Keyword("$ref", _CORE),
    Keyword("$anchor", _CORE, since=_2019),
    Keyword("$vocabulary", _CORE, since=_2019),
    Keyword("$recursiveRef", _CORE, since=_2019, until=_2019),
    Keyword("$recursiveAnchor", _CORE, since=_2019, until=_2019),
    Keyword("$dynamicRef", _CORE, since=_2020),
    Keyword("$dynamicAnchor", _CORE, since=_2020),
    Keyword("definitions", _CORE, _MAP),
    Keyword("$defs", _CORE, _MAP, since=_2019),
    Keyword("allOf", _APPLICATOR, _LIST),
    Keyword("anyOf", _APPLICATOR, _LIST),
    Keyword("oneOf", _APPLICATOR, _LIST),
    Keyword("not", _APPLICATOR, _VALUE),
    Keyword("if", _APPLICATOR, _VALUE, since=_7),
    Keyword("then", _APPLICATOR, _VALUE, since=_7),
    Keyword("else", _APPLICATOR, _VALUE, since=_7),
    Keyword("properties", _APPLICATOR, _MAP),
    Keyword("patternProperties", _APPLICATOR, _MAP),
    Keyword("additionalProperties", _APPLICATOR, _VALUE),
    Keyword("unevaluatedProperties", _APPLICATOR, _VALUE, since=_2019),
    Keyword("propertyNames", _APPLICATOR, _VALUE, since=_6),
    # Gone since 2019-09, but still in its metaschema, and validators go on applying it.
    Keyword("dependencies", _APPLICATOR, _MAP),
    Keyword("dependentSchemas", _APPLICATOR, _MAP, since=_2019),
    Keyword("prefixItems", _APPLICATOR, _LIST, since=_2020),
    Keyword("items", _APPLICATOR, _EITHER, until=_2019),
    Keyword("items", _APPLICATOR, _VALUE, since=_2020),
    Keyword("additionalItems", _APPLICATOR, _VALUE, until=_2019),
    Keyword("unevaluatedItems", _APPLICATOR, _VALUE, since=_2019),
    Keyword("contains", _APPLICATOR, _VALUE, since=_6),
    Keyword("type", _ASSERTION),
    Keyword("enum", _ASSERTION),
    Keyword("const", _ASSERTION, since=_6),
    Keyword("multipleOf", _ASSERTION),
    Keyword("maximum", _ASSERTION),
    Keyword("exclusiveMaximum", _ASSERTION),
    Keyword("minimum", _ASSERTION),
    Keyword("exclusiveMinimum", _ASSERTION),
    Keyword("maxLength", _ASSERTION),
    Keyword("minLength", _ASSERTION),
    Keyword("pattern", _ASSERTION),
    Keyword("format", _ASSERTION),
    Keyword("maxItems", _ASSERTION),
    Keyword("minItems", _ASSERTION),
    Keyword("uniqueItems", _ASSERTION),
    Keyword("maxContains", _ASSERTION, since=_2019),
    Keyword("minContains", _ASSERTION, since=_2019),
    Keyword("maxProperties", _ASSERTION),
    Keyword("minProperties", _ASSERTION),
    Keyword("required", _ASSERTION),
    Keyword("dependentRequired", _ASSERTION, since=_2019),
    Keyword("title", _ANNOTATION),
    Keyword("description", _ANNOTATION),
    Keyword("default", _ANNOTATION),
    Keyword("examples", _ANNOTATION, since=_6),
    Keyword("$comment", _ANNOTATION, since=_7),
    Keyword("readOnly", _ANNOTATION, since=_7),
    Keyword("writeOnly", _ANNOTATION, since=_7),
    Keyword("contentEncoding", _ANNOTATION, since=_7),
    Keyword("contentMediaType", _ANNOTATION, since=_7),
    Keyword("contentSchema", _ANNOTATION, _VALUE, since=_2019),
    Keyword("deprecated", _ANNOTATION, since=_2019),
)


def _known_in(dialect: Dialect) -> Mapping[str, Keyword]:
    age = DIALECTS.index(dialect)
    return MappingProxyType(
        {word.name: word for word in _TABLE if DIALECTS.index(word.since) <= age <= DIALECTS.index(word.until)}
    )


KEYWORDS: Final[Mapping[Dialect, Mapping[str, Keyword]]] = MappingProxyType(
    {dialect: _known_in(dialect) for dialect in DIALECTS}
)
"""The keywords that a dialect knows, by name. Any other member of a schema is an annotation to it."""

REF_SUPPRESSES_SIBLINGS: Final = frozenset({Dialect.DRAFT_4, Dialect.DRAFT_6, Dialect.DRAFT_7})
"""Dialects in which ``$ref`` makes the other keywords of its schema mean nothing."""

ID_KEYWORD: Final[Mapping[Dialect, str]] = MappingProxyType(
    {dialect: "id" if dialect is Dialect.DRAFT_4 else "$id" for dialect in DIALECTS}
)

_BY_URI: Final = {dialect.removesuffix("#"): dialect for dialect in DIALECTS} | {
    f"{scheme}://json-schema.org/schema": Dialect.DRAFT_2020_12  # "the latest"
    for scheme in ("http", "https")
}


def known_dialect(uri: object) -> Dialect | None:
    """The dialect that a value of ``$schema`` names, with or without the empty fragment; None for any other."""
    return _BY_URI.get(uri.removesuffix("#")) if isinstance(uri, str) else None


def dialect_of(schema: Any, default: Dialect) -> Dialect:
    """The dialect of a schema document: what its ``$schema`` names, or ``default`` where that names none we know."""
    return (isinstance(schema, dict) and known_dialect(schema.get("$schema"))) or default
