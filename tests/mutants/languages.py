"""Faults of the language: another one is matched than the spec asks for, and nothing is said of it."""

import abc
import json
import re
import unicodedata
from typing import Any

import attrs

from structout import Choice, GrammarSpec, JsonSchema, Regex, Serialization
from structout.spec import FormatMode, KeyOrder, Whitespace
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


class DropsPatternsWhereClosed(SchemaEditor):
    """patternProperties is ignored where additionalProperties is false."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("additionalProperties") is False:
            schema.pop("patternProperties", None)


class OpensBesidePatterns(SchemaEditor):
    """A schema in additionalProperties is ignored beside patternProperties."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("additionalProperties"), dict) and "patternProperties" in schema:
            schema["additionalProperties"] = True


class RequiresTheListedOnly(SchemaEditor):
    """A name in required that properties does not list is ignored."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("required"), list):
            schema["required"] = [name for name in schema["required"] if name in schema.get("properties", {})]


class BoundsWrap(SchemaEditor):
    """Bounds of lengths are kept in a byte."""

    def edit(self, schema: dict[str, Any]) -> None:
        for name in ("minLength", "maxLength", "minItems", "maxItems"):
            if isinstance(schema.get(name), int):
                schema[name] %= 256


class KnowsSixteenProperties(SchemaEditor):
    """Of properties only the first sixteen are enforced."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("properties"), dict):
            schema["properties"] = dict(list(schema["properties"].items())[:16])


class EndsLongArrays(SchemaEditor):
    """An array without a bound has twelve items at most."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("type") == "array":
            schema.setdefault("maxItems", max(12, schema.get("minItems", 0)))


class EndsLongStrings(SchemaEditor):
    """A string without a bound has 64 characters at most."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("type") == "string" and schema.keys().isdisjoint(("pattern", "format", "enum", "const")):
            schema.setdefault("maxLength", max(64, schema.get("minLength", 0)))


class LosesContainersOfEnum(SchemaEditor):
    """Of an enum the arrays and objects cannot be written, if there is anything else in it."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("enum"), list):
            plain = [value for value in schema["enum"] if not isinstance(value, dict | list)]
            schema["enum"] = plain or schema["enum"]


class KeepsTheEndsOfAnEnum(SchemaEditor):
    """Of an enum of more than 512 values only the first and the last 256 can be written."""

    def edit(self, schema: dict[str, Any]) -> None:
        if len(schema.get("enum", ())) > 512:
            schema["enum"] = schema["enum"][:256] + schema["enum"][-256:]


class RefToTheRootIsAny(SchemaEditor):
    """A reference to the whole schema stands for anything."""

    def edit(self, schema: dict[str, Any]) -> None:
        if schema.get("$ref") == "#":
            del schema["$ref"]


class BoundsOverflow(SchemaEditor):
    """minimum and maximum are kept in 32 bits."""

    def edit(self, schema: dict[str, Any]) -> None:
        for name in ("minimum", "maximum"):
            if isinstance(schema.get(name), int):
                schema[name] = (schema[name] + 2**31) % 2**32 - 2**31


class ReversesTheOrder(SchemaEditor):
    """Members are written in the reverse of the declared order."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("properties"), dict):
            schema["properties"] = dict(reversed(schema["properties"].items()))


class ComposesSchemas(PassBackend):
    """The text of a schema is brought into Unicode's normal form C first."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, JsonSchema):
            return spec
        return attrs.evolve(spec, text=unicodedata.normalize("NFC", spec.text))


class IgnoresTheOrder(PassBackend):
    """Writes members in the declared order only, though any order is asked for, and does not say so."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, JsonSchema):
            return spec
        return attrs.evolve(spec, serialization=attrs.evolve(spec.serialization, key_order=KeyOrder.DECLARED))


class AssertsFormats(PassBackend):
    """format restricts strings, even where it is to be an annotation."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        return attrs.evolve(spec, format_mode=FormatMode.ASSERT) if isinstance(spec, JsonSchema) else spec


class StarIsThirty(PassBackend):
    """A star in a regular expression without classes stands for thirty times at most."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, Regex) or "[" in spec.pattern:
            return spec
        return attrs.evolve(spec, pattern=re.sub(r"(?<!\\)\*", "{0,30}", spec.pattern))


class _EditsOptions(PassBackend, abc.ABC):
    """Tidies options up."""

    @abc.abstractmethod
    def tidied(self, option: str) -> str:
        """What becomes of an option."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, Choice):
            return spec
        return attrs.evolve(spec, options=tuple(dict.fromkeys(map(self.tidied, spec.options))))


class StripsOptions(_EditsOptions):
    """White space around an option is taken away."""

    def tidied(self, option: str) -> str:
        return option.strip()


class MendsLineBreaks(_EditsOptions):
    """A line break in an option is a line feed, whatever it was."""

    def tidied(self, option: str) -> str:
        return option.replace("\r\n", "\n").replace("\r", "\n")


class ComposesOptions(_EditsOptions):
    """Options are brought into Unicode's normal form KC first."""

    def tidied(self, option: str) -> str:
        return unicodedata.normalize("NFKC", option)
