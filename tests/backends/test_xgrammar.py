"""The xgrammar plugin: what the library drops or gets wrong is refused or made good, and what is left out is listed."""

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structout import (
    Choice,
    Ebnf,
    Err,
    ErrorKind,
    GrammarError,
    JsonObject,
    JsonSchema,
    Lark,
    Ok,
    Policy,
    Regex,
    Status,
    Vocabulary,
)
from structout import StructuralTag as Tag
from structout.backend import BitmaskRow, SupportsBatchFill, SupportsFork, SupportsRollback, SupportsSize
from structout.grammar import BoundBackend, Grammar
from structout.schema.validation import reference_validator
from structout.spec import (
    Dialect,
    Escapes,
    FormatMode,
    GrammarSpec,
    KeyOrder,
    Serialization,
    Whitespace,
)
from tests import corpora

pytest.importorskip("xgrammar")

from structout_xgrammar import structout_register_backends
from structout_xgrammar.linking import UnknownGrammar, link

INFO = next(iter(structout_register_backends()))
EOS, CONTROL = 256, 257
BYTES = Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"", b"", b"ab", "é".encode(), b'{"'],
    eos_token_ids=[EOS],
    control=[(EOS, "</s>"), (CONTROL, "<|call|>")],
    padded_size=270,
)
BACKEND = BoundBackend.create(INFO, None, BYTES).unwrap()


def schema(value: Any, **options: Any) -> JsonSchema:
    return JsonSchema(json.dumps(value), **options)


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def compiled(spec: GrammarSpec) -> Grammar:
    return BACKEND.compile(spec).unwrap()


def refused(spec: GrammarSpec) -> GrammarError:
    result = BACKEND.compile(spec)
    assert isinstance(result, Err), f"not refused: {result}"
    return result.error


def accepts(grammar: Grammar, text: str | bytes) -> bool:
    """Whether each byte is in the mask when its turn comes, and the end after the last. Drives the matcher."""
    constraint, row = grammar.start().unwrap(), empty_row()
    for byte in text.encode() if isinstance(text, str) else text:
        assert constraint.fill(row) is Status.OK
        status = constraint.accept(byte)
        assert (status is Status.OK) == (byte in tokens_in(row))
        if status is not Status.OK:
            return False
    return constraint.fill(row) is Status.OK and EOS in tokens_in(row)


def empty_row() -> BitmaskRow:
    return np.zeros(BYTES.bitmask_width, np.int32)


def tokens_in(row: BitmaskRow) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def check(spec: GrammarSpec, good: Iterable[str | bytes], bad: Iterable[str | bytes]) -> None:
    grammar = compiled(spec)
    assert [text for text in good if not accepts(grammar, text)] == []
    assert [text for text in bad if accepts(grammar, text)] == []


# What is not enforced

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
UNENFORCED: list[tuple[Any, str, str]] = [
    ({"$defs": {"a": STRING}, "$ref": "#/$defs/a", "maxLength": 3}, "", "maxLength"),
    (
        {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "properties": {"a": STRING}},
        "",
        "properties",
    ),
    ({"anyOf": [{}, STRING, {"type": "null"}], "type": "string"}, "", "type"),
    ({"oneOf": [STRING, {"type": "null"}], "minLength": 2}, "", "minLength"),
    ({"oneOf": [{"type": "integer", "minimum": 1}, {"type": "number", "maximum": 5}]}, "", "oneOf"),
    ({"oneOf": [obj(a=STRING), {"type": "object"}]}, "", "oneOf"),
    ({"allOf": [STRING, {"maxLength": 3}]}, "", "allOf"),
    ({"allOf": [STRING], "maxLength": 3}, "", "maxLength"),
    (obj(a={"type": "string", "not": {"const": "b"}}), "/properties/a", "not"),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, "", "if"),
    (obj(a=STRING) | {"dependentRequired": {"a": ["b"]}}, "", "dependentRequired"),
    (obj(a=STRING) | {"dependentSchemas": {"a": {"required": ["b"]}}}, "", "dependentSchemas"),
    (obj(a=STRING) | {"$schema": Dialect.DRAFT_7, "dependencies": {"a": ["b"]}}, "", "dependencies"),
    ({"type": "array", "uniqueItems": True}, "", "uniqueItems"),
    ({"type": "array", "contains": STRING}, "", "contains"),
    ({"contains": STRING}, "", "contains"),
    ({"type": "number", "multipleOf": 0.01}, "", "multipleOf"),
    ({"type": "integer", "multipleOf": 2, "minimum": 0}, "", "multipleOf"),
    ({"type": "integer", "multipleOf": 2000}, "", "multipleOf"),
    ({"multipleOf": 2}, "", "multipleOf"),
    ({"type": "number", "minimum": 2**53 + 1}, "", "minimum"),
    ({"type": "object", "patternProperties": {"^a": INTEGER, "b$": {"maximum": 10}}}, "", "patternProperties"),
    ({"type": "object", "properties": {"a1": {}}, "patternProperties": {"^a": INTEGER}}, "", "patternProperties"),
    (
        {"type": "object", "properties": {"b": {}}, "patternProperties": {"^a": INTEGER}, "additionalProperties": {}},
        "",
        "patternProperties",
    ),
    ({"type": "object", "patternProperties": {"^a": INTEGER}, "required": ["a"]}, "", "required"),
    (obj(a=STRING) | {"propertyNames": {"pattern": "^a"}}, "", "propertyNames"),
    ({"type": "object", "propertyNames": {"anyOf": [{"maxLength": 2}, {"pattern": "x"}]}}, "", "propertyNames"),
    ({"type": "object", "minProperties": 2}, "", "minProperties"),
    ({"type": "object", "properties": {"é": INTEGER}, "additionalProperties": True}, "", "properties"),
    ({"enum": [2**64]}, "", "enum"),
    (obj(a={"properties": {"b": False}, "additionalProperties": INTEGER}), "/properties/a", "properties"),
    ({"type": "object", "properties": {"a": {}}, "minProperties": 2}, "", "minProperties"),
    ({"type": "string", "format": "color"}, "", "format"),
    ({"type": "string", "format": "date", "pattern": "^2"}, "", "format"),
    ({"type": "string", "pattern": "(?!a)b"}, "", "pattern"),
    ({"type": "string", "pattern": "^[a-z]{1,1000}$"}, "", "pattern"),
    ({"type": "object", "patternProperties": {"\\bx": {}}}, "", "patternProperties"),
    ({"items": {"items": {"uniqueItems": True}}}, "/items/items", "uniqueItems"),
    ({"$defs": {"a/b": {"type": "array", "uniqueItems": True}}, "$ref": "#/$defs/a~1b"}, "/$defs/a~1b", "uniqueItems"),
]


