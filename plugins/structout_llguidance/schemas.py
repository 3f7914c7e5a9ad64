"""A JSON Schema as llguidance has to get it, so that it means to llguidance what it means in its dialect."""

from typing import Any, Final

from structout.schema import Node, Schema
from structout.schema.keywords import KEYWORDS, Role, known_dialect
from structout.spec import FormatMode, JsonSchema, Policy, Whitespace
from structout_llguidance.examination import Examination
from structout_llguidance.formats import GUARDS
from structout_llguidance.patterns import to_rust
from structout_llguidance.rules import BOUNDS, FLOAT_DIGITS, is_large, leaves_names_open

_VALIDATING: Final = frozenset(
    word.name
    for words in KEYWORDS.values()
    for word in words.values()
    if word.role in (Role.APPLICATOR, Role.ASSERTION)
)

_SHORT_ESCAPES: Final = 'nrbtf\\"'


def prepared(spec: JsonSchema, examination: Examination) -> Schema:
    """The examined schema, changed in place; True becomes the empty schema, which can carry options."""
    nodes = examination.nodes
    schema = {} if examination.schema is True else examination.schema
    for node in nodes:
        if isinstance(node.schema, dict):
            _prepare(node, node.schema, spec.format_mode)
    if isinstance(schema, dict):
        if known_dialect(schema.get("$schema")) is None:
            schema["$schema"] = spec.dialect
        schema["x-guidance"] = _options(spec, open_names=any(map(leaves_names_open, nodes)))
    return schema


def _prepare(node: Node, schema: dict[str, Any], format_mode: FormatMode) -> None:
    for name in schema.keys() & _VALIDATING - node.keywords.keys():
        del schema[name]  # means nothing in the dialect, or beside a $ref, but would to llguidance
    if schema.get("uniqueItems") is False:
        del schema["uniqueItems"]  # restricts nothing, but llguidance refuses the mere word
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = to_rust(schema["pattern"])
    if isinstance(schema.get("patternProperties"), dict):
        schema["patternProperties"] = {to_rust(key): value for key, value in schema["patternProperties"].items()}
    for bound in BOUNDS:
        if is_large(schema.get(bound)):
            schema[bound] = _rounded_inward(schema[bound], upper="max" in bound.lower())
    if "format" in schema:
        _prepare_format(schema, format_mode)


def _prepare_format(schema: dict[str, Any], format_mode: FormatMode) -> None:
    name, conjuncts = schema["format"], schema.get("allOf", [])
    if format_mode is FormatMode.ANNOTATE:
        del schema["format"]
    elif isinstance(name, str) and name in GUARDS and isinstance(conjuncts, list):
        schema["allOf"] = [*conjuncts, dict(GUARDS[name])]


def _rounded_inward(bound: int, *, upper: bool) -> int:
    """A bound with so few digits that llguidance is off by less than the distance."""
    unit: int = 10 ** (len(str(abs(bound))) - FLOAT_DIGITS)
    return (bound // unit - 1) * unit if upper else (-(-bound // unit) + 1) * unit


def _options(spec: JsonSchema, *, open_names: bool) -> dict[str, Any]:
    """All of llguidance's options: what the schema itself has under ``x-guidance`` must not count.

    Through a ``\\u`` escape a name that the schema leaves open could be another spelling of one that it mentions.
    """
    return _separators(spec.serialization.whitespace) | {
        "coerce_one_of": False,
        "lenient": spec.policy is Policy.BEST_EFFORT,
        "json_allowed_escapes": _SHORT_ESCAPES if open_names else _SHORT_ESCAPES + "u",
        "json_allow_general_unicode_escapes": False,
    }


def _separators(whitespace: Whitespace) -> dict[str, Any]:
    """White space between tokens; the separators are regular expressions."""
    space = " " if whitespace is Whitespace.SPACED else ""
    return {
        "item_separator": "," + space,
        "key_separator": ":" + space,
        "whitespace_flexible": whitespace is Whitespace.ANY,
        "whitespace_pattern": None,
    }
