"""A JSON Schema, rewritten so that xgrammar understands it.

What it reads wrongly without a word is said another way, in draft 2020-12: keywords of other dialects and those that do
not count are gone, references name definitions of this document only, strings with a pattern, a format or a length are
left to automata. What cannot be said otherwise is for `structout_xgrammar.rules`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from structout.backend import Finding
from structout.errors import ErrorKind
from structout.result import Err, Ok
from structout.schema.walk import Node, Schema
from structout_xgrammar.automaton import Automaton, automaton
from structout_xgrammar.patterns import Fault, anywhere, read
from structout_xgrammar.reading import (
    Follow,
    additional,
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
                return {"enum": values} if (values := allowed_values(node)) else False
            case "anyOf" | "oneOf" as keyword:
                return _any_of([self._schema(part) for part in parts(node, keyword)])
            case "allOf" as keyword:
                restricting = [part for part in parts(node, keyword) if not allows_all(part.schema)]
                return {"allOf": [self._schema(part) for part in restricting]} if restricting else _ANY
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
        names = written_types(node)
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
                return {"type": name, **self._array(node)}
            case "object":
                return {"type": name, **self._object(node)}
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

    def _array(self, node: Node) -> dict[str, Any]:
        keywords = node.keywords
        first = "prefixItems" if "prefixItems" in keywords else "items"
        rest = "additionalItems" if isinstance(keywords.get("items"), list) else "items"
        schema: dict[str, Any] = _counts(keywords, "minItems", "maxItems")
        if isinstance(keywords.get(first), list):
            schema["prefixItems"] = [self._schema(part) for part in parts(node, first)][: schema.get("maxItems")]
        for part in parts(node, rest) or parts(node, "unevaluatedItems"):
            schema["items"] = self._schema(part)
        return {"items": _ANY} | schema if schema else {}

    def _object(self, node: Node) -> dict[str, Any]:
        keywords = node.keywords
        schema: dict[str, Any] = _counts(keywords, "minProperties", "maxProperties")
        if properties := self._properties(node):
            schema["properties"] = properties
        if keywords.get("required"):
            schema["required"] = keywords["required"]
        if "patternProperties" in keywords:
            schema["patternProperties"] = self._pattern_properties(node)
        elif is_name_schema(keywords.get("propertyNames")):
            schema["propertyNames"] = self._name(parts(node, "propertyNames")[0])
        if additional(node) is not None or schema:
            schema["additionalProperties"] = False if self._is_closed(node) else self._others(node)
        return schema

    def _is_closed(self, node: Node) -> bool:
        return additional(node) is False or is_closed(node, exact=self._exact)

    def _properties(self, node: Node) -> dict[str, Schema]:
        """The listed members, and behind them required ones that are not listed."""
        required = node.keywords.get("required", ())
        listed = {str(part.path[-1]): self._schema(part) for part in parts(node, "properties")}
        if self._is_closed(node):
            listed = {name: schema for name, schema in listed.items() if schema is not False or name in required}
        for name in required if "patternProperties" not in node.keywords else ():
            if name not in listed:
                listed[name] = self._others(node)
        return listed

    def _others(self, node: Node) -> Schema:
        found = parts(node, "additionalProperties") or parts(node, "unevaluatedProperties")
        return self._schema(found[0]) if found else _ANY

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
        return self._schema(node) if decider(node) else self._string(node)


def _any_of(options: list[Schema]) -> Schema:
    """One of several schemas. xgrammar refuses a schema that nothing satisfies, wherever it stands."""
    options = [option for option in options if option is not False]
    if len(options) < 2:
        return options[0] if options else False
    return {"anyOf": options}


def _counts(keywords: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: int(keywords[name]) for name in names if name in keywords}