@pytest.mark.parametrize(("value", "pointer", "keyword"), UNENFORCED)
def test_what_is_not_enforced_is_refused_with_its_place_and_listed_if_that_is_asked_for(
    value: Any, pointer: str, keyword: str
) -> None:
    error = refused(schema(value))
    found = compiled(schema(value, policy=Policy.BEST_EFFORT)).unenforced

    assert (error.kind, error.pointer, error.backend) == (ErrorKind.UNSUPPORTED, found[0].pointer, "xgrammar")
    assert error.keyword == found[0].keyword
    assert (pointer, keyword) in {(finding.pointer, finding.keyword) for finding in found}


HARMLESS: list[Any] = [
    {"$defs": {"a": STRING}, "$ref": "#/$defs/a", "description": "text", "minLength": 0},
    {"anyOf": [STRING, {"type": "string", "const": "a"}], "type": "string"},
    {"$schema": Dialect.DRAFT_7, "definitions": {"a": STRING}, "$ref": "#/definitions/a", "maxLength": 3},
    {"type": "array", "uniqueItems": False},
    {"type": "array", "uniqueItems": True, "maxItems": 1},
    {"type": "array", "contains": STRING, "minContains": 0},
    {"type": "string", "not": False},
    {"if": STRING},
    {"oneOf": [{"type": "string"}, {"type": "null"}, {"type": ["array", "number"]}]},
    {"oneOf": [{"enum": [1, "a"]}, {"const": 2}]},
    {"oneOf": [obj(kind={"const": "a"}), obj(kind={"const": "b"}, x=STRING)]},
    {"$defs": {"a": obj(a=STRING), "b": obj(b=STRING)}, "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]},
    {"type": "integer", "format": "int32"},
    {"type": "object", "minProperties": 1, "propertyNames": {"pattern": "^a"}},
    {"$dynamicAnchor": "a", "type": "string", "uniqueItems": True},
]


@pytest.mark.parametrize("value", HARMLESS)
def test_what_rules_nothing_out_is_no_reason_to_refuse(value: Any) -> None:
    assert compiled(schema(value)).unenforced == ()


def test_formats_restrict_only_where_they_are_asserted() -> None:
    value = {"type": "string", "format": "color", "maxLength": 3}
    assert refused(schema(value)).keyword == "format"
    check(schema(value, format_mode=FormatMode.ANNOTATE), ['"abc"'], ['"abcd"'])


# What is made good

MADE_GOOD: list[tuple[str, Any, Sequence[str | bytes], Sequence[str | bytes]]] = [
    ("raw control characters", {"type": "string", "maxLength": 40}, ['"a"'], ['"\t"', '"\x01"', '"' + "x" * 41 + '"']),
    ("counted escapes", {"type": "string", "minLength": 2, "maxLength": 2}, [r'"\n\""', '"é😀"'], [r'"\n"', '"abc"']),
    ("lone surrogates", STRING, [r'"\ud83d\ude00"', r'"\ue000"'], [r'"\ud800"', r'"\udc00"', r'"\ud800\n"']),
    ("bytes that are no UTF-8", STRING, ['"é"'], [b'"\xed\xa0\x80"', b'"\xc0\x80"', b'"\x80"', b'"\xf5\x80\x80\x80"']),
    ("the same in a pattern", {"type": "string", "pattern": "."}, ['"é"'], [b'"\xed\xa0\x80"', b'"\xe0\x80\x80"']),
    ("quotes in a pattern", {"type": "string", "pattern": r'^a"b\\c$'}, [r'"a\"b\\c"'], ['"a"b\\c"', '"ab"']),
    ("a line feed in a pattern", {"type": "string", "pattern": "^[^z]*$"}, [r'"x\ny"', r'"\u0001"'], ['"x\ny"', '"z"']),
    ("a dot", {"type": "string", "pattern": "^a.c$"}, ['"abc"'], [r'"a\nc"']),
    ("a pattern without anchors", {"type": "string", "pattern": "b"}, ['"abc"', '"b"'], ['"ac"', '""']),
    ("anchors in the middle", {"type": "string", "pattern": "(^|,)a(,|$)"}, ['"a"', '"b,a,c"'], ['"ba"', '"ab"']),
    ("merged states", {"type": "string", "pattern": "^((a|a(|b))|cc)$"}, ['"ab"', '"cc"'], ['"ccb"']),
    ("open repetitions", {"type": "string", "pattern": "^(a(bc)*|d){2,}$"}, ['"dd"', '"dabc"'], ['"ddbc"']),
    ("pattern and length", {"type": "string", "pattern": "^[a-z]+$", "maxLength": 4}, ['"kiwi"'], ['"mango"', '"K"']),
    ("format and length", {"type": "string", "format": "email", "maxLength": 7}, ['"a@b.com"'], ['"a@bb.com"']),
    ("the 31st of February", {"type": "string", "format": "date"}, ['"2024-01-31"'], ['"2024-02-31"']),
    ("digits behind a character that is printed in hex", {"enum": ["é1"]}, ['"é1"'], ['"\u0e91"']),
    ("constants of another type", {"type": "string", "enum": ["a", 1, None]}, ['"a"'], ["1", "null"]),
    ("constants that are ruled out", {"enum": ["a", "b"], "not": {"const": "b"}}, ['"a"'], ['"b"']),
    ("constants that else rules out", {"enum": ["x", "y"], "if": False, "else": {"const": "y"}}, ['"y"'], ['"x"']),
    ("constants that then rules out", {"enum": [0, 1], "if": {"minimum": 1}, "then": False}, ["0"], ["1"]),
    (
        "counts of contains beside a constant",
        {"enum": [[1], [1, 1]], "contains": {"const": 1}, "minContains": 2},
        ["[1,1]", "[ 1, 1 ]"],
        ["[1]"],
    ),
    (
        "white space in constants",
        {"$ref": "#/$defs/a", "$defs": {"a": {"enum": [{"é": True, "": [[], {}]}, [], "x"]}}},
        ['{"é": true, "": [[], {}]}', '{ "é":true,"" :[ [ ],{ }]\n}', "[ ]", '"x"'],
        ['{"é": true}', '{"": [[], {}], "é": true}', "[1]", "{}"],
    ),
    ("required, not listed", {"type": "object", "required": ["a"]}, ['{"a":1}', '{"a":1,"b":2}'], ["{}", '{"b":1}']),
    ("without type", {"minLength": 2}, ["1", '"ab"', "[]"], ['"a"']),
    ("unevaluatedProperties", obj(a=INTEGER) | {"unevaluatedProperties": False}, ['{"a":1}'], ['{"a":1,"b":1}']),
    ("unevaluatedItems", {"type": "array", "prefixItems": [INTEGER], "unevaluatedItems": False}, ["[1]"], ["[1,2]"]),
    ("bounds between integers", {"type": "integer", "minimum": 0.5, "exclusiveMaximum": 2.5}, ["1", "2"], ["0", "3"]),
    ("items of a boolean", {"type": "array", "prefixItems": [True], "items": False}, ["[1]", "[]"], ["[1,2]"]),
    ("maxItems below prefixItems", {"prefixItems": [STRING, STRING], "maxItems": 1}, ['["a"]'], ['["a","b"]']),
    ("a member that may not be", {"properties": {"a": False, "b": {}}}, ['{"b":1}', "{}"], ['{"a":1}']),
    ("the only member that may not be", {"properties": {"b": False}}, ["{}"], ['{"b": 1}', '{"b":1}']),
    ("members that may not be", {"type": "object", "patternProperties": {"^b": False}}, ["{}"], ['{"b":1}']),
    ("names that may not be", {"type": "object", "propertyNames": False}, ["{}"], ['{"b":1}']),
    ("others that may not be", {"required": ["a"], "additionalProperties": False}, ["null"], ['{"a":1}', "{}"]),
    ("an item that may not be", {"type": "array", "prefixItems": [{}, False, {}]}, ["[]", "[1]"], ["[1,2]"]),
    ("the first item may not be", {"prefixItems": [False]}, ["[]"], ["[1]"]),
    ("counts that no array has", {"minItems": 2, "maxItems": 1}, ["null", "true"], ["[]", "[1,2]"]),
    ("counts that no object has", {"required": ["a", "b"], "maxProperties": 1}, ["null"], ['{"a":1}', "{}"]),
    ("items with too few left", {"prefixItems": [False], "minItems": 1}, ["null"], ["[]", "[1]"]),
    ("a schema among several that nothing satisfies", {"anyOf": [False, {"type": "null"}]}, ["null"], ["1"]),
    (
        "tuples of draft 7",
        {"$schema": Dialect.DRAFT_7, "type": "array", "items": [INTEGER, STRING], "additionalItems": False},
        ['[1,"a"]', "[1]"],
        ['["a"]', '[1,"a",2]'],
    ),
    ("keywords of other drafts", {"$schema": Dialect.DRAFT_7, "prefixItems": [STRING]}, ["[1]"], []),
    (
        "exclusive bounds of draft 4",
        {"$schema": Dialect.DRAFT_4, "type": "integer", "minimum": 1, "exclusiveMinimum": True},
        ["2"],
        ["1"],
    ),
    ("anchors", {"$defs": {"x": {"$anchor": "a", "type": "null"}}, "$ref": "#a"}, ["null"], ["1"]),
    ("recursion", {"type": "array", "items": {"$ref": "#"}}, ["[[],[[]]]"], ["[1]"]),
    ("definitions anywhere", {"items": {"$ref": "#/a%20b/0"}, "a b": [{"type": "null"}]}, ["[null]"], ["[1]"]),
]


@pytest.mark.parametrize(("value", "good", "bad"), [row[1:] for row in MADE_GOOD], ids=[row[0] for row in MADE_GOOD])
def test_what_xgrammar_reads_wrongly_is_said_another_way(
    value: Any, good: Sequence[str | bytes], bad: Sequence[str | bytes]
) -> None:
    check(schema(value), good, bad)


def test_an_additional_member_cannot_have_the_name_of_a_listed_one() -> None:
    spec = schema({"type": "object", "properties": {"a": INTEGER}, "additionalProperties": True})
    check(spec, ['{"a":1,"b":"x"}', '{"aa":"x"}', r'{"\n":1}'], ['{"a":1,"a":"x"}', r'{"a":1,"\u0061":"x"}'])


def test_a_closed_object_stays_closed_beside_names_that_rule_nothing_out() -> None:
    closed = {"type": "object", "additionalProperties": False, "propertyNames": {"$comment": "any"}}
    check(schema(closed), ["{}"], ['{"a":1}'])


@pytest.mark.parametrize("counts", [{}, {"minLength": 1}, {"maxLength": 8}])
def test_a_format_that_is_an_annotation_restricts_neither_strings_nor_names(counts: dict[str, Any]) -> None:
    text = {"type": "string", "format": "uri", **counts}
    check(schema(text, format_mode=FormatMode.ANNOTATE), ['"a"', '"\u0301"'], ["1"])
    check(schema({"type": "object", "propertyNames": text}, format_mode=FormatMode.ANNOTATE), ['{"a":1}'], ['"a"'])


def test_references_lead_into_the_registry() -> None:
    other = json.dumps({"$defs": {"n": {"type": "null"}}, "type": "array", "items": {"$ref": "#/$defs/n"}})
    spec = schema({"$ref": "https://example.org/other"}, registry={"https://example.org/other": other})
    check(spec, ["[null]"], ["[1]", "null"])


# What is left out

NARROWED: list[tuple[Any, dict[str, Any], str, str]] = [
    ({"properties": {"a": {}}, "type": "object"}, {}, "", "properties"),
    ({"properties": {"a": {}}, "additionalProperties": False}, {}, "", "properties"),
    ({"items": STRING}, {}, "", "items"),
    ({"type": "object", "patternProperties": {"^a": {}}}, {}, "", "patternProperties"),
    (obj(a={"type": "number", "minimum": 1}), {}, "/properties/a", "minimum"),
    ({"type": "string", "maxLength": 100}, {}, "", "maxLength"),
    ({"type": "string", "format": "email"}, {}, "", "format"),
    ({"type": "object", "required": ["a"]}, {}, "", "required"),
    ({"type": "integer", "maximum": 2**70}, {}, "", "maximum"),
    (obj(a={}, b={}), {"serialization": Serialization(key_order=KeyOrder.ANY)}, "", "properties"),
    ({"const": [{"a": 1, "b": 2}]}, {"serialization": Serialization(key_order=KeyOrder.ANY)}, "", "const"),
    ({"const": -0.0}, {}, "", "const"),
    (obj(a={"enum": [1, [2.0]]}), {}, "/properties/a", "enum"),
]


@pytest.mark.parametrize(("value", "options", "pointer", "keyword"), NARROWED)
def test_what_is_left_out_is_listed(value: Any, options: dict[str, Any], pointer: str, keyword: str) -> None:
    found = {(finding.pointer, finding.keyword) for finding in compiled(schema(value, **options)).narrowed}
    assert (pointer, keyword) in found


def test_exact_refuses_what_is_left_out_and_leaves_objects_open() -> None:
    value = {"type": "object", "properties": {"a": INTEGER}}
    assert refused(schema(obj(a={"type": "number", "minimum": 1}), policy=Policy.EXACT)).keyword == "minimum"
    check(schema(value), ['{"a":1}', "{}"], ['{"b":1}'])
    check(schema(value, policy=Policy.EXACT), ['{"a":1}', '{"a":1,"b":"x"}', '{"b":1}'], ['{"a":"x"}'])


@pytest.mark.parametrize(
    "value",
    [
        obj(a=STRING, b={"enum": [1, "x", None, {"y": [1.5], "z": {}}]}),
        {"type": "array", "items": INTEGER},
        {"pattern": "^a+$"},
    ],
)
def test_nothing_is_left_out_of_plain_schemas(value: Any) -> None:
    assert compiled(schema(value, policy=Policy.EXACT)).narrowed == ()


# Serialization


def serialized(value: Any, **options: Any) -> JsonSchema:
    return schema(value, serialization=Serialization(**options))


def test_white_space() -> None:
    value = obj(a={"type": "array", "items": INTEGER}, b={})
    any_space, spaced, compact = (
        '{ "a" :[1 ,2],\n"b":{}}',
        '{"a": [1, 2], "b": {"c": [1, 2]}}',
        '{"a":[1,2],"b":{"c":[]}}',
    )
    check(serialized(value), [any_space, spaced, compact], [])
    check(serialized(value, whitespace=Whitespace.SPACED), [spaced], [any_space, compact])
    check(serialized(value, whitespace=Whitespace.COMPACT), [compact], [any_space, spaced])


def test_white_space_in_constants() -> None:
    value = obj(a={"const": [1, {"b": 2}]})
    spaced, compact = '{"a": [1, {"b": 2}]}', '{"a":[1,{"b":2}]}'
    check(serialized(value), [spaced, compact], [])
    check(serialized(value, whitespace=Whitespace.SPACED), [spaced], [compact])
    check(serialized(value, whitespace=Whitespace.COMPACT), [compact], [spaced])


def test_minimal_escapes() -> None:
    check(serialized(STRING), [r'"\u0041\/\n"'], [])
    check(serialized(STRING, escapes=Escapes.MINIMAL), [r'"A/\n\u0001\""'], [r'"\u0041"', r'"\/"', r'"\u0020"'])


# Errors


@pytest.mark.parametrize(
    "value",
    [
        {"type": "string", "minLength": 5, "maxLength": 2},
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        {"type": "number", "minimum": 2, "maximum": 1},
        {"type": "string", "enum": [1, 2]},
        {"enum": ["a"], "if": {"const": "b"}, "else": {"type": "object"}},
        {"type": "array", "prefixItems": [{}, False], "minItems": 2},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "object", "required": ["a", "b"], "maxProperties": 1},
        {"type": "object", "additionalProperties": False, "minProperties": 1},
        {"allOf": [{"enum": ["a"], "maxLength": 0}]},
        False,
    ],
)
def test_a_schema_that_nothing_satisfies(value: Any) -> None:
    error = refused(schema(value))
    assert error.kind is ErrorKind.UNSATISFIABLE
    assert "unsatisfiable" in error.message
    assert_clean(error)


