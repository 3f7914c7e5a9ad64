"""The llguidance plugin: what the library gets wrong by itself is either right here or refused, with its place."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from structout import (
    Choice,
    Err,
    ErrorKind,
    Fault,
    GrammarError,
    GrammarFailure,
    JsonObject,
    JsonSchema,
    Lark,
    Ok,
    Policy,
    Regex,
    Status,
    Vocabulary,
)
from structout import StructuralTag as Tags
from structout.backend import BitmaskRow, SupportsBatchFill
from structout.constraint import Constraint
from structout.drafts import fill_drafts
from structout.grammar import BoundBackend, Grammar
from structout.schema.validation import reference_validator
from structout.spec import Dialect, FormatMode, GrammarSpec, KeyOrder, Serialization, Whitespace
from tests import corpora

pytest.importorskip("llguidance")

from structout_llguidance import structout_register_backends
from structout_llguidance.limits import MAX_GRAMMAR_SIZE, MAX_SCHEMA_DEPTH, schema_depth
from structout_llguidance.patterns import NotPortable, to_rust

INFO = next(iter(structout_register_backends()))
EOS = 256
BYTES = Vocabulary.from_tokens(
    [bytes([byte]) for byte in range(256)] + [b"", b"", b"ab", "é".encode(), b'{"'],
    eos_token_ids=[EOS],
    control=[(EOS, "</s>"), (257, "<|call|>")],
    padded_size=300,
)
BACKEND = BoundBackend.create(INFO, None, BYTES).unwrap()

CLOSED = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}


def schema(value: Any, **options: Any) -> JsonSchema:
    return JsonSchema(value if isinstance(value, str) else json.dumps(value), **options)


def compiled(spec: GrammarSpec) -> Grammar:
    return BACKEND.compile(spec).unwrap()


def refused(spec: GrammarSpec) -> GrammarError:
    """The refusal, checked to be one that a client may see."""
    match BACKEND.compile(spec):
        case Err(error):
            assert not re.search(r"panic|backtrace|<state>|json-schema:///|u16|non-verbose|Traceback", error.message)
            return error
        case Ok():
            raise AssertionError(f"{spec} was compiled")


def new_row() -> BitmaskRow:
    return np.full(BYTES.bitmask_width, 12345, np.int32)


def bits(row: BitmaskRow) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


def speaks(grammar: Grammar, text: str) -> bool:
    """Whether the text, byte by byte, and then the end are in the masks."""
    constraint, row = grammar.start().unwrap(), new_row()
    for token in [*text.encode("utf-8", "surrogatepass"), EOS]:
        if constraint.fill(row) is not Status.OK or token not in bits(row):
            return False
        assert constraint.accept(token) is Status.OK
    return True


def spoken(grammar: Grammar, texts: Sequence[str]) -> list[str]:
    return [text for text in texts if speaks(grammar, text)]


LANGUAGES: list[tuple[GrammarSpec, list[str], list[str]]] = [
    (schema(CLOSED), ['{"x":1}', '{ "x" : -20\n}'], ["{}", '{"x":1.5}', '{"x":1,"y":2}', ' {"x":1}']),
    (schema(True), ["1", "{}", '"a"'], ["", "x"]),
    (schema({"uniqueItems": False}), ["[1, 1]"], []),
    (schema({"x-guidance": {"whitespace_flexible": False}, "type": "array"}), ["[ 1 ]"], []),
    (JsonObject(), ["{}", '{"a": {"b": [1, null]}}'], ["[]", "1"]),
    (Regex("(ab|a)*c?"), ["", "abac"], ["b", "cc"]),
    (Regex("^[0-9]{3}$"), ["123"], ["12", "^123$"]),
    (Regex("^a|b$"), ["a", "b"], ["ab"]),
    (Regex(""), [""], ["a"]),
    (Regex(r"\d\w\s"), ["1a "], ["٣a ", "1é ", "1a\u00a0"]),
    (Regex("a.c"), ["abc", "aéc"], ["a\nc"]),
    (Regex("a/b[/]"), ["a/b/"], ["a/b"]),
    (Regex("x+?y??"), ["x", "xxx", "xy"], ["y", ""]),
    (Lark('start: "(" start ")" | NUMBER\nNUMBER: /[0-9]+/'), ["((1))", "12"], ["(1", ""]),
    (Lark('start: "a"\n%llguidance {}'), ["a"], ["b"]),
    (Choice(("a", "ab", "abc")), ["a", "ab", "abc"], ["", "b", "abcd"]),
    (Choice(("",)), [""], ["a"]),
    (
        Choice(("", "a.b*", '"q"', "\\", "/x/", "a\nb", "日本 😀", "%json", "<|call|>")),
        ["", "日本 😀", "<|call|>"],
        ["axb"],
    ),
]


@pytest.mark.parametrize(("spec", "valid", "invalid"), LANGUAGES, ids=lambda value: getattr(value, "kind", ""))
def test_the_language_is_that_of_the_spec(spec: GrammarSpec, valid: list[str], invalid: list[str]) -> None:
    grammar = compiled(spec)
    assert spoken(grammar, [*valid, *invalid]) == valid
    assert grammar.unenforced == ()


@settings(max_examples=40)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), min_size=1, max_size=8))
def test_a_choice_is_its_options_and_nothing_else(options: list[str]) -> None:
    grammar = compiled(Choice(tuple(options)))
    others = {option[:-1] for option in options} | {option + "a" for option in options} | {""}
    assert all(speaks(grammar, option) for option in options)
    assert spoken(grammar, sorted(others - set(options))) == []


def test_a_choice_of_thousands_of_options() -> None:
    grammar = compiled(Choice(tuple(f"option {number:04d} text" for number in range(5000))))
    assert spoken(grammar, ["option 0007 text", "option 4999 text", "option 5000 text", "option"]) == [
        "option 0007 text",
        "option 4999 text",
    ]


@pytest.mark.parametrize(
    ("whitespace", "texts"),
    [
        (Whitespace.ANY, ['{"a": [1, 2]}', '{"a":[1,2]}', '{ "a" :[1\n,2]}']),
        (Whitespace.SPACED, ['{"a": [1, 2]}']),
        (Whitespace.COMPACT, ['{"a":[1,2]}']),
    ],
)
@pytest.mark.parametrize("make", [JsonObject, lambda **options: schema({"type": "object"}, **options)])
def test_white_space_is_what_the_serialization_says(make: Any, whitespace: Whitespace, texts: list[str]) -> None:
    grammar = compiled(make(serialization=Serialization(whitespace=whitespace)))
    assert spoken(grammar, ['{"a": [1, 2]}', '{"a":[1,2]}', '{ "a" :[1\n,2]}']) == texts


DROPPED: list[tuple[dict[str, Any], str]] = [
    ({"not": {"type": "string"}}, "not"),
    ({"if": {"type": "string"}, "then": {"minLength": 1}}, "if"),
    ({"contains": {"type": "string"}}, "contains"),
    ({"maxContains": 2}, "maxContains"),
    ({"uniqueItems": True}, "uniqueItems"),
    ({"propertyNames": {"maxLength": 2}}, "propertyNames"),
    ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, "dependentSchemas"),
    ({"unevaluatedItems": False}, "unevaluatedItems"),
    ({"unevaluatedProperties": False}, "unevaluatedProperties"),
    ({"$dynamicRef": "#a", "$dynamicAnchor": "a", "type": "string"}, "$dynamicRef"),
    ({"type": "string", "format": "iri"}, "format"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, "oneOf"),
    ({"type": "object", "minProperties": 2}, "minProperties"),
    ({"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1}, "minProperties"),
    ({"const": 2**53 + 1}, "const"),
    ({"enum": [[{"a": 0.12345678901234567}]]}, "enum"),
    ({"type": "number", "exclusiveMinimum": 9, "maximum": 9.5}, "exclusiveMinimum"),
    ({"type": "number", "minimum": -3.5, "exclusiveMaximum": -3}, "exclusiveMaximum"),
]


@pytest.mark.parametrize(("dropped", "keyword"), DROPPED, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_not_enforced_is_refused_with_its_place_or_listed(dropped: dict[str, Any], keyword: str) -> None:
    inside = {"type": "object", "properties": {"a/b": dropped}, "additionalProperties": False}
    error = refused(schema(inside))
    assert (error.kind, error.pointer, error.keyword) == (ErrorKind.UNSUPPORTED, "/properties/a~1b", keyword)
    grammar = compiled(schema(inside, policy=Policy.BEST_EFFORT))
    assert ("/properties/a~1b", keyword) in {(finding.pointer, finding.keyword) for finding in grammar.unenforced}
    assert speaks(grammar, "{}")


@pytest.mark.parametrize(
    ("value", "keyword"),
    [
        ({"enum": ["b\x01", "c"]}, "enum"),
        ({"const": [{"k": "b\x7f"}]}, "const"),
        ({"type": "string", "pattern": r"^b\x01$"}, "pattern"),
        ({"type": "string", "pattern": "^b[\x01]$"}, "pattern"),
        (
            {"type": "object", "patternProperties": {r"^b\u007f$": {}}, "additionalProperties": False},
            "patternProperties",
        ),
    ],
)
def test_control_characters_are_not_lost_where_names_are_left_open(value: Any, keyword: str) -> None:
    """There ``\\u`` is not allowed, and llguidance leaves out what it alone could write: ``"b"`` would get through."""
    error = refused(schema({"properties": {"a": value}}))
    assert (error.kind, error.pointer, error.keyword) == (ErrorKind.UNSUPPORTED, "/properties/a", keyword)
    assert isinstance(compiled(schema(value)), Grammar)


def test_classes_with_control_characters_are_fine_where_names_are_left_open() -> None:
    grammar = compiled(schema({"properties": {"a": {"type": "string", "pattern": r"^b[^\x00-\x1f]\n$"}}}))
    assert spoken(grammar, [r'{"a":"bc\n"}', r'{"a":"b\n"}', r'{"a":"b\u0001\n"}']) == [r'{"a":"bc\n"}']


def test_the_draft_7_word_is_refused_too() -> None:
    error = refused(schema({"dependencies": {"a": ["b"]}}, dialect=Dialect.DRAFT_7))
    assert (error.kind, error.keyword) == (ErrorKind.UNSUPPORTED, "dependencies")


def test_options_in_the_schema_do_not_count() -> None:
    assert refused(schema({"x-guidance": {"lenient": True}, "not": {}})).keyword == "not"
    assert refused(schema({"x-guidance": {"coerce_one_of": True}, "oneOf": [{}, {"minimum": 1}]})).keyword == "oneOf"


TAMED: list[tuple[Any, dict[str, Any], list[str], list[str]]] = [
    # Another spelling of a name is the same name.
    (
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        {},
        ['{"a":1}', '{"b":"x"}'],
        ['{"a":"x"}', r'{"\u0061":"x"}', r'{"a":1,"\u0061":"x"}'],
    ),
    ({"patternProperties": {"^a": {"type": "integer"}}}, {}, ['{"b":"x"}'], [r'{"\u0061":"x"}', '{"a":"x"}']),
    # Patterns are those of ECMA 262.
    ({"type": "string", "pattern": "^.$"}, {}, ['"a"', '"é"'], [r'"\r"', '"\u2028"', r'"\n"']),
    ({"type": "string", "pattern": r"^\s$"}, {}, ['" "', '"\ufeff"', r'"\n"'], ['"\u0085"']),
    ({"type": "string", "pattern": r"^\S$"}, {}, ['"a"'], ['"\ufeff"', '" "']),
    ({"type": "string", "pattern": r"^\d\w$"}, {}, ['"1a"'], ['"٣a"', '"1é"']),
    ({"type": "string", "pattern": "^[a&&b]$"}, {}, ['"a"', '"&"'], ['"c"']),
    ({"type": "string", "pattern": "^a|b$"}, {}, ['"ax"', '"xb"'], ['"xa"']),
    # Dates exist.
    ({"type": "string", "format": "date"}, {}, ['"2020-02-29"', '"2000-02-29"'], ['"2021-02-29"', '"1900-02-29"']),
    (
        {"type": "string", "format": "date-time"},
        {},
        ['"2020-02-29T23:59:59.5Z"'],
        ['"2021-02-29T00:00:00Z"', '"2021-01-01T12:00:60Z"'],
    ),
    ({"type": "string", "format": "time"}, {}, ['"12:00:00+01:00"'], ['"12:00:60Z"']),
    # Host names have a form and a length.
    ({"type": "string", "format": "hostname"}, {}, ['"a-b.example"'], ['"ab--c"', '"-a"', f'"{"a." * 127}a"']),
    (
        {"type": "string", "format": "email"},
        {},
        ['"joe.doe@mail-1.example.co.uk"'],
        ['"joe@ab--c.d"', f'"joe@{"a" * 64}.c"', f'"{"a" * 65}@b.c"'],
    ),
    # A format may be an annotation.
    ({"type": "string", "format": "date"}, {"format_mode": FormatMode.ANNOTATE}, ['"x"'], []),
    ({"type": "string", "format": "no-such"}, {"format_mode": FormatMode.ANNOTATE}, ['"x"'], []),
    # Large bounds.
    ({"type": "integer", "maximum": 2**63 - 1}, {}, ["9", str(2**62)], [str(2**63), str(2**63 + 1000)]),
    ({"type": "number", "maximum": 2**63 - 1}, {}, ["9"], [str(2**63), str(2**63 + 100)]),
    ({"type": "number", "exclusiveMaximum": 2**53 + 2}, {}, ["9"], [str(2**53 + 2), str(2**53 + 3)]),
    ({"type": "integer", "minimum": -(2**63)}, {}, ["-9"], [str(-(2**63) - 1)]),
    # Dialects.
    (
        {"$ref": "#/definitions/a", "type": "string", "definitions": {"a": {"type": "integer"}}},
        {"dialect": Dialect.DRAFT_7},
        ["1"],
        ['"a"'],
    ),
    ({"prefixItems": [{"type": "string"}]}, {"dialect": Dialect.DRAFT_7}, ["[1]"], []),
    ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"dialect": Dialect.DRAFT_4}, ["4"], ["3"]),
]


@pytest.mark.parametrize(("value", "options", "valid", "invalid"), TAMED)
def test_what_llguidance_alone_gets_wrong(
    value: Any, options: dict[str, Any], valid: list[str], invalid: list[str]
) -> None:
    spec = schema(value, **options)
    reference = reference_validator(spec).unwrap()
    assert all(map(reference.is_valid, valid))
    assert not any(map(reference.is_valid, invalid))
    assert spoken(compiled(spec), [*valid, *invalid]) == valid


@pytest.mark.parametrize(
    ("value", "keyword"),
    [
        ({"properties": {"a": {}}}, "properties"),
        ({"patternProperties": {"a": {}}}, "patternProperties"),
        ({"required": ["a"]}, "required"),
        ({"type": "string", "format": "time"}, "format"),
        ({"type": "string", "format": "hostname"}, "format"),
        ({"type": "string", "format": "ipv6"}, "format"),
        ({"type": "number", "multipleOf": 0.1}, "multipleOf"),
        ({"type": "integer", "maximum": 2**60}, "maximum"),
        ({"type": "integer", "maximum": 1e30}, "maximum"),
        ({"type": "number", "exclusiveMaximum": 12345.678}, "exclusiveMaximum"),
        ({"type": "number", "minimum": 0}, "minimum"),
        ({"type": "number", "multipleOf": 2}, "multipleOf"),
        ({"const": -0.0}, "const"),
        ({"enum": [{"a": [1e16]}]}, "enum"),
        ({"const": 1e-7}, "const"),
    ],
)
def test_what_is_narrowed_is_listed_and_no_exact_grammar(value: Any, keyword: str) -> None:
    assert [(finding.pointer, finding.keyword) for finding in compiled(schema(value)).narrowed] == [("", keyword)]
    assert refused(schema(value, policy=Policy.EXACT)).keyword == keyword


@pytest.mark.parametrize(("end", "pointers"), [("0a", ["/format"]), (" a", ["/format"]), ("</a>", [])])
def test_an_end_that_json_could_go_on_with_is_a_narrowing(end: str, pointers: list[str]) -> None:
    content = {"type": "json_schema", "json_schema": {"type": "integer"}}
    text = json.dumps(
        {"type": "structural_tag", "format": {"type": "tag", "begin": "a", "content": content, "end": end}}
    )
    assert [finding.pointer for finding in compiled(Tags(text)).narrowed] == pointers


def test_a_rounded_constant_under_best_effort_is_neither_enforced_nor_taken() -> None:
    grammar = compiled(schema({"const": 2**53 + 1}, policy=Policy.BEST_EFFORT))
    assert [finding.keyword for finding in grammar.unenforced] == ["const"]
    assert [finding.keyword for finding in grammar.narrowed] == ["const"]


# Each of these ends the process if it gets to the library.
BEYOND_64_BITS = [
    ({"type": "integer", "const": -(10**20)}, "const"),
    ({"type": "integer", "const": -(2**63) + 1}, "const"),
    ({"type": "integer", "enum": [1, -1e30]}, "enum"),
    ({"type": "array", "items": {"type": "integer"}, "const": [-1e20]}, "const"),
    ({"type": "integer", "minimum": -1e30, "maximum": -1e25}, "maximum"),
    ({"type": "integer", "minimum": -1e30, "exclusiveMaximum": -(2**63) + 1}, "exclusiveMaximum"),
    # These do not: of them it makes 2**63 - 1.
    ({"type": "integer", "const": 1e20}, "const"),
    ({"type": "integer", "minimum": 1e20, "maximum": 1e25}, "minimum"),
]


@pytest.mark.parametrize(("value", "keyword"), BEYOND_64_BITS)
def test_integers_beyond_64_bits_do_not_get_to_the_library(value: Any, keyword: str) -> None:
    """Asks for the static refusal first: should it be gone, only that fails, and not this whole process."""
    for policy in Policy:
        spec = schema({"properties": {"a": value}}, policy=policy)
        assert INFO.refusal(spec) is not None
        error = refused(spec)
        assert (error.kind, error.pointer, error.keyword) == (ErrorKind.TOO_COMPLEX, "/properties/a", keyword)


LARGE = """
import json, sys
from structout import Vocabulary
from structout.spec import JsonSchema
from structout_llguidance.backend import LlguidanceBackend

