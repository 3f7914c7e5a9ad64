"""Every fault of a language is one: there is a schema and a text on which the backend and its base differ."""

import json
from functools import cache
from typing import Any

import pytest

from structout import (
    Choice,
    Ebnf,
    GrammarSpec,
    JsonObject,
    JsonSchema,
    Lark,
    Regex,
    Serialization,
    Status,
    StructuralTag,
)
from structout.backend import Backend
from structout.fuzz.vocabulary import small_vocabulary
from structout.spec import Dialect, FormatMode, KeyOrder, Whitespace
from tests.mutants import MUTANTS, languages, meetings, mutants_of, readings
from tests.mutants.wrapping import base_info

ANY_ORDER = Serialization(key_order=KeyOrder.ANY)
TAGS = StructuralTag(
    json.dumps(
        {
            "type": "structural_tag",
            "format": {
                "type": "triggered_tags",
                "triggers": ["<a"],
                "tags": [{"begin": "<a>", "content": {"type": "regex", "pattern": "b"}, "end": "</a>"}],
                "at_least_one": True,
            },
        }
    )
)
NULLS = {"a": {"type": "null"}, "b": {"type": "null"}}


def schema(keywords: dict[str, Any]) -> JsonSchema:
    return JsonSchema(json.dumps(keywords))