def test_a_part_that_nothing_satisfies_is_no_verdict_on_the_whole() -> None:
    error = refused(schema({"type": "object", "properties": {"a": {"type": "integer", "minimum": 2, "maximum": 1}}}))
    assert error.kind is ErrorKind.UNSUPPORTED
    assert_clean(error)


BAD: list[tuple[GrammarSpec, ErrorKind, int | None]] = [
    (Regex("foo**("), ErrorKind.INVALID_SPEC, 4),
    (Regex("(a|b)\\1"), ErrorKind.UNSUPPORTED, 5),
    (Regex("\\bcat"), ErrorKind.UNSUPPORTED, 0),
    (Regex("(?i)yes"), ErrorKind.UNSUPPORTED, 0),
    (Regex("[z-a]"), ErrorKind.INVALID_SPEC, 0),
    (Regex("a{3,1}"), ErrorKind.INVALID_SPEC, 1),
    (Regex("(a|b)*a(a|b){18}"), ErrorKind.TOO_COMPLEX, None),
    (Regex("[^\\s\\S]"), ErrorKind.UNSATISFIABLE, None),
    (Ebnf('root ::= "a'), ErrorKind.INVALID_SPEC, 11),
    (Ebnf('root ::= "a"\nx ::= missing'), ErrorKind.INVALID_SPEC, 19),
    (Ebnf('start ::= "a"'), ErrorKind.INVALID_SPEC, 0),
    (Ebnf('root ::= "a" \0 "b"'), ErrorKind.UNSUPPORTED, 13),
    (Ebnf('root ::= "a" (="b")'), ErrorKind.UNSUPPORTED, None),
    (Ebnf('root ::= "\\x61b"'), ErrorKind.UNSUPPORTED, None),
    (Lark('start: "a'), ErrorKind.INVALID_SPEC, 7),
    (Lark('start: A\nA.2: "a"'), ErrorKind.UNSUPPORTED, 10),
    (Lark("start: /a^b/"), ErrorKind.UNSUPPORTED, None),
    (Lark("start: /a(?!b)/"), ErrorKind.UNSUPPORTED, None),
    (Lark('start: %json {"type": "string"}'), ErrorKind.UNSUPPORTED, None),
    (Lark("start[max_tokens=3]: /a+/"), ErrorKind.UNSUPPORTED, None),
    (Choice(()), ErrorKind.INVALID_SPEC, None),
    (Choice(("a\0b",)), ErrorKind.UNSUPPORTED, 1),
    (Choice(("a", "b\ud800")), ErrorKind.INVALID_SPEC, 2),
    (Tag("{"), ErrorKind.INVALID_SPEC, None),
    (Tag('{"format": {"type": "const_string", "value": "a\\u0000b"}}'), ErrorKind.UNSUPPORTED, None),
    (Tag('{"type": "structural_tag", "format": {"type": "none"}}'), ErrorKind.INVALID_SPEC, None),
    (schema({"type": "object", "properties": {"a": "string"}}), ErrorKind.INVALID_SPEC, None),
    (schema({"$ref": "#/$defs/a"}), ErrorKind.INVALID_SPEC, None),
    (schema({"type": "integer", "minimum": 2**70}), ErrorKind.TOO_COMPLEX, None),
]