backend = LlguidanceBackend.create(Vocabulary.from_tokens([b"0", b""], eos_token_ids=[1]))
for value in json.loads(sys.argv[1]):
    backend.compile(JsonSchema(json.dumps(value), policy="best_effort"))
"""


def test_no_large_integer_ends_the_process() -> None:
    """In a process of its own, around the ends of 64 bits."""
    large = [sign * (2**63 + off) for sign in (1, -1) for off in (-(10**18), -(10**16), -(10**5), -1, 0, 1)]
    values = [{"type": "integer", "const": number} for number in large]
    values += [{"type": "integer", "minimum": low, "maximum": high} for low in large for high in large if low <= high]
    subprocess.run([sys.executable, "-c", LARGE, json.dumps(values)], check=True, timeout=120)


def test_a_closed_object_is_exact() -> None:
    assert compiled(schema(CLOSED, policy=Policy.EXACT)).narrowed == ()


def test_one_order_of_members_is_a_narrowing_of_any_order() -> None:
    two = CLOSED | {"properties": {"x": {}, "y": {}}}
    narrowed = compiled(schema(two, serialization=Serialization(key_order=KeyOrder.ANY))).narrowed
    assert [finding.keyword for finding in narrowed] == ["properties"]
    assert compiled(schema(two)).narrowed == ()
    constant = {"enum": [1, [{"a": 1, "b": 2}]]}
    narrowed = compiled(schema(constant, serialization=Serialization(key_order=KeyOrder.ANY))).narrowed
    assert [finding.keyword for finding in narrowed] == ["enum"]
    assert compiled(schema(constant)).narrowed == ()


TAG = {"begin": "<fn=add>", "schema": CLOSED, "end": "</fn>"}
LEGACY = {"type": "structural_tag", "structures": [TAG], "triggers": ["<fn="]}
TRIGGERED: dict[str, Any] = {
    "type": "triggered_tags",
    "triggers": ["<fn="],
    "tags": [{"begin": "<fn=add>", "content": {"type": "json_schema", "json_schema": CLOSED}, "end": "</fn>"}],
}


@pytest.mark.parametrize("tag", [LEGACY, {"type": "structural_tag", "format": TRIGGERED}])
def test_triggered_tags(tag: dict[str, Any]) -> None:
    valid = ["", "free text", "a < b <f", '<fn=add>{"x":1}</fn>', 'é <fn=add>{"x": 1}</fn> and <fn=add>{"x":2}</fn>.']
    invalid = ['<fn=add>{"x":"s"}</fn>', "<fn=sub>{}</fn>", '<fn=add>{"x":1}', "a <fn="]
    assert spoken(compiled(Tags(json.dumps(tag))), [*valid, *invalid]) == valid


def test_a_tag_alone() -> None:
    tag = {"type": "tag", **TRIGGERED["tags"][0]}
    grammar = compiled(Tags(json.dumps({"type": "structural_tag", "format": tag})))
    assert spoken(grammar, ['<fn=add>{"x":1}</fn>', 'a<fn=add>{"x":1}</fn>', ""]) == ['<fn=add>{"x":1}</fn>']


@pytest.mark.parametrize(
    ("change", "kind", "pointer"),
    [
        ({"at_least_one": True}, ErrorKind.UNSUPPORTED, "/format"),
        ({"type": "sequence", "elements": []}, ErrorKind.UNSUPPORTED, "/format"),
        ({"triggers": ["<fn=", "<"]}, ErrorKind.UNSUPPORTED, "/format/triggers"),
        ({"triggers": ["<fn=", "[x]"]}, ErrorKind.UNSUPPORTED, "/format/triggers"),
        (
            {"triggers": ["<fn=a"], "tags": [*TRIGGERED["tags"], TRIGGERED["tags"][0] | {"begin": "[x]"}]},
            ErrorKind.INVALID_SPEC,
            "/format/tags/1/begin",
        ),
    ],
)
def test_tags_that_are_refused(change: dict[str, Any], kind: ErrorKind, pointer: str) -> None:
    error = refused(Tags(json.dumps({"type": "structural_tag", "format": TRIGGERED | change})))
    assert (error.kind, error.pointer) == (kind, pointer)


def test_schemas_in_tags_are_held_to_the_same_rules() -> None:
    tag = LEGACY | {"structures": [TAG, TAG | {"begin": "<fn=b>", "schema": {"properties": {"a": {"not": {}}}}}]}
    place = "/format/tags/1/content/json_schema/properties/a"
    error = refused(Tags(json.dumps(tag)))
    assert (error.kind, error.keyword, error.pointer) == (ErrorKind.UNSUPPORTED, "not", place)
    best = compiled(Tags(json.dumps(tag), policy=Policy.BEST_EFFORT))
    assert [(finding.pointer, finding.keyword) for finding in best.unenforced] == [(place, "not")]


REFUSALS: list[tuple[GrammarSpec, ErrorKind, int | None]] = [
    (Regex("a("), ErrorKind.INVALID_SPEC, 1),
    (Regex("ab\\"), ErrorKind.INVALID_SPEC, 2),
    (Regex("a{2,1}"), ErrorKind.INVALID_SPEC, 1),
    (Regex("a\ud800"), ErrorKind.INVALID_SPEC, None),
    (Regex("x(?=a)"), ErrorKind.UNSUPPORTED, 1),
    (Regex(r"(a)\1"), ErrorKind.UNSUPPORTED, 3),
    (Regex(r"\bcat"), ErrorKind.UNSUPPORTED, None),
    (Regex(r"[^\s\S]"), ErrorKind.UNSATISFIABLE, None),
    (Lark("start: foo"), ErrorKind.INVALID_SPEC, 7),
    (Lark('start: "a" b\nb: /(/'), ErrorKind.INVALID_SPEC, 16),
    (Lark('foo: "a"'), ErrorKind.INVALID_SPEC, None),
    (Lark('{"grammars": [{"regex": "a"}]}'), ErrorKind.INVALID_SPEC, 0),
    (Lark("start: <|no_such|>"), ErrorKind.INVALID_SPEC, 7),
    (Lark('start: %json {"not": {}}'), ErrorKind.UNSUPPORTED, None),
    (Lark("start: start"), ErrorKind.UNSATISFIABLE, None),
    (Lark("start: " + " ".join(['"a"'] * 70_000)), ErrorKind.TOO_COMPLEX, None),
    (Choice(()), ErrorKind.INVALID_SPEC, None),
    (Choice(("a", "\udc00")), ErrorKind.INVALID_SPEC, None),
    (schema(False), ErrorKind.UNSATISFIABLE, None),
    (schema({"type": "integer", "enum": ["a"]}), ErrorKind.UNSATISFIABLE, None),
    (schema({"type": "string", "pattern": "a(?=b)"}), ErrorKind.UNSUPPORTED, None),
    (schema({"type": "string", "pattern": "[a--b]"}), ErrorKind.UNSUPPORTED, None),
    (schema({"$ref": "urn:a", "$defs": {}}, registry={"urn:a": "{}"}), ErrorKind.UNSUPPORTED, None),
    (schema({"multipleOf": 1_000_003}), ErrorKind.TOO_COMPLEX, None),
    (schema({"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 3}), ErrorKind.UNSUPPORTED, None),
    (schema({"type": "integer", "minimum": 3, "maximum": 2}), ErrorKind.UNSATISFIABLE, None),
    (
        schema({"type": "object", "properties": {f"p{number}": {} for number in range(600)}}),
        ErrorKind.TOO_COMPLEX,
        None,
    ),
]


@pytest.mark.parametrize(("spec", "kind", "offset"), REFUSALS, ids=lambda value: getattr(value, "kind", ""))
def test_refusals_say_what_and_where(spec: GrammarSpec, kind: ErrorKind, offset: int | None) -> None:
    error = refused(spec)
    assert error.kind is kind
    if offset is not None:
        assert error.offset == offset


@pytest.mark.parametrize(
    ("value", "document", "pointer"),
    [
        ({"items": {"$ref": "urn:a"}}, {}, "/items"),
        ({"items": {"$ref": "urn:a#/$defs/b"}}, {"$defs": {"b": {}}}, "/items"),
        ({"$id": "https://x.example/y/z", "items": {"$ref": "../a"}}, {"$id": "https://x.example/a"}, "/items"),
        ({"items": {"$ref": "urn:b"}}, {"$id": "urn:b"}, ""),
    ],
)
def test_a_reference_out_of_the_schema_is_named_where_it_stands(value: Any, document: Any, pointer: str) -> None:
    uri = "https://x.example/a" if "$id" in value else "urn:a"
    error = refused(schema(value, registry={uri: json.dumps(document)}))
    assert (error.keyword, error.pointer) == ("$ref", pointer)


def test_only_an_error_with_one_possible_place_has_a_pointer() -> None:
    one_of = {"oneOf": [{}, {"minimum": 1}]}
    assert refused(schema({"items": one_of})).pointer == "/items"
    assert refused(schema({"items": one_of, "additionalProperties": one_of})).pointer is None


def chain(links: int) -> dict[str, Any]:
    """Definitions, each with a property that refers to the next."""
    links_ = {f"a{link}": {"properties": {"x": {"$ref": f"#/$defs/a{link + 1}"}}} for link in range(links)}
    return {"$ref": "#/$defs/a0", "$defs": links_ | {f"a{links}": {"type": "integer"}}}


def test_what_would_overflow_the_stack_is_refused() -> None:
    assert speaks(compiled(schema(chain(MAX_SCHEMA_DEPTH // 2 - 2))), '{"x":{}}')
    assert refused(schema(chain(MAX_SCHEMA_DEPTH // 2))).kind is ErrorKind.TOO_COMPLEX
    assert refused(schema(chain(3000))).kind is ErrorKind.TOO_COMPLEX
    rules = [f"r{rule}: r{rule + 1}" for rule in range(3000)]
    grammar = "\n".join(["start: r0", *rules[: MAX_GRAMMAR_SIZE - 2], f'r{MAX_GRAMMAR_SIZE - 2}: "a"'])
    assert speaks(compiled(Lark(grammar)), "a")
    assert refused(Lark("\n".join(["start: r0", *rules, 'r3000: "a"']))).kind is ErrorKind.TOO_COMPLEX
    assert refused(Lark(f"start: %json {json.dumps(chain(3000))}")).kind is ErrorKind.TOO_COMPLEX


def test_wide_schemas_are_not_deep() -> None:
    leaves = {f"p{number}": {"$ref": "#/$defs/leaf"} for number in range(1000)}
    wide = {"properties": leaves, "$defs": {"leaf": {"items": {"type": "integer"}}}}
    assert schema_depth(wide, Dialect.DRAFT_2020_12) == 4
    tree = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    assert schema_depth(tree, Dialect.DRAFT_2020_12) == 3


@pytest.mark.parametrize(
    ("pattern", "rust"),
    [
        (r"a\.[.]", r"a\.[.]"),
        ("[]x[^]", r"[^\s\S]x[\s\S]"),
        ("[[&~-]", r"[\[\&\~-]"),
        (r"\/[\]a]", r"\/[\]a]"),
        ("[a", "[a"),
        (r"\<", "<"),
    ],
)
def test_patterns_in_the_syntax_of_rust(pattern: str, rust: str) -> None:
    assert to_rust(pattern) == rust


@pytest.mark.parametrize("pattern", [r"\A", r"a\z", "[+--]", "a\\", r"[\a]"])
def test_patterns_that_rust_reads_otherwise(pattern: str) -> None:
    with pytest.raises(NotPortable):
        to_rust(pattern)


@pytest.mark.parametrize(
    "text", ["start: X\nX: ~/ab/", 'start: <[*]> "a"', '%llguidance {"allow_invalid_utf8": true}\nstart: /(?s-u:.)*/']
)
def test_no_grammar_opens_control_tokens_or_padding_without_naming_them(text: str) -> None:
    matcher = compiled(Lark(text)).compiled.start(stop_token_ids=[EOS], max_rollback=1)
    row = new_row()
    assert matcher.fill(row) is Status.OK
    assert max(bits(row) - {EOS}) < BYTES.size
    assert 257 not in bits(row)
    assert {matcher.accept(token) for token in (257, 261, 299)} == {Status.REJECTED}


@pytest.mark.parametrize("name", ["<|call|>", "<[257]>"])
def test_a_grammar_reaches_control_tokens_by_name(name: str) -> None:
    matcher = compiled(Lark(f'start: "a" {name} "b"')).compiled.start(stop_token_ids=[EOS], max_rollback=0)
    row = new_row()
    assert matcher.accept(ord("a")) is Status.OK
    matcher.fill(row)
    assert bits(row) == {257}
    assert [matcher.accept(token) for token in (ord("<"), 257, ord("b"), EOS)][1:] == [Status.OK] * 3


def test_stop_tokens_end_the_text_and_are_never_part_of_it() -> None:
    """Here the first option goes on with an ordinary token that is also a stop."""
    grammar = compiled(Choice(("a", "a\nb", "ac")))
    stops = (ord("\n"), EOS)
    matcher = grammar.compiled.start(stop_token_ids=stops, max_rollback=8)
    row = new_row()
    matcher.fill(row)
    assert bits(row) == {ord("a")}
    assert matcher.accept(EOS) is Status.REJECTED
    assert matcher.accept(ord("a")) is Status.OK
    matcher.fill(row)
    assert bits(row) == {ord("c"), *stops}
    assert matcher.accept(ord("\n")) is Status.OK
    assert matcher.is_terminated
    assert matcher.is_accepting
    assert matcher.fill(row) is matcher.accept(ord("c")) is Status.TERMINATED


WALKS: list[GrammarSpec] = [
    schema({"type": "object", "properties": {"a": {"type": "string"}, "b": {"enum": [1, 12, None]}}}),
    Regex("(ab|a)*[é-ü]?"),
    Choice(("", "a", "ab")),
    Lark('start: X "!"\nX: /[a-z ]*/ & ~/.*foo.*/'),
    Lark('start: part "b"\npart[max_tokens=3]: /a+/'),
    Lark('start: part "b"\npart[stop="b"]: /a*/'),
    Tags(json.dumps(LEGACY)),
]


@settings(max_examples=60)
@given(spec=st.sampled_from(WALKS), seed=st.integers(0, 10**6), tokens=st.integers(0, 10), undone=st.integers(0, 12))
def test_rollback_gives_the_state_that_was(spec: GrammarSpec, seed: int, tokens: int, undone: int) -> None:
    grammar = compiled(spec)
    constraint = walked(grammar, seed, tokens)
    kept = constraint.tokens[: max(0, len(constraint.tokens) - undone)]
    assert constraint.rollback(len(constraint.tokens) - len(kept)) is Status.OK
    assert_same_state(constraint, grammar, kept)


def assert_same_state(constraint: Constraint, grammar: Grammar, tokens: Sequence[int]) -> None:
    fresh = grammar.start(max_rollback=16).unwrap()
    assert [fresh.accept(token) for token in tokens] == [Status.OK] * len(tokens)
    one, other = new_row(), new_row()
    assert constraint.fill(one) is fresh.fill(other)
    assert (one == other).all()


def walked(grammar: Grammar, seed: int, tokens: int) -> Constraint:
    """A constraint after a random walk through its masks, up to and including the end."""
    constraint, row, draw = grammar.start(max_rollback=16).unwrap(), new_row(), random.Random(seed)
    for _ in range(tokens):
        if constraint.fill(row) is not Status.OK:
            break
        assert constraint.accept(draw.choice(sorted(bits(row)))) is Status.OK
    return constraint


@settings(max_examples=30)
@given(
    spec=st.sampled_from(WALKS), seed=st.integers(0, 10**6), lengths=st.lists(st.integers(0, 8), min_size=1, max_size=6)
)
def test_a_batch_is_what_its_rows_are_alone(spec: GrammarSpec, seed: int, lengths: list[int]) -> None:
    grammar, backend = compiled(spec), BACKEND.backend
    constraints = [walked(grammar, seed + length, length) for length in lengths]
    bitmask = np.full((len(lengths) + 1, BYTES.bitmask_width), 7, np.int32)
    rows = list(range(len(lengths), 0, -1))
    assert isinstance(backend, SupportsBatchFill)
    statuses = backend.fill_batch([constraint.matcher for constraint in constraints], bitmask, rows)
    for constraint, status, row in zip(constraints, statuses, rows, strict=True):
        alone = new_row()
        assert constraint.matcher.fill(alone) is status
        assert status is Status.TERMINATED or (bitmask[row] == alone).all()
    assert (bitmask[0] == 7).all()


TRAP = Lark('start: "x" /[a-z]*/ | "y" TRAP\nTRAP: /' + "a?b?" * 800 + "/")
"""After ``ya`` llguidance's lexer, which the sequences of a grammar share, gives up for good."""


