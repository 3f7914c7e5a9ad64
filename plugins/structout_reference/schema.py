"""From a JSON Schema to rules: one for every subschema, named by its pointer, so that recursion is nothing special."""

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import attrs

from structout.errors import ErrorKind
from structout.result import Err, Ok
from structout.schema import check_schema
from structout.schema.loading import load_registry, load_schema
from structout.schema.references import ReferenceIndex
from structout.schema.walk import Node as SchemaNode
from structout.schema.walk import Schema, child, root
from structout.spec import Dialect, JsonObject, JsonSchema, Serialization
from structout_reference.errors import Refused, refused
from structout_reference.json_text import BOOLEAN, MAX_DIGITS, NULL, NUMBER, Writer, integers
from structout_reference.nodes import EMPTY, NOTHING, Node, Ref, Rules, alt, optional, repeat, seq
from structout_reference.regex import anywhere

START: Final = "text"
"""The rule of the whole text. Those of subschemas are named by pointers: empty, or with a slash or ``#`` in them."""
ANYTHING: Final = "any"
"""The rule of any JSON value: one for all places, because arrays and objects of anything are in it."""

_TYPES: Final = ("null", "boolean", "number", "string", "array", "object")
_MAX_PARTS: Final = 300


def read_schema(spec: JsonSchema, *, prefix: str = "") -> Rules:
    """The rules of a schema that `structout_reference.refusals` does not refuse. All but one begin with ``prefix``."""
    if invalid := check_schema(spec):
        raise Refused(invalid)
    schema, registry = load_schema(spec, exact=True).unwrap(), load_registry(spec, exact=True).unwrap()
    index = ReferenceIndex(root(schema, spec.dialect), registry, spec.dialect)
    return _SchemaReader(index, spec.serialization, prefix).rules()


def read_object(spec: JsonObject) -> Rules:
    """The rules of any JSON object."""
    anything = root({"type": "object"}, Dialect.DRAFT_2020_12)
    return _SchemaReader(ReferenceIndex(anything, {}, anything.dialect), spec.serialization).rules()