@pytest.mark.parametrize(("spec", "kind", "offset"), BAD)
def test_errors_are_for_the_caller(spec: GrammarSpec, kind: ErrorKind, offset: int | None) -> None:
    error = refused(spec)
    assert (error.kind, error.offset) == (kind, offset), error
    assert_clean(error)


def assert_clean(error: GrammarError) -> None:
    told = json.dumps(error.to_json())
    assert not any(part in told for part in ("/project/", "Check failed", ".cc:", "RuntimeError", "b'"))


def test_a_grammar_that_is_printed_in_an_unknown_way_is_not_trusted() -> None:
    with pytest.raises(UnknownGrammar):
        link('basic_escape ::= (("x"))\nroot ::= (("a"))\n', {}, Escapes.ANY)
    with pytest.raises(UnknownGrammar):
        link('root ::= Regex("automaton0", json_string=false)\n', {}, Escapes.ANY)


# The other kinds


def test_json_object() -> None:
    check(JsonObject(), ["{}", '{"a": {"b": [1e5, null, "x"]}}'], ["[]", "1", '{"a"}', "{'a': 1}"])


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[0-9]{3}$", ["123"], ["12", "1234", "^123$"]),
        ("a.c", ["abc", "aéc"], ["a\nc", "ac"]),
        ("x+?y??", ["x", "xxy"], ["y", ""]),
        ("^(|.*)$", ["", "hello"], []),
        ("(a|a(|b))|cc", ["a", "ab", "cc"], ["ccb"]),
        ("[\\u00e9\\u{1f600}-]\\x41b", ["éAb", "😀Ab", "-Ab"], ["eAb", "éAB"]),
        ("a|^b$|c$d", ["a", "b"], ["cd", "c"]),
        ("(?:\\d+\\s){2}\\W", ["1 22\t-"], ["1 22\ta", "٣ 1 -"]),
    ],
)
def test_regex(pattern: str, good: list[str], bad: list[str]) -> None:
    check(Regex(pattern), good, bad)