def trapped(grammar: Grammar) -> Constraint:
    constraint = grammar.start(max_rollback=4).unwrap()
    assert [constraint.accept(token) for token in b"ya"] == [Status.OK] * 2
    return constraint


def test_a_limit_fails_the_sequence_that_reaches_it_and_no_other() -> None:
    grammar = compiled(TRAP)
    other, row = grammar.start(max_rollback=4).unwrap(), new_row()
    assert other.accept(ord("x")) is Status.OK
    before = bits(row) if other.fill(row) is Status.OK else set()
    fork = other.fork().unwrap()
    bad = trapped(grammar)
    assert bad.fill(row) is Status.FAILED
    assert bad.error is not None
    assert (bad.error.kind, bad.error.fault) == (ErrorKind.TOO_COMPLEX, Fault.CALLER)
    assert "after 2 tokens: lexer error: too many expressions" in bad.error.message
    assert [other.accept(token) for token in b"ab"] == [Status.OK] * 2
    assert other.is_accepting
    assert other.rollback(2) is Status.OK
    for constraint in (other, fork):
        assert constraint.fill(row) is Status.OK
        assert bits(row) == before
    assert grammar.start().unwrap().fill(row) is Status.OK
    assert bits(row) == {ord("x"), ord("y")}


def test_a_limit_in_a_batch_is_raised_and_leaves_the_others_able_to_go_on() -> None:
    grammar, backend = compiled(TRAP), BACKEND.backend
    good, bad = grammar.start().unwrap(), trapped(grammar)
    assert isinstance(backend, SupportsBatchFill)
    with pytest.raises(GrammarFailure):
        backend.fill_batch([bad.matcher, good.matcher], np.zeros((2, BYTES.bitmask_width), np.int32), [0, 1])
    row = new_row()
    assert good.fill(row) is Status.OK
    assert bits(row) == {ord("x"), ord("y")}


