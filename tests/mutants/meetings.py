"""Faults of the language where parts of it meet: each part by itself is treated as it should be."""

import abc
import re
from typing import Any

import attrs

from structout import Choice, Ebnf, GrammarSpec, Regex
from tests.mutants.wrapping import PassBackend, SchemaEditor


class EnumIsASet(SchemaEditor):
    """The values of enum are a set of Python's, in which true is 1."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("enum"), list):
            distinct: list[Any] = []
            for value in schema["enum"]:
                if value not in distinct:
                    distinct.append(value)
            schema["enum"] = distinct


class ConstIsShallow(SchemaEditor):
    """Of the arrays in an array in const only the length is enforced."""

    def edit(self, schema: dict[str, Any]) -> None:
        value = schema.get("const")
        if isinstance(value, list) and value and schema.keys() == {"const"}:
            del schema["const"]
            items = [{"type": "array"} if isinstance(item, list) else {"const": item} for item in value]
            schema |= {"type": "array", "prefixItems": items, "items": False, "minItems": len(value)}


class SkipsTheEmptyName(SchemaEditor):
    """The empty name in properties is skipped."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("properties"), dict):
            schema["properties"].pop("", None)


class FalseIsTrue(SchemaEditor):
    """A property whose schema is false may have any value."""

    def edit(self, schema: dict[str, Any]) -> None:
        for name, value in (schema.get("properties") or {}).items():
            if value is False:
                schema["properties"][name] = True


class RequiredNamesAreAny(SchemaEditor):
    """A required name that properties does not list takes any value, whatever additionalProperties says."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("additionalProperties"), dict):
            for name in schema.get("required") or ():
                schema.setdefault("properties", {}).setdefault(name, True)


class ForgetsLongNames(SchemaEditor):
    """A name of more than eight characters in required is forgotten."""

    def edit(self, schema: dict[str, Any]) -> None:
        if isinstance(schema.get("required"), list):
            schema["required"] = [name for name in schema["required"] if len(name) <= 8]


class ExclusiveBesideMinimum(SchemaEditor):
    """exclusiveMinimum is ignored beside minimum."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "minimum" in schema:
            schema.pop("exclusiveMinimum", None)


class TruncatesBounds(SchemaEditor):
    """The fraction of a bound of an integer is cut off."""

    def edit(self, schema: dict[str, Any]) -> None:
        for name in ("minimum", "maximum"):
            if schema.get("type") == "integer" and isinstance(schema.get(name), float):
                schema[name] = int(schema[name])


class RoundsBounds(SchemaEditor):
    """Bounds have two decimals."""

    def edit(self, schema: dict[str, Any]) -> None:
        for name in ("minimum", "maximum"):
            if isinstance(schema.get(name), float):
                schema[name] = round(schema[name], 2)


class RefIntoPropertiesIsAny(SchemaEditor):
    """A reference to a schema that is no definition stands for anything."""

    def edit(self, schema: dict[str, Any]) -> None:
        if str(schema.get("$ref")).startswith("#/properties"):
            del schema["$ref"]


class RefByAnchorIsAny(SchemaEditor):
    """A reference by anchor stands for anything."""

    def edit(self, schema: dict[str, Any]) -> None:
        if re.fullmatch(r"#\w+", str(schema.get("$ref"))):
            del schema["$ref"]


class LosesManyBranches(SchemaEditor):
    """Of anyOf sixteen branches can be written at most."""

    def edit(self, schema: dict[str, Any]) -> None:
        if "anyOf" in schema:
            schema["anyOf"] = schema["anyOf"][:16]


class AnchorsBindWeakly(SchemaEditor):
    """The anchors at the ends of a pattern are taken for those of all its alternatives."""

    def edit(self, schema: dict[str, Any]) -> None:
        pattern = str(schema.get("pattern", ""))
        if pattern.startswith("^") and pattern.endswith("$"):
            schema["pattern"] = f"^(?:{pattern[1:-1]})$"


class _EditsPatterns(PassBackend, abc.ABC):
    """Compiles another regular expression than it is given."""

    @abc.abstractmethod
    def edited(self, pattern: str) -> str:
        """What becomes of a regular expression."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        return attrs.evolve(spec, pattern=self.edited(spec.pattern)) if isinstance(spec, Regex) else spec


class NoTimesIsAnyTimes(_EditsPatterns):
    """A repetition of no times is one without bounds."""

    def edited(self, pattern: str) -> str:
        return re.sub(r"\{0(,0)?\}", "{0,}", pattern)


class HexEscapesAreLetters(_EditsPatterns):
    """The escape of a character by its number is the letter x and digits."""

    def edited(self, pattern: str) -> str:
        return re.sub(r"\\x(?=[0-9a-f])", "x", pattern)


class LosesAFinalHyphen(_EditsPatterns):
    """A hyphen at the end of a class is skipped."""

    def edited(self, pattern: str) -> str:
        return re.sub(r"(?<=[^\\\[^])-\]", "]", pattern)


class CutsOptionsAtNul(PassBackend):
    """An option ends at a NUL."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, Choice):
            return spec
        return attrs.evolve(spec, options=tuple(dict.fromkeys(option.split("\0")[0] for option in spec.options)))


class CutsLongOptions(PassBackend):
    """An option has 255 characters at most, and ends there."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        if not isinstance(spec, Choice):
            return spec
        return attrs.evolve(spec, options=tuple(dict.fromkeys(option[:255] for option in spec.options)))


class _EditsGrammars(PassBackend, abc.ABC):
    """Compiles another grammar than it is given."""

    base = "reference"

    @abc.abstractmethod
    def edited(self, spec: Ebnf) -> Ebnf:
        """What becomes of a grammar."""

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        return self.edited(spec) if isinstance(spec, Ebnf) else spec


class GrammarBoundsWrap(_EditsGrammars):
    """Bounds of repetitions in a grammar are kept in a byte."""

    def edited(self, spec: Ebnf) -> Ebnf:
        return attrs.evolve(spec, text=re.sub(r"(\d+)(?=\})", lambda bound: str(int(bound[1]) % 256), spec.text))


class StartsAtTheFirstRule(_EditsGrammars):
    """A grammar starts with its first rule, whichever is its root."""

    def edited(self, spec: Ebnf) -> Ebnf:
        return attrs.evolve(spec, root=re.findall(r"^([-\w]+)\s*::=", spec.text, re.MULTILINE)[0])


class LosesEmptyAlternatives(_EditsGrammars):
    """An empty alternative at the end of a rule is lost."""

    def edited(self, spec: Ebnf) -> Ebnf:
        return attrs.evolve(spec, text=spec.text.replace(' | ""', ""))