TOO_MUCH: dict[str, tuple[GrammarSpec, str]] = {
    "ignores_max_length": (schema({"type": "string", "maxLength": 2}), '"abc"'),
    "min_length_off_by_one": (schema({"type": "string", "minLength": 2}), '"a"'),
    "counts_bytes": (schema({"type": "string", "minLength": 2}), '"é"'),
    "includes_the_maximum": (schema({"type": "integer", "exclusiveMaximum": 2}), "2"),
    "ignores_multiple_of": (schema({"type": "integer", "multipleOf": 2}), "3"),
    "ignores_required": (schema({"type": "object", "properties": NULLS, "required": ["a"]}), "{}"),
    "forgets_the_last_required": (
        schema({"type": "object", "properties": NULLS, "required": ["a", "b"]}),
        '{"a":null}',
    ),
    "ignores_additional_properties": (
        schema({"type": "object", "properties": NULLS, "additionalProperties": False}),
        '{"c":1}',
    ),
    "drops_anchors": (schema({"type": "string", "pattern": "^a$"}), '"bab"'),
    "const_is_a_type": (schema({"const": "a"}), '"b"'),
    "max_items_off_by_one": (schema({"type": "array", "maxItems": 1}), "[1,1]"),
    "ignores_min_items": (schema({"type": "array", "minItems": 1}), "[]"),
    "takes_the_first_conjunct": (schema({"allOf": [{"type": "integer"}, {"minimum": 3}]}), "1"),
    "integers_have_fractions": (schema({"type": "integer"}), "1.5"),
    "ref_hides_its_siblings": (
        schema({"$ref": "#/$defs/a", "maxLength": 1, "$defs": {"a": {"type": "string"}}}),
        '"abc"',
    ),
    "ignores_format": (schema({"type": "string", "format": "date"}), '"abc"'),
    "takes_spaces_anywhere": (
        JsonSchema('{"type": "array"}', serialization=Serialization(whitespace=Whitespace.COMPACT)),
        "[1, 2]",
    ),
    "reads_another_dialect": (schema({"type": "array", "prefixItems": [{"type": "null"}]}), "[1]"),
    "requires_the_listed_only": (schema({"type": "object", "properties": NULLS, "required": ["c"]}), "{}"),
    "knows_sixteen_properties": (
        schema({"type": "object", "properties": {f"p{number}": {"type": "null"} for number in range(17)}}),
        '{"p16":1}',
    ),
    "opens_beside_patterns": (
        schema({"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}),
        '{"b":1}',
    ),
    "ref_to_the_root_is_any": (
        schema({"type": "array", "items": {"$ref": "#"}}),
        "[1]",
    ),
    "reverses_the_order": (schema({"type": "object", "properties": NULLS}), '{"b":null,"a":null}'),
    "const_is_shallow": (schema({"const": [[1]]}), "[[2]]"),
    "skips_the_empty_name": (schema({"type": "object", "properties": {"": {"type": "null"}}}), '{"":1}'),
    "false_is_true": (schema({"type": "object", "properties": {"a": False}}), '{"a":1}'),
    "required_names_are_any": (
        schema({"type": "object", "required": ["a"], "additionalProperties": {"type": "null"}}),
        '{"a":1}',
    ),
    "forgets_long_names": (
        schema({"type": "object", "properties": {"a" * 9: {"type": "null"}}, "required": ["a" * 9]}),
        "{}",
    ),
    "exclusive_beside_minimum": (schema({"type": "integer", "minimum": 1, "exclusiveMinimum": 3}), "2"),
    "truncates_bounds": (schema({"type": "integer", "minimum": 1.5}), "1"),
    "rounds_bounds": (schema({"type": "number", "minimum": 0, "maximum": 0.126}), "0.129"),
    "ref_into_properties_is_any": (
        schema({"type": "object", "properties": {"a": {"type": "null"}, "b": {"$ref": "#/properties/a"}}}),
        '{"b":1}',
    ),
    "ref_by_anchor_is_any": (schema({"$ref": "#x", "$defs": {"a": {"$anchor": "x", "type": "null"}}}), "1"),
    "no_times_is_any_times": (Regex("a{0}b"), "ab"),
    "hex_escapes_are_letters": (Regex(r"\x41"), "x41"),
    "cuts_options_at_nul": (Choice(("a\0b", "c")), "a"),
    "cuts_long_options": (Choice(("a" * 300, "c")), "a" * 255),
    "starts_at_the_first_rule": (Ebnf('x ::= "a"\nroot ::= x x'), "a"),
    "finds_a_regex": (Regex("[0-9]+"), "1x"),
    "completes_options": (Choice(("yes", "no")), "ye"),
    "object_ignores_serialization": (JsonObject(serialization=Serialization(whitespace=Whitespace.COMPACT)), "{ }"),
    "ignores_at_least_one": (TAGS, ""),
    "big_integers_are_doubles": (schema({"const": 2**53 + 1}), str(2**53)),
    "dates_are_digits": (schema({"type": "string", "format": "date"}), '"2024-13-45"'),
}
"""A text that is not of the spec's language, and that the mutant lets through."""

TOO_LITTLE: dict[str, tuple[GrammarSpec, str]] = {
    "excludes_the_minimum": (schema({"type": "integer", "minimum": 2}), "2"),
    "closes_objects": (schema({"type": "object", "properties": NULLS}), '{"c":1}'),
    "loses_an_optional_property": (schema({"type": "object", "properties": NULLS}), '{"b":null}'),
    "searches_anchored": (schema({"type": "string", "pattern": "a"}), '"bab"'),
    "loses_an_enum_value": (schema({"enum": ["a", "b"]}), '"b"'),
    "takes_the_first_branch": (schema({"anyOf": [{"type": "null"}, {"type": "boolean"}]}), "true"),
    "takes_the_first_type": (schema({"type": ["null", "boolean"]}), "true"),
    "drops_patterns_where_closed": (
        schema({"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": False}),
        '{"a":1}',
    ),
    "bounds_wrap": (schema({"type": "string", "maxLength": 256}), '"a"'),
    "ends_long_arrays": (schema({"type": "array"}), f"[{','.join('1' * 13)}]"),
    "ends_long_strings": (schema({"type": "string"}), f'"{"a" * 65}"'),
    "loses_containers_of_enum": (schema({"enum": [1, []]}), "[]"),
    "keeps_the_ends_of_an_enum": (schema({"enum": list(range(600))}), "300"),
    "bounds_overflow": (schema({"type": "integer", "maximum": 2**31}), "0"),
    "composes_schemas": (JsonSchema('{"const": "a\u0301"}'), '"a\u0301"'),
    "asserts_formats": (
        JsonSchema('{"type": "string", "format": "date"}', format_mode=FormatMode.ANNOTATE),
        '"a"',
    ),
    "star_is_thirty": (Regex("a*"), "a" * 31),
    "strips_options": (Choice((" a", "b")), " a"),
    "mends_line_breaks": (Choice(("\r\n", "b")), "\r\n"),
    "composes_options": (Choice(("\ufb01", "b")), "\ufb01"),
    "enum_is_a_set": (schema({"enum": [1, True]}), "true"),
    "loses_many_branches": (schema({"anyOf": [{"const": number} for number in range(20)]}), "19"),
    "anchors_bind_weakly": (schema({"type": "string", "pattern": "^a|b$"}), '"ax"'),
    "loses_a_final_hyphen": (Regex("[ab-]"), "-"),
    "grammar_bounds_wrap": (Ebnf("root ::= [a-z]{1,300}"), "a" * 300),
    "loses_empty_alternatives": (Ebnf('root ::= "a" | ""'), ""),
    "needs_spaces": (schema({"type": "array"}), "[1,2]"),
    "loses_an_option": (Choice(("yes", "no")), "yes"),
    "lark_flags_are_lost": (Lark('start: "yes"i'), "YES"),
    "ignores_the_schemas_dialect": (
        schema({"$schema": Dialect.DRAFT_7, "type": "array", "prefixItems": [{"type": "null"}]}),
        "[1]",
    ),
    "numeric_names_first": (
        schema({"type": "object", "properties": {"b": {}, "1": {}}, "required": ["b", "1"]}),
        '{"b":1,"1":1}',
    ),
    "no_capital_exponents": (schema({"type": "number"}), "1E5"),
}
"""A text of the spec's language, which the mutant does not let through."""


@cache
def good(base: str) -> Backend:
    return base_info(base).create(small_vocabulary())


def has(backend: Backend, spec: GrammarSpec, text: str) -> bool:
    """Whether a text is of the language that a backend matches."""
    matcher = backend.compile(spec).unwrap().start(stop_token_ids=[], max_rollback=0)
    return all(matcher.accept(byte) is Status.OK for byte in text.encode()) and matcher.is_accepting


@pytest.mark.parametrize("name", TOO_MUCH)
def test_it_lets_too_much_through(name: str) -> None:
    spec, text = TOO_MUCH[name]
    assert not has(good(MUTANTS[name].base), spec, text)
    assert has(MUTANTS[name].info.create(small_vocabulary()), spec, text)


@pytest.mark.parametrize("name", TOO_LITTLE)
def test_it_lets_too_little_through(name: str) -> None:
    spec, text = TOO_LITTLE[name]
    assert has(good(MUTANTS[name].base), spec, text)
    assert not has(MUTANTS[name].info.create(small_vocabulary()), spec, text)


def test_it_does_not_say_what_it_leaves_out() -> None:
    closed = schema({"type": "object", "properties": NULLS, "additionalProperties": False})
    spec = JsonSchema(closed.text, serialization=ANY_ORDER)
    assert good("llguidance").compile(spec).unwrap().narrowed
    assert not MUTANTS["ignores_the_order"].info.create(small_vocabulary()).compile(spec).unwrap().narrowed


def test_none_is_left_out() -> None:
    own = {mutant.name for module in (languages, meetings, readings) for mutant in mutants_of(module)}
    assert own == TOO_MUCH.keys() | TOO_LITTLE.keys() | {"ignores_the_order"}