def test_drafts_that_reach_a_limit_leave_the_sequence_as_it_was() -> None:
    constraint = compiled(TRAP).start(max_rollback=8).unwrap()
    rows = np.zeros((4, BYTES.bitmask_width), np.int32)
    assert fill_drafts(constraint, list(b"yab"), rows).status is Status.OK
    row = new_row()
    assert constraint.fill(row) is Status.OK
    assert bits(row) == {ord("x"), ord("y")}


def test_a_limit_in_one_thread_refuses_no_token_in_another() -> None:
    """If the lexer broke between a sequence's mask and its token, the token would seem to be refused."""
    grammar = compiled(TRAP)

    def walk(seed: int) -> list[Status]:
        constraint, row, draw, statuses = grammar.start().unwrap(), new_row(), random.Random(seed), []
        for _ in range(12):
            if constraint.fill(row) is not Status.OK:
                break
            statuses.append(constraint.accept(draw.choice(sorted(bits(row) - {EOS}))))
        return statuses

    with ThreadPoolExecutor(4) as threads:
        assert {status for statuses in threads.map(walk, range(24)) for status in statuses} == {Status.OK}


def test_a_text_that_this_vocabulary_cannot_write_is_a_dead_end() -> None:
    small = Vocabulary.from_tokens([b"a", b"b", b""], eos_token_ids=[2])
    backend = BoundBackend.create(INFO, None, small).unwrap()
    match backend.compile(Regex("é")):
        case Err(error):
            assert error.kind is ErrorKind.UNSATISFIABLE
        case Ok():
            raise AssertionError("no token can begin it")
    constraint = backend.compile(Regex("a|bé")).unwrap().start(max_rollback=1).unwrap()
    row = np.zeros(1, np.int32)
    assert constraint.accept(1) is Status.OK
    assert constraint.fill(row) is Status.DEAD_END
    assert constraint.rollback(1) is Status.OK
    assert constraint.fill(row) is Status.OK
    assert row[0] == 0b011


