"""Faults of reading: what a spec says beside the plainest of it is taken for something else, or for nothing."""

import json
import re
from typing import Any

import attrs

from structout import GrammarSpec, JsonObject, JsonSchema, Lark, StructuralTag, Vocabulary
from structout.spec import FormatMode
from structout_reference.nodes import Alt, Bytes, Node, Repeat, Seq, alt, one_of, repeat, seq
from tests.mutants.wrapping import PassBackend, SchemaEditor


class ObjectIgnoresSerialization(PassBackend):
    """An object of any kind is written in any way, whatever serialization is asked for."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        return JsonObject(policy=spec.policy) if isinstance(spec, JsonObject) else spec


class LarkFlagsAreLost(PassBackend):
    """The flag i of a text or a pattern in Lark is lost."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if isinstance(spec, Lark):
            return attrs.evolve(spec, text=re.sub(r'(["/])i\b', r"\1", spec.text))
        return spec


class IgnoresAtLeastOne(PassBackend):
    """Where a structural tag has to come at least once, none is needed."""

    base = "xgrammar"

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if isinstance(spec, StructuralTag):
            return attrs.evolve(spec, text=json.dumps(_without(json.loads(spec.text), "at_least_one")))
        return spec


def _without(value: Any, name: str) -> Any:
    """A JSON value without the members of a name, at every depth."""
    if isinstance(value, dict):
        return {key: _without(inner, name) for key, inner in value.items() if key != name}
    return [_without(inner, name) for inner in value] if isinstance(value, list) else value


class IgnoresTheSchemasDialect(PassBackend):
    """The dialect that is meant where a schema does not say is taken, whatever the schema says."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if isinstance(spec, JsonSchema):
            schema = json.loads(spec.text)
            if isinstance(schema, dict) and schema.pop("$schema", None):
                return attrs.evolve(spec, text=json.dumps(schema))
        return spec


class BigIntegersAreDoubles(PassBackend):
    """Integers in a schema are rounded to doubles."""

    base = "reference"

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if isinstance(spec, JsonSchema):
            schema = json.loads(spec.text, parse_int=lambda digits: int(float(digits)) if len(digits) < 300 else 0)
            return attrs.evolve(spec, text=json.dumps(schema))
        return spec


class NumericNamesFirst(SchemaEditor):
    """Properties whose names are numbers come first and in their order, as in JavaScript."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("properties"), dict):
            properties = schema["properties"]
            numeric = sorted((name for name in properties if re.fullmatch("0|[1-9][0-9]*", name)), key=int)
            schema["properties"] = {name: properties[name] for name in dict.fromkeys([*numeric, *properties])}


class DatesAreDigits(SchemaEditor):
    """A date is four, two and two digits."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("format") == "date" and "pattern" not in schema:
            schema["pattern"] = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
            del schema["format"]

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        is_annotated = isinstance(spec, JsonSchema) and spec.format_mode is FormatMode.ANNOTATE
        return spec if is_annotated else super().altered(spec)


class NoCapitalExponents(PassBackend):
    """The exponent of a number begins with a small e only."""

    base = "reference"

    def __init__(self, inner: Any, vocabulary: Vocabulary) -> None:
        super().__init__(inner, vocabulary)
        good = inner._grammar

        def grammar(rules: dict[str, Node], start: str) -> Any:
            # Rules that are not of JSON have other names than these.
            is_json = any(name in ("any", "") or name[0] in "/#" for name in rules)
            return good({name: _small(node) if is_json else node for name, node in rules.items()}, start)

        inner._grammar = grammar


def _small(node: Node) -> Node:
    """The same, with the small letter alone for the exponents of both."""
    match node:
        case Bytes(allowed=allowed) if set(allowed) == set(b"eE"):
            return one_of(b"e")
        case Seq(parts=parts):
            return seq(*map(_small, parts))
        case Alt(options=options):
            return alt(*map(_small, options))
        case Repeat(part=part, low=low, high=high):
            return repeat(_small(part), low, high)
    return node