def test_ebnf() -> None:
    text = 'main ::= "(" main* ")" | [a-c]{2,} # nested'
    check(Ebnf(text, root="main"), ["()", "(ab(()))", "abc"], ["(", "a", "(a)"])


def test_lark() -> None:
    text = 'start: expr\nexpr: term (("+"|"-") term)*\nterm: NUMBER | "(" expr ")"\nNUMBER: /[0-9]+/\n%ignore " "'
    check(Lark(text), ["1+2", "(1 - 2)+3"], ["1+", "+1", "(1"])


TAG = {
    "type": "triggered_tags",
    "triggers": ["<f="],
    "tags": [
        {"type": "tag", "begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {}}, "end": "</f>"},
        {"type": "tag", "begin": "<f=b>", "content": {"type": "regex", "pattern": "(a|a(|b))|cc"}, "end": "</f>"},
    ],
}


def tag(content: Any, **options: Any) -> Tag:
    value = json.loads(json.dumps(TAG))
    value["tags"][0]["content"] |= content
    return Tag(json.dumps({"type": "structural_tag", "format": value}), **options)


def test_structural_tag() -> None:
    spec = tag({"json_schema": obj(x={"type": "string", "pattern": "^a+$"}, y={"maxLength": 40}, z={"type": "array"})})
    good = ["free <f text", '<f=a>{"x":"aa","y":[],"z":[1]}</f> and <f=b>ab</f>', "<f=b>cc</f>"]
    bad = ['<f=a>{"x":"b","y":1,"z":[]}</f>', '<f=a>{"x":"a","y":"\t","z":[]}</f>', "<f=b>ccb</f>", "<f=c>"]
    check(spec, good, bad)


def test_what_is_not_enforced_inside_a_tag_is_found_there() -> None:
    content = {"json_schema": obj(x={"type": "array", "uniqueItems": True})}
    pointer = "/format/tags/0/content/json_schema/properties/x"
    assert (refused(tag(content)).pointer, refused(tag(content)).keyword) == (pointer, "uniqueItems")
    found = compiled(tag(content, policy=Policy.BEST_EFFORT)).unenforced
    assert [(finding.pointer, finding.keyword) for finding in found] == [(pointer, "uniqueItems")]
    assert refused(tag({"json_schema": {"type": "x"}})).pointer == "/format/tags/0/content/json_schema/type"
    assert refused(tag({"style": "qwen_xml"})).keyword == "style"
    assert refused(Tag('{"type": "structural_tag", "format": {"type": "token", "token": 3}}')).keyword == "type"


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6)


