"""Faults of the language: another one is matched than the spec asks for, and nothing is said of it."""

import json
from typing import Any

import attrs

from structout import Choice, GrammarSpec, JsonSchema, Regex, Serialization
from structout.spec import FormatMode, Whitespace
from tests.mutants.wrapping import PassBackend, SchemaEditor


class IgnoresMaxLength(SchemaEditor):
    """maxLength is ignored."""

    def edit(self, schema: dict[str, Any]) -> None:
        schema.pop("maxLength", None)


class MinLengthOffByOne(SchemaEditor):
    """minLength lets a string through that is a character too short."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("minLength"):
            schema["minLength"] -= 1


class CountsBytes(SchemaEditor):
    """minLength counts a character outside of ASCII twice, if there is one."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("minLength") and "pattern" not in schema and "anyOf" not in schema:
            least = schema.pop("minLength")
            schema["anyOf"] = [{"minLength": least}, {"minLength": least - 1, "pattern": "[^\\u0000-\\u007f]"}]


class ExcludesTheMinimum(SchemaEditor):
    """minimum excludes the bound itself."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "minimum" in schema:
            schema.setdefault("exclusiveMinimum", schema.pop("minimum"))


class IncludesTheMaximum(SchemaEditor):
    """exclusiveMaximum includes the bound itself."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "exclusiveMaximum" in schema:
            schema.setdefault("maximum", schema.pop("exclusiveMaximum"))


class IgnoresMultipleOf(SchemaEditor):
    """multipleOf is ignored."""

    def edit(self, schema: dict[str, Any]) -> None:
        schema.pop("multipleOf", None)


class IgnoresRequired(SchemaEditor):
    """required is ignored."""

    def edit(self, schema: dict[str, Any]) -> None:
        schema.pop("required", None)


class ForgetsTheLastRequired(SchemaEditor):
    """The last of several names in required is forgotten."""

    def edit(self, schema: dict[str, Any]) -> None:
        if len(schema.get("required", ())) > 1:
            schema["required"] = schema["required"][:-1]


class IgnoresAdditionalProperties(SchemaEditor):
    """additionalProperties is ignored."""

    def edit(self, schema: dict[str, Any]) -> None:
        schema.pop("additionalProperties", None)


class ClosesObjects(SchemaEditor):
    """An object with properties has no others, even where the schema leaves it open."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)


class LosesAnOptionalProperty(SchemaEditor):
    """The last property that is not required cannot be written."""

    def edit(self, schema: dict[str, Any]) -> None:
        optional = [name for name in schema.get("properties", ()) if name not in schema.get("required", ())]
        if optional:
            schema["properties"][optional[-1]] = False


class SearchesAnchored(SchemaEditor):
    """pattern has to match the whole string, not just a part of it."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "pattern" in schema:
            schema["pattern"] = f"^(?:{schema['pattern'].removeprefix('^').removesuffix('$')})$"


class DropsAnchors(SchemaEditor):
    """pattern may match a part of the string, although it says where it begins and ends."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "pattern" in schema:
            schema["pattern"] = schema["pattern"].removeprefix("^").removesuffix("$")


class LosesAnEnumValue(SchemaEditor):
    """The last of several values of enum cannot be written."""

    def edit(self, schema: dict[str, Any]) -> None:
        if len(schema.get("enum", ())) > 1:
            schema["enum"] = schema["enum"][:-1]


class ConstIsAType(SchemaEditor):
    """const stands for any string if it is a string."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("const"), str):
            del schema["const"]
            schema.setdefault("type", "string")


class MaxItemsOffByOne(SchemaEditor):
    """maxItems lets one item more through."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "maxItems" in schema:
            schema["maxItems"] += 1


class IgnoresMinItems(SchemaEditor):
    """minItems is ignored."""

    def edit(self, schema: dict[str, Any]) -> None:
        schema.pop("minItems", None)


class TakesTheFirstBranch(SchemaEditor):
    """Of anyOf only the first branch can be written."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "anyOf" in schema:
            schema["anyOf"] = schema["anyOf"][:1]


class TakesTheFirstConjunct(SchemaEditor):
    """Of allOf only the first branch is enforced."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "allOf" in schema:
            schema["allOf"] = schema["allOf"][:1]


class TakesTheFirstType(SchemaEditor):
    """Of several types only the first can be written."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("type"), list):
            schema["type"] = schema["type"][:1]


class IntegersHaveFractions(SchemaEditor):
    """integer takes any number."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("type") == "integer":
            schema["type"] = "number"


class RefHidesItsSiblings(SchemaEditor):
    """What stands beside a $ref is ignored, in every dialect."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "$ref" in schema:
            for name in schema.keys() - {"$ref", "$schema", "$id", "$defs", "definitions"}:
                del schema[name]


class IgnoresFormat(PassBackend):
    """format is an annotation, even where it is to be asserted."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        return attrs.evolve(spec, format_mode=FormatMode.ANNOTATE) if isinstance(spec, JsonSchema) else spec


class NeedsSpaces(PassBackend):
    """There has to be a space after every comma and colon, though any white space is asked for."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if isinstance(spec, JsonSchema) and spec.serialization.whitespace is Whitespace.ANY:
            return attrs.evolve(spec, serialization=Serialization(whitespace=Whitespace.SPACED))
        return spec


class TakesSpacesAnywhere(PassBackend):
    """Takes any white space, though none is asked for."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if isinstance(spec, JsonSchema) and spec.serialization.whitespace is Whitespace.COMPACT:
            return attrs.evolve(spec, serialization=Serialization())
        return spec


class ReadsAnotherDialect(PassBackend):
    """Reads every schema as one of draft 7."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, JsonSchema) or not isinstance(schema := json.loads(spec.text), dict):
            return spec
        return attrs.evolve(spec, text=json.dumps(schema | {"$schema": "http://json-schema.org/draft-07/schema#"}))


class FindsARegex(PassBackend):
    """A regular expression may match the beginning of the text only."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        return attrs.evolve(spec, pattern=f"(?:{spec.pattern})[a-z]*") if isinstance(spec, Regex) else spec


class LosesAnOption(PassBackend):
    """The longest of several options cannot be written."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, Choice) or len(set(spec.options)) < 2:
            return spec
        longest = max(spec.options, key=len)
        return attrs.evolve(spec, options=[option for option in spec.options if option != longest])


class CompletesOptions(PassBackend):
    """An option may end a character too early, if it has more than one."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, Choice):
            return spec
        return attrs.evolve(spec, options=[*spec.options, *(option[:-1] for option in spec.options if option[1:])])
