"""What is measured of a spec, in the words of its error messages."""

import enum
from collections import defaultdict
from typing import Final, TypeAlias

CAP: Final = 10**9
"""Where measures end: products are not computed beyond it."""


class Measure(enum.StrEnum):
    """One number that can be had of a spec without compiling it; see `DESCRIPTIONS`."""

    SCHEMA_BYTES = "schema.bytes"
    SCHEMA_DEPTH = "schema.depth"
    SUBSCHEMAS = "schema.subschemas"
    REFERENCES = "schema.references"
    ALTERNATIVES = "schema.alternatives"
    UNEVALUATED = "schema.unevaluated"
    ENUM = "schema.enum"
    CONST_BYTES = "schema.const_bytes"
    REPETITION = "schema.repetition"
    DIVISOR = "schema.divisor"
    OPEN_NAMES = "schema.open_names"
    REGEX_BYTES = "regex.bytes"
    REGEX_DEPTH = "regex.depth"
    POSITIONS = "regex.positions"
    OPTIONAL = "regex.optional"
    GRAMMAR_BYTES = "grammar.bytes"
    GRAMMAR_DEPTH = "grammar.depth"
    RULES = "grammar.rules"
    RULE_CHAIN = "grammar.references"
    GRAMMAR_POSITIONS = "grammar.positions"
    GRAMMAR_OPTIONAL = "grammar.optional"
    GRAMMAR_REPETITION = "grammar.repetition"
    OPTIONS = "choice.options"
    CHOICE_BYTES = "choice.bytes"


Measures: TypeAlias = defaultdict[Measure, int]
"""What was measured; 0 for what does not occur."""

DESCRIPTIONS: Final[dict[Measure, tuple[str, str]]] = {
    Measure.SCHEMA_BYTES: ("the bytes of the schema", "make it shorter, or leave descriptions and examples out"),
    Measure.SCHEMA_DEPTH: ("the nesting of its arrays and objects", "nest less"),
    Measure.SUBSCHEMAS: ("the number of its arrays and objects", "ask for fewer properties or alternatives at once"),
    Measure.REFERENCES: ("the longest chain of references", "refer to the last schema of the chain directly"),
    Measure.ALTERNATIVES: ("the number of combinations of its alternatives", "use fewer anyOf and oneOf inside allOf"),
    Measure.UNEVALUATED: (
        "how often its subschemas are applied to find what is unevaluated",
        "use additionalProperties and items, or nest fewer schemas in those with unevaluatedProperties",
    ),
    Measure.ENUM: ("the number of values in its enums", "list fewer values"),
    Measure.CONST_BYTES: ("the characters of its enum and const values", "list fewer or shorter values"),
    Measure.REPETITION: ("the product of nested limits on lengths and counts", "use smaller limits, or none"),
    Measure.DIVISOR: ("the product of its multipleOf numbers", "use a smaller number"),
    Measure.OPEN_NAMES: (
        "the characters of property names where others are allowed as well",
        "set additionalProperties to false",
    ),
    Measure.REGEX_BYTES: ("the bytes of its regular expressions", "make them shorter"),
    Measure.REGEX_DEPTH: ("the nesting of groups in a regular expression", "nest less"),
    Measure.POSITIONS: ("the size of its regular expressions with repetitions written out", "repeat less often"),
    Measure.OPTIONAL: ("the number of optional parts with repetitions written out", "use fewer optional parts"),
    Measure.GRAMMAR_BYTES: ("the bytes of the grammar", "make it shorter"),
    Measure.GRAMMAR_DEPTH: ("the nesting of groups in the grammar", "nest less, or make rules of inner groups"),
    Measure.RULES: ("the number of rules", "use fewer rules"),
    Measure.RULE_CHAIN: ("the longest chain of rules that lead to one another", "refer to the last rule directly"),
    Measure.GRAMMAR_POSITIONS: ("the size of the grammar with repetitions written out", "repeat less often"),
    Measure.GRAMMAR_OPTIONAL: ("the number of optional parts with repetitions written out", "use fewer optional parts"),
    Measure.GRAMMAR_REPETITION: ("the product of nested repetitions", "repeat less often"),
    Measure.OPTIONS: ("the number of options", "offer fewer options"),
    Measure.CHOICE_BYTES: ("the bytes of the options", "offer fewer or shorter options"),
}
"""For each measure what it counts, and what to do about too much of it."""


def text_bytes(text: str) -> int:
    """Bytes of a text in UTF-8, lone surrogates included."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
