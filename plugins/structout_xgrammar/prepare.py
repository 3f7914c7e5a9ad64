"""A JSON Schema, rewritten so that xgrammar understands it.

What it reads wrongly without a word is said another way, in draft 2020-12: keywords of other dialects and those that do
not count are gone, references name definitions of this document only, strings with a pattern, a format or a length are
left to automata. What cannot be said otherwise is for `structout_xgrammar.rules`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from structout.backend import Finding
from structout.errors import ErrorKind
from structout.result import Err, Ok
from structout.schema.walk import Node, Schema
from structout_xgrammar.automaton import Automaton, automaton
from structout_xgrammar.patterns import Fault, anywhere, read
from structout_xgrammar.reading import (
    Follow,
    allowed_values,
    allows_all,
    bounds,
    decider,
    is_closed,
    is_name_schema,
    parts,
    types,
    written_types,
)
from structout_xgrammar.strings import automaton_of


def prepare(
    start: Node, follow: Follow, automata: dict[str, Automaton], *, exact: bool, asserts_format: bool
) -> tuple[Schema, list[Finding]]:
    """Rewrites the schema at ``start``; the findings are what has to be left out of it.

    Args:
        start: a valid schema.
        follow: what its references lead to.
        automata: gets an automaton for each ``pattern`` in the result, by that pattern.
        exact: whether objects are left open; see `structout_xgrammar.reading.is_closed`.
        asserts_format: whether ``format`` restricts strings.

    Raises:
        RecursionError: the schema is nested too deeply.
    """
    rewriter = _Rewriter(follow, automata, exact=exact, asserts_format=asserts_format)
    return rewriter.document(start), rewriter.left_out


_ANY: Final[Schema] = {}
"""xgrammar has a rule for what this stands for, but makes one at each place where ``true`` does."""

_INTEGER_BOUNDS: Final[Mapping[str, Callable[[float], int]]] = {
    "minimum": lambda bound: math.ceil(_clamped(bound, -(2**63), 2**64)),
    "maximum": lambda bound: math.floor(_clamped(bound, -(2**64), 2**63 - 1)),
    "exclusiveMinimum": lambda bound: math.floor(_clamped(bound, -(2**63), 2**64)),
    "exclusiveMaximum": lambda bound: math.ceil(_clamped(bound, -(2**64), 2**63 - 1)),
}
"""The bound for integers that says the same as one with decimals, which xgrammar refuses, as it does what is beyond 64
bits: of that it gets the nearest which it takes, if that rules out more."""


def _clamped(bound: float, least: int, greatest: int) -> float:
    return max(least, min(bound, greatest))


_UNRESTRICTED: Final = ("boolean", "null")


class _Rewriter:
    def __init__(self, follow: Follow, automata: dict[str, Automaton], *, exact: bool, asserts_format: bool) -> None:
        self.left_out: list[Finding] = []
        self._automata = automata
        self._follow = follow
        self._exact = exact
        self._asserts_format = asserts_format
        self._names: dict[tuple[int, str | int], str] = {}
        self._pending: list[Node] = []

    def document(self, start: Node) -> Schema:
        """The schema at ``start``, with a definition for each that a reference leads to."""
        self._names[start.place] = "#"
        schema = self._schema(start)
        definitions: dict[str, Schema] = {}
        while self._pending:
            node = self._pending.pop()
            definitions[self._names[node.place].rpartition("/")[2]] = self._schema(node)
        return schema | {"$defs": definitions} if definitions and isinstance(schema, dict) else schema

    def _schema(self, node: Node) -> Schema:
        if isinstance(node.schema, bool):
            return _ANY if node.schema else False
        match decider(node):
            case "$ref":
                return self._reference(node)
            case "const" | "enum":
                return _literals(allowed_values(node, asserts_format=self._asserts_format))
            case "anyOf" | "oneOf" as keyword:
                return _any_of([self._schema(part) for part in parts(node, keyword)])
            case "allOf" as keyword:
                return _all_of([self._schema(part) for part in parts(node, keyword) if not allows_all(part.schema)])
            case _:
                return self._typed(node)

    def _reference(self, node: Node) -> Schema:
        target = self._follow(node)
        if isinstance(target.schema, bool):
            return self._schema(target)
        if target.place not in self._names:
            self._names[target.place] = f"#/$defs/{len(self._names)}"
            self._pending.append(target)
        return {"$ref": self._names[target.place]}

    def _typed(self, node: Node) -> Schema:
        if types(node) is None and allows_all(node.schema):
            return _ANY
        written = self._of_types(node, written_types(node))
        # Where no value is of the types that xgrammar would take the schema for, others are left. Only those that no
        # keyword is about are written then: the rules do not know of the rest.
        return self._of_types(node, _UNRESTRICTED) if written is False and types(node) is None else written

    def _of_types(self, node: Node, names: Sequence[str]) -> Schema:
        return _any_of([self._of_type(node, name) for name in names if name != "integer" or "number" not in names])

    def _of_type(self, node: Node, name: str) -> Schema:
        match name:
            case "string":
                return self._string(node)
            case "number":
                return {"type": name, **bounds(node)}
            case "integer":
                return {"type": name, **self._integer(node)}
            case "array":
                return self._array(node)
            case "object":
                return self._object(node)
            case _:
                return {"type": name}

    def _string(self, node: Node) -> Schema:
        match automaton_of(node.keywords, asserts_format=self._asserts_format):
            case None:
                return {"type": "string", **_counts(node.keywords, "minLength", "maxLength")}
            case Ok(machine):
                return {"type": "string", "pattern": self._placeholder(machine)}
            case Err(fault):
                return False if fault.kind is ErrorKind.UNSATISFIABLE else self._any_string(node, fault)

    def _any_string(self, node: Node, fault: Fault) -> Schema:
        keyword = "pattern" if "pattern" in node.keywords else "maxLength"
        self.left_out.append(Finding(node.location, keyword, f"is not supported: {fault.message}"))
        return {"type": "string"}

    def _placeholder(self, machine: Automaton) -> str:
        """The ``pattern`` that stands for an automaton."""
        for placeholder, known in self._automata.items():
            if known == machine:
                return placeholder
        placeholder = f"automaton{len(self._automata)}"
        self._automata[placeholder] = machine
        return placeholder

    def _integer(self, node: Node) -> dict[str, Any]:
        schema = {name: _INTEGER_BOUNDS[name](bound) for name, bound in bounds(node).items()}
        divisor = float(node.keywords.get("multipleOf", 1))
        return schema | ({"multipleOf": int(divisor)} if divisor.is_integer() and divisor > 1 else {})

    def _array(self, node: Node) -> Schema:
        keywords = node.keywords
        first = "prefixItems" if "prefixItems" in keywords else "items"
        rest = "additionalItems" if isinstance(keywords.get("items"), list) else "items"
        unlisted = [self._schema(part) for part in parts(node, rest) or parts(node, "unevaluatedItems")]
        listed = [self._schema(part) for part in parts(node, first)] if isinstance(keywords.get(first), list) else []
        schema: dict[str, Any] = _counts(keywords, "minItems", "maxItems")
        if False in (every := listed + unlisted):
            schema["maxItems"] = min(every.index(False), schema.get("maxItems", math.inf))
        if schema.get("minItems", 0) > schema.get("maxItems", math.inf):
            return False
        if listed := listed[: schema.get("maxItems")]:
            schema["prefixItems"] = listed
        if schema or unlisted:
            schema["items"] = unlisted[0] if unlisted else _ANY
        return {"type": "array"} | schema

    def _object(self, node: Node) -> Schema:
        unlisted = self._unlisted(node)
        listed = self._listed(node, unlisted)
        properties = {name: schema for name, schema in listed.items() if schema is not False}
        required = node.keywords.get("required", [])
        counts = _counts(node.keywords, "minProperties", "maxProperties")
        is_complete = unlisted is False and "patternProperties" not in node.keywords
        most = min(counts.get("maxProperties", math.inf), len(properties) if is_complete else math.inf)
        forbidden = listed.keys() - properties.keys()
        if not forbidden.isdisjoint(required) or max(counts.get("minProperties", 0), len(set(required))) > most:
            return False
        others = self._others(node, unlisted)
        if forbidden and others["additionalProperties"] is not False:
            reason = "is not enforced where it forbids a member and others are allowed"
            self.left_out.append(Finding(node.location, "properties", reason))
        written = {"properties": properties, "required": required}
        schema = counts | {name: value for name, value in written.items() if value} | others
        return {"type": "object"} | (schema if schema != {"additionalProperties": _ANY} else {})

    def _listed(self, node: Node, unlisted: Schema) -> dict[str, Schema]:
        """The listed members, and behind them required ones that are not listed."""
        listed = {str(part.path[-1]): self._schema(part) for part in parts(node, "properties")}
        for name in node.keywords.get("required", ()) if "patternProperties" not in node.keywords else ():
            listed.setdefault(name, unlisted)
        return listed

    def _unlisted(self, node: Node) -> Schema:
        """What holds for members that neither ``properties`` nor ``patternProperties`` names."""
        found = parts(node, "additionalProperties") or parts(node, "unevaluatedProperties")
        return self._schema(found[0]) if found else _ANY

    def _others(self, node: Node, unlisted: Schema) -> dict[str, Any]:
        """The keywords for members that are not listed."""
        patterns = self._pattern_properties(node)
        names = [self._name(part) for part in parts(node, "propertyNames") if is_name_schema(part.schema)]
        closed = unlisted is False or is_closed(node, exact=self._exact) or False in (*patterns.values(), *names)
        schema: dict[str, Any] = {"additionalProperties": False if closed else unlisted}
        if allowed := {pattern: each for pattern, each in patterns.items() if each is not False}:
            schema["patternProperties"] = allowed
        elif names and not closed:
            schema["propertyNames"] = names[0]
        return schema

    def _pattern_properties(self, node: Node) -> dict[str, Schema]:
        rewritten: dict[str, Schema] = {}
        for part in parts(node, "patternProperties"):
            match read(str(part.path[-1])).map(anywhere).and_then(automaton):
                case Ok(machine):
                    rewritten[self._placeholder(machine)] = self._schema(part)
                case Err(fault):
                    reason = f"has a pattern that is not supported: {fault.message}"
                    self.left_out.append(Finding(node.location, "patternProperties", reason))
        return rewritten

    def _name(self, node: Node) -> Schema:
        return self._schema(node) if decider(node) or node.schema is False else self._string(node)


def _any_of(options: list[Schema]) -> Schema:
    """One of several schemas. xgrammar refuses a schema that nothing satisfies, wherever it stands."""
    options = [option for option in options if option is not False]
    if len(options) < 2:
        return options[0] if options else False
    return {"anyOf": options}


def _all_of(schemas: list[Schema]) -> Schema:
    """All of several schemas."""
    if len(schemas) < 2:
        return schemas[0] if schemas else _ANY
    return False if False in schemas else {"allOf": schemas}


def _literals(values: list[Any]) -> Schema:
    """One of several values. Arrays and objects are taken apart: xgrammar would write them without white space."""
    scalars = [value for value in values if not isinstance(value, list | dict)]
    options: list[Schema] = [{"enum": scalars}] if scalars else []
    return _any_of(options + [_literal(value) for value in values if isinstance(value, list | dict)])


def _literal(value: Any) -> Schema:
    match value:
        case list():
            items = {"prefixItems": [_literal(item) for item in value]} if value else {}
            return {"type": "array", **items, "items": False, "minItems": len(value)}
        case dict():
            members = {name: _literal(member) for name, member in value.items()}
            return {"type": "object", "properties": members, "required": [*value], "additionalProperties": False}
        case _:
            return {"const": value}


def _counts(keywords: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: int(keywords[name]) for name in names if name in keywords}