def test_what_can_be_said_is_valid() -> None:
    """Random walks through the grammars of real schemas, judged by the reference validator."""
    draw = random.Random(11)
    finished = 0
    for case in draw.sample(list(corpora.maskbench()), 40):
        spec = schema(case["schema"])
        match BACKEND.compile(spec), reference_validator(spec):
            case Ok(grammar), Ok(reference):
                for text in texts(grammar, draw, count=4):
                    finished += 1
                    assert reference.is_valid(text), (case["name"], text)
            case _:
                pass
    assert finished > 80


def texts(grammar: Grammar, draw: random.Random, count: int) -> Iterator[str]:
    """Complete texts out of random walks that prefer to close what is open.

    There are no exponents in them: the reference does not take a number whose exponent is very large.
    """
    for _ in range(count):
        constraint, row, written = grammar.start().unwrap(), new_row(), bytearray()
        while len(written) < 400 and constraint.fill(row) is Status.OK:
            choices = sorted(token for token in bits(row) if token <= EOS and token not in (*b" \t\n\rEe",))
            closing = [token for token in choices if token in (EOS, *b'"}]')]
            token = draw.choice(closing if closing and draw.random() < 0.5 else choices or sorted(bits(row)))
            assert constraint.accept(token) is Status.OK
            if token == EOS:
                yield written.decode()
                break
            written.append(token)