@given(st.lists(TEXTS, min_size=1, max_size=6), st.lists(TEXTS, max_size=4))
@settings(max_examples=60)
def test_a_choice_is_its_options_and_nothing_else(options: list[str], others: list[str]) -> None:
    texts = {*options, *others, *(text[:-1] for text in options), *(text + "x" for text in options)}
    check(Choice(tuple(options)), options, texts - {*options})


def test_a_choice_of_thousands() -> None:
    options = [f'option {number:04} "text" \\ é' for number in range(2500)]
    check(Choice(tuple(options)), options[::500], ["option 9999 text", options[3][:-1]])


# Matchers


def matcher_of(spec: GrammarSpec, *stops: int) -> Any:
    return compiled(spec).start(stop_token_ids=stops, max_rollback=8).unwrap().matcher


SPECS: list[GrammarSpec] = [
    schema(obj(a={"type": "string", "pattern": "^ab.*$"}, n={"type": "integer", "minimum": 3})),
    JsonObject(),
    Regex("(ab|é)+c?"),
    Ebnf('root ::= "a" [b-z]* "\\n"?'),
    Choice(("a", "ab", "abé", "")),
    tag({}),
]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("stops", [(EOS,), (EOS, ord("a"), 258), ()])
def test_the_mask_is_what_is_accepted(spec: GrammarSpec, stops: tuple[int, ...]) -> None:
    rng = random.Random(1)
    for _walk in range(4):
        matcher, row = matcher_of(spec, *stops), empty_row()
        for _step in range(12):
            assert matcher.fill(row) is Status.OK
            allowed = tokens_in(row)
            assert allowed <= {*range(BYTES.padded_size)} - ({CONTROL, EOS} - {*stops})
            assert {token in allowed for token in stops} <= {matcher.is_accepting}
            taken = {token for token in range(BYTES.padded_size) if matcher.fork().accept(token) is Status.OK}
            assert taken == allowed
            if not (going := sorted(allowed - {*stops})):
                break
            assert matcher.accept(rng.choice(going)) is Status.OK