class _SchemaReader:
    def __init__(self, index: ReferenceIndex, serialization: Serialization, prefix: str = "") -> None:
        self._index = index
        self._prefix = prefix
        self._write = Writer(serialization)
        self._pending: list[SchemaNode] = []
        self._known: set[str] = set()

    def rules(self) -> Rules:
        blank = self._write.blank
        rules: dict[str, Node] = {START: seq(blank, self._rule(self._index.roots[""]), blank)}
        while self._pending:
            node = self._pending.pop()
            rules[self._name(node)] = self._located(node)
        return rules

    def _name(self, node: SchemaNode) -> str:
        return self._prefix + (ANYTHING if node.schema is True else node.location)

    def _rule(self, node: SchemaNode) -> Ref:
        """The rule of a subschema, which is made later."""
        name = self._name(node)
        if name not in self._known:
            self._known.add(name)
            self._pending.append(node)
        return Ref(name)

    def _target(self, node: SchemaNode) -> Ref:
        match self._index.resolve(node, node.keywords["$ref"]):
            case Ok(target):
                return self._rule(target)
            case Err():
                raise refused("$ref to a metaschema is not supported.", keyword="$ref")

    def _inner(self, node: SchemaNode, keyword: str, *path: str | int, default: Schema = True) -> Ref:
        """The rule of a subschema under ``keyword``; that of ``default`` if the keyword is not there."""
        schema: Any = node.keywords.get(keyword, default)
        for step in path:
            schema = schema[step]
        return self._rule(child(node, (keyword, *path), schema, keyword))

    def _located(self, node: SchemaNode) -> Node:
        """The body of a subschema's rule; what is refused in there has its place."""
        try:
            return self._body(node)
        except Refused as fault:
            raise Refused(attrs.evolve(fault.error, pointer=node.location)) from None

    def _body(self, node: SchemaNode) -> Node:
        keywords = node.keywords
        if node.schema is False:
            return NOTHING
        if "$ref" in keywords:
            return self._target(node)
        if "anyOf" in keywords:
            return alt(*(self._inner(node, "anyOf", index) for index in range(len(keywords["anyOf"]))))
        if "const" in keywords or "enum" in keywords:
            return alt(*self._values(node))
        return alt(*(self._of_type(node, name) for name in _declared(node)))

    def _values(self, node: SchemaNode) -> Iterator[Node]:
        keywords = node.keywords
        values = [keywords["const"]] if "const" in keywords else keywords["enum"]
        yield from (self._write.value(value) for value in values if _has_type(value, _declared(node)))

    def _of_type(self, node: SchemaNode, name: str) -> Node:
        """The values of one type that a schema allows."""
        match name:
            case "null":
                return NULL
            case "boolean":
                return BOOLEAN
            case "number":
                return NUMBER
            case "integer":
                return integers(*_bounds(node))
            case "string":
                return self._string(node)
            case "array":
                return self._write.array(alt(*self._items(node)))
            case _:
                return self._write.object(alt(*self._members(node)))

    def _string(self, node: SchemaNode) -> Node:
        keywords = node.keywords
        if "pattern" not in keywords:
            return self._write.string(*_counts(node, "minLength", "maxLength"))
        try:
            return self._write.matching(anywhere(keywords["pattern"], self._write.character))
        except Refused as fault:
            kind = ErrorKind.UNSUPPORTED if fault.error.kind is ErrorKind.INVALID_SPEC else fault.error.kind
            raise Refused(attrs.evolve(fault.error, kind=kind, keyword="pattern")) from None

    def _items(self, node: SchemaNode) -> Iterator[Node]:
        """The ways in which an array can be filled: with some of the first items, or with all and any number more."""
        low, high = _counts(node, "minItems", "maxItems")
        count = len(node.keywords.get("prefixItems", ()))
        _check_parts(node, "prefixItems", count)
        first = [self._inner(node, "prefixItems", index) for index in range(count)]
        for length in range(low, count if high is None else min(count, high + 1)):
            yield self._listed(*first[:length])
        if high is None or high >= count:
            item = self._inner(node, "items")
            yield self._continued(first, item, max(low - count, 0), None if high is None else high - count)

    def _listed(self, *items: Node) -> Node:
        """Items with commas between them."""
        return seq(*items[:1], *(seq(self._write.comma, item) for item in items[1:]))

    def _continued(self, first: list[Ref], item: Node, low: int, high: int | None) -> Node:
        """``first``, and then ``item`` from ``low`` to ``high`` times."""
        if first:
            return seq(self._listed(*first), repeat(seq(self._write.comma, item), low, high))
        others = repeat(seq(self._write.comma, item), max(low - 1, 0), None if high is None else high - 1)
        return alt(seq(item, others), *(() if low else (EMPTY,)))

    def _members(self, node: SchemaNode) -> Iterator[Node]:
        """The ways in which an object can be filled, by which member comes first."""
        properties, required = node.keywords.get("properties", {}), node.keywords.get("required", ())
        _check_parts(node, "properties", len(properties))
        if not set(required) <= set(properties):
            return
        members = [(self._member(node, name), name in required) for name in properties]
        others = self._others(node, list(properties))
        after = [seq(self._write.comma, member) for member, _ in members]
        after = [part if needed else optional(part) for part, (_, needed) in zip(after, members, strict=True)]
        more = repeat(seq(self._write.comma, others))
        for index, (member, needed) in enumerate(members):
            yield seq(member, *after[index + 1 :], more)
            if needed:
                return
        yield seq(others, more)
        yield EMPTY

    def _member(self, node: SchemaNode, name: str) -> Node:
        return seq(self._write.text(name), self._write.colon, self._inner(node, "properties", name))

    def _others(self, node: SchemaNode, names: list[str]) -> Node:
        """A member that ``properties`` does not list."""
        value = self._inner(node, "additionalProperties")
        return seq(self._write.other_than(names), self._write.colon, value)


def _check_parts(node: SchemaNode, keyword: str, count: int) -> None:
    if count > _MAX_PARTS:
        message = f"There are more than {_MAX_PARTS} {keyword}."
        raise refused(message, ErrorKind.TOO_COMPLEX, keyword=keyword)


def _declared(node: SchemaNode) -> list[str]:
    """The types that a schema allows, none inside of another."""
    declared = node.keywords.get("type", list(_TYPES))
    names = dict.fromkeys([declared] if isinstance(declared, str) else declared)
    return [name for name in names if name != "integer" or "number" not in names]


def _has_type(value: Any, names: list[str]) -> bool:
    match value:
        case None:
            return "null" in names
        case bool():
            return "boolean" in names
        case int() | Decimal():
            return "number" in names or ("integer" in names and Decimal(value).to_integral_value() == value)
        case str():
            return "string" in names
        case list():
            return "array" in names
        case _:
            return "object" in names


def _counts(node: SchemaNode, least: str, most: str) -> tuple[int, int | None]:
    high = node.keywords.get(most)
    return int(node.keywords.get(least, 0)), None if high is None else int(high)


def _bounds(node: SchemaNode) -> tuple[int | None, int | None]:
    """The least and the greatest integer."""
    lows = [math.ceil(bound) for bound in _bound(node, "minimum")]
    lows += [math.floor(bound) + 1 for bound in _bound(node, "exclusiveMinimum")]
    highs = [math.floor(bound) for bound in _bound(node, "maximum")]
    highs += [math.ceil(bound) - 1 for bound in _bound(node, "exclusiveMaximum")]
    return max(lows, default=None), min(highs, default=None)


def _bound(node: SchemaNode, keyword: str) -> list[Decimal]:
    if keyword not in node.keywords:
        return []
    bound = Decimal(node.keywords[keyword])
    if bound.adjusted() > MAX_DIGITS:
        raise refused("A bound has too many digits.", keyword=keyword)
    return [bound]