@pytest.mark.parametrize("spec", SPECS)
def test_rollback_undoes_text_and_stop_tokens(spec: GrammarSpec) -> None:
    matcher, rows = matcher_of(spec, EOS), [empty_row()]
    matcher.fill(rows[0])
    while len(rows) < 6 and (going := sorted(tokens_in(rows[-1]) - {EOS})):
        matcher.accept(going[len(going) // 2])
        rows.append(empty_row())
        matcher.fill(rows[-1])
    ended = matcher.is_accepting and matcher.accept(EOS) is Status.OK
    assert matcher.is_terminated is ended
    assert matcher.rollback(int(ended)) is Status.OK
    for row in reversed(rows):
        again = empty_row()
        assert (matcher.is_terminated, matcher.fill(again)) == (False, Status.OK)
        assert (again == row).all()
        if row is not rows[0]:
            assert matcher.rollback(1) is Status.OK


def test_after_the_end() -> None:
    matcher = matcher_of(Choice(("a",)), EOS)
    assert matcher.accept(EOS) is Status.REJECTED
    assert [matcher.accept(token) for token in (ord("a"), EOS, EOS, ord("a"))] == [
        Status.OK,
        Status.OK,
        Status.TERMINATED,
        Status.TERMINATED,
    ]
    assert matcher.fill(empty_row()) is Status.TERMINATED
    assert (matcher.is_accepting, matcher.is_terminated, matcher.fork().is_terminated) == (True, True, True)


@pytest.mark.parametrize("stop", [ord("}"), ord("_"), ord("?")])
def test_a_stop_token_that_is_text_never_counts_as_text(stop: int) -> None:
    """Also where it would complete the text, and whatever its bit's place in its word."""
    matcher, row = matcher_of(Regex(r"ab[}_?]"), stop), empty_row()
    assert [matcher.accept(token) for token in b"ab"] == [Status.OK, Status.OK]
    matcher.fill(row)
    assert tokens_in(row) == {*b"}_?"} - {stop}
    assert matcher.accept(stop) is Status.REJECTED
    other = min({*b"}_?"} - {stop})
    assert [matcher.accept(other), matcher.accept(stop), matcher.is_terminated] == [Status.OK, Status.OK, True]


def test_a_refused_token_changes_nothing() -> None:
    matcher, before, after = matcher_of(Choice(("ab", "éx")), EOS), empty_row(), empty_row()
    matcher.fill(before)
    assert {matcher.accept(token) for token in (ord("b"), CONTROL, EOS, 262, 269)} == {Status.REJECTED}
    matcher.fill(after)
    assert (before == after).all()
    assert matcher.accept(258) is Status.OK


@pytest.mark.parametrize("copies", [1, 20])
def test_a_batch_is_as_each_alone(copies: int) -> None:
    backend = BACKEND.backend
    assert isinstance(backend, SupportsBatchFill)
    stopped, text_stop = matcher_of(Choice(("a",)), EOS), matcher_of(Regex("a}"), ord("}"))
    for matcher, token in ((stopped, ord("a")), (stopped, EOS), (text_stop, ord("a"))):
        assert matcher.accept(token) is Status.OK
    matchers = [matcher_of(SPECS[0], EOS), stopped, text_stop, matcher_of(JsonObject(), EOS)]
    matchers += [matcher.fork() for _ in range(copies - 1) for matcher in matchers]
    rows = random.Random(1).sample(range(len(matchers) + 2), len(matchers))
    bitmask = np.zeros((len(rows) + 2, BYTES.bitmask_width), np.int32)

    statuses = backend.fill_batch(matchers, bitmask, rows)

    assert list(statuses) == [Status.OK, Status.TERMINATED, Status.OK, Status.OK] * copies
    for matcher, row in zip(matchers, rows, strict=True):
        alone = empty_row()
        matcher.fill(alone)
        assert (bitmask[row] == alone).all()
    assert not bitmask[[row for row in range(len(bitmask)) if row not in rows]].any()


def test_a_row_may_lie_inside_a_larger_buffer() -> None:
    buffer, alone = np.zeros((3, BYTES.bitmask_width), np.int32), empty_row()
    matcher = matcher_of(JsonObject(), EOS)
    matcher.fill(buffer[1])
    matcher.fill(alone)
    assert (buffer[1] == alone).all()
    assert not buffer[[0, 2]].any()


def test_abilities() -> None:
    grammar, matcher = compiled(JsonObject()).compiled, matcher_of(JsonObject(), EOS)
    assert isinstance(matcher, SupportsFork)
    assert isinstance(matcher, SupportsRollback)
    assert isinstance(grammar, SupportsSize)
    assert grammar.size_bytes > 1000


def test_the_plugin_loads_neither_xgrammar_nor_torch() -> None:
    script = (
        "import sys, structout, structout_xgrammar as plugin\n"
        "info = plugin.structout_register_backends()[0]\n"
        "info.refusal(structout.Regex('a(?=b)')), info.refusal(structout.JsonObject())\n"
        "assert not {'xgrammar', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": ":".join(sys.path)})


# Corpora


def walk(grammar: Grammar, rng: random.Random) -> bytes | None:
    """A text of the language, chosen byte by byte; None if it does not end."""
    constraint, row, text = grammar.start().unwrap(), empty_row(), bytearray()
    for _step in range(300):
        assert constraint.fill(row) is Status.OK, f"a dead end after {bytes(text)!r}"
        allowed = sorted(token for token in tokens_in(row) if token <= EOS)
        closing = [token for token in allowed if token in {*b'"]}', EOS}]
        token = rng.choice(closing if closing and (len(text) > 60 or rng.random() < 0.3) else allowed)
        assert constraint.accept(token) is Status.OK
        if token == EOS:
            return bytes(text)
        text.append(token)
    return None


def test_no_text_of_a_maskbench_schema_is_invalid() -> None:
    rng, texts = random.Random(7), 0
    for labelled in rng.sample(list(corpora.maskbench()), 60):
        spec = schema(labelled["schema"])
        match BACKEND.compile(spec):
            case Err(error):
                assert error.kind is not ErrorKind.BACKEND_FAILURE
                continue
            case Ok(grammar):
                validator = reference_validator(spec).unwrap()
        for text in filter(None, (walk(grammar, rng) for _ in range(3))):
            texts += 1
            assert all("exponent" in message for _, message in validator.errors(text.decode())), text
        for instance in labelled["tests"]:
            written = json.dumps(instance["data"], ensure_ascii=False)
            assert instance["valid"] or not accepts(grammar, written)
    assert texts > 50


@pytest.mark.parametrize(("draft", "dialect"), [("draft2020-12", Dialect.DRAFT_2020_12), ("draft7", Dialect.DRAFT_7)])
def test_nothing_that_the_official_suite_forbids_gets_through(draft: corpora.Draft, dialect: Dialect) -> None:
    groups, exact, taken = list(corpora.json_schema_test_suite(draft)), 0, 0
    remotes = {uri: json.dumps(value) for uri, value in corpora.suite_remotes().items()}
    for group in groups:
        options: dict[str, Any] = {"registry": remotes} if "localhost" in json.dumps(group["schema"]) else {}
        spec = schema(group["schema"], dialect=dialect, format_mode=FormatMode.ANNOTATE, **options)
        match BACKEND.compile(spec):
            case Err(error):
                assert error.kind is not ErrorKind.BACKEND_FAILURE, error.detail
                continue
            case Ok(grammar):
                taken += 1
        verdicts = [
            (test["valid"], accepts(grammar, json.dumps(test["data"], ensure_ascii=False).encode("utf-8", "replace")))
            for test in group["tests"]
        ]
        assert (False, True) not in verdicts, (group["file"], group["description"])
        exact += all(valid == accepted for valid, accepted in verdicts)
    assert taken > len(groups) // 2
    assert exact > 0.45 * len(groups)
