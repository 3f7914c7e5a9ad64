"""The reference backend: exact on what it takes, and a refusal with a place for everything else."""

import json
import random
import re
from collections.abc import Sequence
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
    GrammarSpec,
    JsonObject,
    JsonSchema,
    Ok,
    Policy,
    Regex,
    Status,
    StructuralTag,
    Vocabulary,
)
from structout.grammar import BoundBackend, Grammar
from structout.schema import reference_validator
from structout.spec import Dialect, Escapes, FormatMode, KeyOrder, Serialization, Whitespace
from structout_reference import recognizer, structout_register_backends
from structout_reference.characters import blocks, digits, union, utf8
from tests import corpora
from tests.fakes import BYTES, EOS, allowed

INFO = next(iter(structout_register_backends()))
BACKEND = BoundBackend.create(INFO, None, BYTES).unwrap()


def compiled(spec: GrammarSpec) -> Grammar:
    return BACKEND.compile(spec).unwrap()


def refused(spec: GrammarSpec) -> GrammarError:
    match BACKEND.compile(spec):
        case Err(error):
            return error
        case Ok():
            raise AssertionError(f"{spec} was compiled")


def accepts(grammar: Grammar, text: str) -> bool:
    """Whether the bytes of a text are accepted, and the end after them."""
    matcher = grammar.compiled.start(stop_token_ids=[EOS], max_rollback=0)
    return all(matcher.accept(token) is Status.OK for token in (*text.encode(), EOS))


def accepted(spec: GrammarSpec, texts: Sequence[str]) -> list[str]:
    grammar = compiled(spec)
    return [text for text in texts if accepts(grammar, text)]


def schema(value: Any, **options: Any) -> JsonSchema:
    return JsonSchema(json.dumps(value), **options)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("", [""], ["a"]),
        ("a|ab|a(-a)?", ["a", "ab", "a-a"], ["", "a-", "aba"]),
        ("^a|b$", ["a", "b"], ["ab"]),
        ("^(?:a|b)$", ["a", "b"], ["ab"]),
        ("(a?){3}b*?", ["", "aaa", "aab"], ["aaaa"]),
        ("x{2,}|y{3}", ["xx", "xxxx", "yyy"], ["x", "yy", "yyyy"]),
        ("x.y", ["xzy", "xéy", "x\ry", "x😀y"], ["x\ny", "xy"]),
        ("[^a-c]", ["d", "\n", "漢", "😀", "\x7f"], ["a", "b", "", "de"]),
        (r"[\]\-^\\a-c]+", ["]-^\\abc"], ["d", "["]),
        ("[-a]+[a-]", ["-a", "a-"], ["b-"]),
        ("[à-ÿĀ-😀]", ["é", "漢", "😀"], ["z", "😁"]),
        (r"\n\r\t\f\v\x41é\.\/\-", ["\n\r\t\f\vAé./-"], ["nrtfvA"]),
        ("a]}", ["a]}"], ["a]"]),
    ],
)
def test_regex(pattern: str, yes: list[str], no: list[str]) -> None:
    assert accepted(Regex(pattern), yes + no) == yes
    assert all(re.fullmatch(pattern, text) for text in yes)
    assert not any(re.fullmatch(pattern, text) for text in no)


@pytest.mark.parametrize(
    ("pattern", "kind", "offset"),
    [
        ("a(", ErrorKind.INVALID_SPEC, 1),
        ("a)", ErrorKind.INVALID_SPEC, 1),
        ("[a", ErrorKind.INVALID_SPEC, 0),
        ("[b-a]", ErrorKind.INVALID_SPEC, 1),
        ("a{2,1}", ErrorKind.INVALID_SPEC, 1),
        ("*", ErrorKind.INVALID_SPEC, 0),
        ("a**", ErrorKind.INVALID_SPEC, 2),
        ("a\\", ErrorKind.INVALID_SPEC, 1),
        ("\ud800", ErrorKind.INVALID_SPEC, None),
        ("a*+", ErrorKind.UNSUPPORTED, 2),
        (r"a\d", ErrorKind.UNSUPPORTED, 1),
        (r"\bword", ErrorKind.UNSUPPORTED, 0),
        (r"(a)\1", ErrorKind.UNSUPPORTED, 3),
        (r"\ud83d", ErrorKind.UNSUPPORTED, 0),
        ("a(?=b)", ErrorKind.UNSUPPORTED, 1),
        ("(?P<n>b)", ErrorKind.UNSUPPORTED, 0),
        ("a^b", ErrorKind.UNSUPPORTED, 1),
        ("(a$)b", ErrorKind.UNSUPPORTED, 2),
        ("[]a]", ErrorKind.UNSUPPORTED, 0),
        ("[a&&b]", ErrorKind.UNSUPPORTED, 2),
        ("[[a]", ErrorKind.UNSUPPORTED, 1),
        ("a{,3}", ErrorKind.UNSUPPORTED, 1),
        ("(" * 51 + ")" * 51, ErrorKind.TOO_COMPLEX, 50),
        ("((a{100}){100}){100}", ErrorKind.TOO_COMPLEX, None),
        ("ab" * 10_001, ErrorKind.TOO_COMPLEX, None),
    ],
)
def test_refused_regex(pattern: str, kind: ErrorKind, offset: int | None) -> None:
    error = refused(Regex(pattern))
    assert (error.kind, error.offset) == (kind, offset)


@pytest.mark.parametrize(
    ("source", "yes", "no"),
    [
        ('root ::= root "a" | "b"', ["b", "ba", "baaa"], ["", "a", "ab"]),
        ('root ::= root root | "a" | ""', ["", "a", "aaaaa"], ["b"]),
        ('root ::= "(" root ")" | [0-9]+', ["1", "((23))"], ["(1", "1)", "()"]),
        ('root ::= a "x"\na ::= b\nb ::= a | "y" | root', ["yx", "yxxx"], ["y", "x"]),
        ('root ::= a a\na ::= "x"?', ["", "x", "xx"], ["xxx"]),
        ('root ::= (e "," )* e # list\ne ::= [a-c] | "[" root "]"\n', ["a", "a,b", "[a,[b]],c"], ["", "a,", "[]"]),
        ('root ::= ("a" | b-2){2,3}\n\n# b\nb-2 ::= "\\"" [^"\\n]* "\\""', ['a""', '"é"aa'], ["a", "aaaa", '"\n"a']),
        ('root ::= "\\x41\\u00e9\\U0001F600\\\\" | ""', ["Aé😀\\", ""], ["A"]),
        ('root ::=\n  "a" |\n  "b"\n', ["a", "b"], ["ab"]),
    ],
)
def test_ebnf(source: str, yes: list[str], no: list[str]) -> None:
    assert accepted(Ebnf(source), yes + no) == yes


@pytest.mark.parametrize(
    ("source", "kind", "offset"),
    [
        ('x ::= "a"', ErrorKind.INVALID_SPEC, None),
        ("root ::= a", ErrorKind.INVALID_SPEC, 9),
        ('root ::= "a', ErrorKind.INVALID_SPEC, 9),
        ('root ::= ("a"', ErrorKind.INVALID_SPEC, 9),
        ('root ::= "a")', ErrorKind.INVALID_SPEC, 12),
        ('root ::= "a" root ::= "b"', ErrorKind.INVALID_SPEC, 13),
        ('root = "a"', ErrorKind.INVALID_SPEC, 0),
        (r'root ::= "\q"', ErrorKind.INVALID_SPEC, 10),
        ('root ::= . "a"', ErrorKind.UNSUPPORTED, 9),
        ('root ::= (="a") "b"', ErrorKind.UNSUPPORTED, 9),
        ("root ::= root", ErrorKind.UNSATISFIABLE, None),
        ('root ::= "a" b\nb ::= "c" b', ErrorKind.UNSATISFIABLE, None),
    ],
)
def test_refused_ebnf(source: str, kind: ErrorKind, offset: int | None) -> None:
    error = refused(Ebnf(source))
    assert (error.kind, error.offset) == (kind, offset)


def test_another_root() -> None:
    assert accepted(Ebnf('root ::= "a"\nother ::= root "b"', root="other"), ["a", "ab"]) == ["ab"]


def test_choice() -> None:
    options = ["", "a", "ab", 'quote " and \\', "naïve é", "a.b*c\n"]
    assert accepted(Choice(options), [*options, "a.", "abc", "axb*c\n"]) == options
    many = [f"option {number}" for number in range(3_000)]
    assert accepted(Choice(many), ["option 0", "option 2999", "option 3000", "option 30"]) == [
        "option 0",
        "option 2999",
        "option 30",
    ]
    assert refused(Choice([])).kind is ErrorKind.INVALID_SPEC
    assert refused(Choice(["\udc00"])).kind is ErrorKind.INVALID_SPEC


def tag(format_: Any) -> StructuralTag:
    return StructuralTag(json.dumps({"type": "structural_tag", "format": format_}))


def test_structural_tag() -> None:
    call = {
        "type": "tag",
        "begin": "<f>",
        "content": {"type": "json_schema", "json_schema": {"properties": {"a": {"$ref": "#"}}, "type": "object"}},
        "end": "</f>",
    }
    word = {"type": "regex", "pattern": "[a-z]+"}
    format_ = {"type": "sequence", "elements": [word, {"type": "or", "elements": [call, word]}]}
    texts = ['x<f>{"a":{}}</f>', "xy", 'x<f>{"a":1}</f>', "x<f>{}</f", "<f>{}</f>"]
    assert accepted(tag(format_), texts) == texts[:2]


@pytest.mark.parametrize(
    ("format_", "kind", "pointer"),
    [
        ({"type": "triggered_tags", "triggers": ["a"], "tags": []}, ErrorKind.UNSUPPORTED, "/format"),
        ({"type": "or", "elements": [{"type": "any_text"}]}, ErrorKind.UNSUPPORTED, "/format/elements/0"),
        ({"type": "regex", "pattern": "("}, ErrorKind.INVALID_SPEC, "/format/pattern"),
        ({"type": "json_schema", "json_schema": {"not": {}}}, ErrorKind.UNSUPPORTED, "/format/json_schema"),
        ({"type": "json_schema", "json_schema": {"type": 1}}, ErrorKind.INVALID_SPEC, "/format/json_schema/type"),
    ],
)
def test_refused_tag(format_: Any, kind: ErrorKind, pointer: str) -> None:
    error = refused(tag(format_))
    assert (error.kind, error.pointer) == (kind, pointer)


TREE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
    "required": ["v"],
    "additionalProperties": False,
}
POINT = {"properties": {"ab": {"type": "boolean"}, "é": {"maxLength": 1}}, "additionalProperties": {"type": "null"}}
ROW = {"prefixItems": [{"type": "integer"}, {"type": "boolean"}], "items": {"type": "null"}, "minItems": 1}
SCHEMAS: dict[str, tuple[Any, list[str]]] = {
    "anything": (True, ["1", "null", '"a"', "[1, {}]", '{"a": [true]}', "-1.5e+3", "01", "[1,]", "tru", "1.", '"\n"']),
    "recursion": (TREE, ['{"v": 1}', '{"v": 1, "next": {"v": 2, "next": null}}', '{"v": 1, "next": {}}', '{"w": 1}']),
    "members": (
        POINT,
        [
            "{}",
            '{"ab": true}',
            '{"é": "x"}',
            '{"ab": true, "é": "😀", "abc": null, "": null}',
            '{"a": null}',
            '{"\\u0061\\u0062": false}',
            '{"\\u0061b": null}',
            '{"a\\u0062": null}',
            '{"ab": null}',
            '{"é": "xy"}',
            '{"é": "\\ud83d\\ude00"}',
            '{"\\u00E9": "xy"}',
            '{"b": 1}',
            "[]",
            "1",
            '{"ab": true,}',
        ],
    ),
    "items": (ROW, ["[]", "[1]", "[1, true]", "[1, true, null, null]", "[true]", "[1, true, 2]", "{}", '"a"']),
    "item counts": (
        {"type": "array", "prefixItems": [True, True, {"type": "null"}], "minItems": 1, "maxItems": 2},
        ["[]", "[1]", "[1, 2]", "[1, 2, null]"],
    ),
    "exact items": (
        {"type": "array", "items": {"const": 1}, "minItems": 2, "maxItems": 3},
        ["[1]", "[1,1]", "[1,1,1]"],
    ),
    "no items": ({"type": "array", "items": False}, ["[]", "[1]"]),
    "types": ({"type": ["integer", "null", "boolean"]}, ["0", "-7", "1.5", "null", "false", '"0"', "[]"]),
    "number": ({"type": "number"}, ["1", "-0.50", "1e9", "2E-7", "+1", ".5", "0x1", "1e"]),
    "lengths": (
        {"type": "string", "minLength": 1, "maxLength": 2},
        ['""', '"a"', '"漢字"', '"😀"', '"\\ud83d\\ude00b"', '"\\n\\/"', '"abc"', '"\\u0061\\u0062\\u0063"', '"\\q"'],
    ),
    "pattern": (
        {"type": "string", "pattern": "^[a-c]+|\\d$|é\\s"},
        ['"abX"', '"x1"', '"xéx"', '"éé x"', '"x"', '"\\u0061"', '"1x"', '"é\\tx"', '"x\\u0031"', '"x\\u0661"'],
    ),
    "dot": ({"type": "string", "pattern": "^.$"}, ['"a"', '"\\n"', '"\\r"', '"\\u2028"', '"😀"', '"\\"', '"\\u0085"']),
    "integers": (
        {"type": "integer", "minimum": -12, "exclusiveMaximum": 205},
        [str(number) for number in (*range(-30, 40), *range(190, 220), 1000, -100)] + ["-0", "00", "-01"],
    ),
    "from": ({"type": "integer", "exclusiveMinimum": 98.5}, ["98", "99", "100", "12345", "-99", "099"]),
    "to": ({"type": "integer", "maximum": -99}, ["-98", "-99", "-100", "-12345", "99", "0"]),
    "enum": (
        {"enum": ["a", 1, None, [1, {"k": 'q"'}], 2.50], "type": ["string", "array", "number"]},
        ['"a"', '"\\u0061"', "1", "null", '[1, {"k": "q\\""}]', "2.5", "2", "[]"],
    ),
    "const": ({"const": {"k": []}}, ['{"k": []}', "{}", '{"k": [1]}']),
}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("dialect", [Dialect.DRAFT_2020_12, Dialect.DRAFT_7])
def test_schemas_mean_what_the_reference_validator_says(name: str, dialect: Dialect) -> None:
    value, texts = SCHEMAS[name]
    if dialect is Dialect.DRAFT_7 and "prefixItems" in json.dumps(value):
        pytest.skip("an annotation to draft 7")
    spec = schema(value, dialect=dialect)
    validator = reference_validator(spec).unwrap()
    valid = [text for text in texts if validator.is_valid(text)]
    assert valid
    assert len(valid) < len(texts)
    assert accepted(spec, texts) == valid


WORDS = ("a", "b", "", "ab", "é")
LEAVES = st.one_of(
    st.sampled_from([True, {}, {"type": "null"}, {"type": "boolean"}, {"type": "number"}, {"const": "a"}]),
    st.builds(
        lambda low, high: {"type": "integer", "minimum": low, "maximum": high},
        st.integers(-15, 15),
        st.integers(-15, 120),
    ),
    st.builds(lambda low, high: {"type": "string", "minLength": low, "maxLength": high}, *[st.integers(0, 3)] * 2),
    st.sampled_from([{"type": "string", "pattern": pattern} for pattern in ("^a", "b$", "a|b", "[^ab]", "^a?b*$")]),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda first, items, low, high: {
                "type": "array",
                "prefixItems": first,
                "items": items,
                "minItems": low,
                "maxItems": high,
            },
            st.lists(inner, min_size=1, max_size=2),
            inner | st.just(False),
            st.integers(0, 2),
            st.integers(0, 3),
        ),
        st.builds(
            lambda properties, additional, needed: {
                "type": "object",
                "properties": properties,
                "additionalProperties": additional,
                "required": list(properties)[needed:],
            },
            st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
            inner | st.just(False),
            st.integers(0, 3),
        ),
    ),
    max_leaves=5,
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-20, 130), st.sampled_from([*WORDS, "😀", "ba", "aab"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=5,
)


def in_order(value: Any, properties: Sequence[str]) -> Any:
    return {name: value[name] for name in (*properties, *value) if name in value} if isinstance(value, dict) else value


@settings(max_examples=150)
@given(TREES, st.lists(VALUES, min_size=3, max_size=8))
def test_generated_schemas_mean_what_the_reference_validator_says(value: Any, instances: list[Any]) -> None:
    """Of a few values each; members of nested objects are in the order of their sampled names, so only that of the root
    is put into the schema's."""
    spec = schema(value)
    validator = reference_validator(spec).unwrap()
    properties = value.get("properties", ()) if isinstance(value, dict) else ()
    nested = json.dumps(value).count('"properties"') > 1
    texts = [json.dumps(in_order(instance, properties)) for instance in instances]
    match BACKEND.compile(spec):
        case Err(error):
            assert error.kind is ErrorKind.UNSATISFIABLE, error
            assert not any(map(validator.is_valid, texts))
        case Ok(grammar):
            found = [text for text in texts if accepts(grammar, text)]
            valid = [text for text in texts if validator.is_valid(text)]
            assert found == valid or (nested and set(found) <= set(valid))


def test_maskbench_is_judged_right() -> None:
    """Each of 20 schemas of the sample is refused, or all its instances are judged as they are labelled."""
    taken = 0
    for labelled in list(corpora.maskbench())[:1_500:75]:
        match BACKEND.compile(schema(labelled["schema"])):
            case Err(error):
                assert error.kind in (ErrorKind.UNSUPPORTED, ErrorKind.TOO_COMPLEX), (labelled["name"], error)
            case Ok(grammar):
                taken += 1
                for instance in labelled["tests"]:
                    verdict = accepts(grammar, json.dumps(instance["data"]))
                    assert verdict is instance["valid"], (labelled["name"], instance)
    assert taken >= 10


@pytest.mark.parametrize(
    ("value", "pointer", "keyword"),
    [
        ({"properties": {"a": {"not": {}}}}, "/properties/a", "not"),
        ({"items": {"uniqueItems": True}}, "/items", "uniqueItems"),
        ({"allOf": [{}]}, "", "allOf"),
        ({"anyOf": [{}], "type": "string"}, "", "anyOf"),
        ({"$ref": "#/$defs/a", "minimum": 1, "$defs": {"a": {}}}, "", "$ref"),
        ({"enum": ["abc"], "maxLength": 1}, "", "enum"),
        ({"const": {"a": 1, "b": 2}}, "", "const"),
        ({"type": "number", "minimum": 1}, "", "minimum"),
        ({"minimum": 1}, "", "minimum"),
        ({"type": "string", "pattern": "a", "maxLength": 3}, "", "pattern"),
        ({"items": {"type": "string", "pattern": "(?=a)"}}, "/items", "pattern"),
        ({"type": "string", "format": "date"}, "", "format"),
        ({"required": ["a"]}, "", "required"),
        ({"type": "integer", "maximum": 1e500}, "", "maximum"),
        ({"items": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}, "/items", "$ref"),
    ],
)
@pytest.mark.parametrize("policy", Policy)
def test_what_is_not_enforced_is_refused_under_every_policy(
    value: Any, pointer: str, keyword: str, policy: Policy
) -> None:
    text = json.dumps(value).replace("Infinity", "1e500")
    error = refused(JsonSchema(text, policy=policy))
    assert (error.kind, error.pointer, error.keyword) == (ErrorKind.UNSUPPORTED, pointer, keyword)


@pytest.mark.parametrize(
    "value",
    [
        False,
        {"type": "string", "minLength": 2, "maxLength": 1},
        {"type": "array", "items": False, "minItems": 1},
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"enum": [1], "type": "string"},
    ],
)
def test_unsatisfiable_schemas(value: Any) -> None:
    assert refused(schema(value)).kind is ErrorKind.UNSATISFIABLE


def test_an_option_without_an_end_is_no_dead_end() -> None:
    value = {"properties": {"a": {"type": "array", "items": False, "minItems": 1}, "b": {}}, "type": "object"}
    matcher = compiled(schema(value, serialization=Serialization(whitespace="compact"))).start().unwrap()
    for byte in b'{"':
        assert matcher.accept(byte) is Status.OK
    assert matcher.accept(ord("b")) is Status.OK
    assert accepted(schema(value), ['{"b": 1}', '{"a": []}', '{"a": [1]}']) == ['{"b": 1}']


def test_formats_are_annotations_where_the_spec_says_so() -> None:
    spec = schema({"type": "string", "format": "date"}, format_mode=FormatMode.ANNOTATE)
    assert accepted(spec, ['"x"']) == ['"x"']


def test_draft_7_ignores_what_stands_beside_a_reference() -> None:
    value = {"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": {"type": "string"}}}
    assert accepted(schema(value, dialect=Dialect.DRAFT_7), ['"ab"', "1"]) == ['"ab"']


def test_references_lead_to_the_registry() -> None:
    registry = {"urn:a": '{"type": "array", "items": {"$ref": "urn:b"}}', "urn:b": '{"type": "boolean"}'}
    assert accepted(schema({"$ref": "urn:a"}, registry=registry), ["[true]", "[1]"]) == ["[true]"]


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "array"}}, "required": ["a"]}
SPACED = '{"a": "é/", "b": [1, {}]}'
COMPACT = SPACED.replace(" ", "")
LOOSE = ' {"a" :\n"é/",\t"b": [ 1,{ } ]\r}\n'
ESCAPED = SPACED.replace("é/", "\\u00E9\\/\\u0041")
NEEDED = SPACED.replace("é/", "\\n\\\\\\u001F")
LONG = SPACED.replace("é/", "\\u000a")


@pytest.mark.parametrize(
    ("serialization", "expected"),
    [
        (Serialization(), [SPACED, COMPACT, LOOSE, ESCAPED, NEEDED, LONG]),
        (Serialization(whitespace=Whitespace.SPACED), [SPACED, ESCAPED, NEEDED, LONG]),
        (Serialization(whitespace=Whitespace.COMPACT), [COMPACT]),
        (Serialization(whitespace=Whitespace.SPACED, escapes=Escapes.MINIMAL), [SPACED, NEEDED]),
    ],
)
@pytest.mark.parametrize("kind", ["json_schema", "json_object"])
def test_serialization(kind: str, serialization: Serialization, expected: list[str]) -> None:
    texts = [SPACED, COMPACT, LOOSE, ESCAPED, NEEDED, LONG]
    is_schema = kind == "json_schema"
    spec = schema(OBJECT, serialization=serialization) if is_schema else JsonObject(serialization=serialization)
    assert accepted(spec, texts) == expected


def test_any_order_is_refused_where_there_is_an_order() -> None:
    policy = Serialization(key_order=KeyOrder.ANY)
    assert refused(schema({"items": OBJECT}, serialization=policy)).pointer == "/items"
    assert accepted(schema({"type": "object"}, serialization=policy), ['{"b":1,"a":2}'])
    assert accepted(JsonObject(serialization=policy), ['{"b":1,"a":2}'])


SPECS: tuple[GrammarSpec, ...] = (
    Regex("(ab|cd)*é?|[^a]{2,3}"),
    Ebnf('root ::= "(" root ")" root | "ab"? | root "é"'),
    Choice(["ab", "abé", "", "cd", "c"]),
    JsonObject(),
    schema(TREE),
    schema(POINT),
    tag({"type": "tag", "begin": "ab", "content": {"type": "regex", "pattern": "[cd]*"}, "end": "é"}),
)


def walked(spec: GrammarSpec, seed: int, tokens: int) -> tuple[Any, list[int]]:
    """A matcher after a random walk through its own masks, and the tokens of the walk."""
    matcher = compiled(spec).compiled.start(stop_token_ids=[EOS], max_rollback=0)
    draw, taken = random.Random(seed), list[int]()
    for _ in range(tokens):
        choices = sorted(filled(matcher) - {EOS})
        if not choices:
            break
        taken.append(draw.choice(choices))
        assert matcher.accept(taken[-1]) is Status.OK
    return matcher, taken


def filled(matcher: Any) -> set[int]:
    row = np.full(BYTES.bitmask_width, 12345, np.int32)
    assert matcher.fill(row) is Status.OK
    return allowed(row, BYTES.bitmask_width * 32)


@settings(max_examples=60)
@given(st.sampled_from(SPECS), st.integers(0, 10**6), st.integers(0, 20))
def test_masks_are_what_is_accepted_and_never_empty(spec: GrammarSpec, seed: int, tokens: int) -> None:
    matcher, _ = walked(spec, seed, tokens)
    bits = filled(matcher)
    assert bits
    assert (EOS in bits) is matcher.is_accepting
    for token in (*range(-1, BYTES.padded_size + 40), 10**9):
        fork = matcher.fork()
        assert (fork.accept(token) is Status.OK) is (token in bits), token
        assert fork.is_terminated is (token == EOS and token in bits)


@settings(max_examples=60)
@given(st.sampled_from(SPECS), st.integers(0, 10**6), st.integers(0, 20), st.integers(0, 20))
def test_rollback_leads_back(spec: GrammarSpec, seed: int, tokens: int, back: int) -> None:
    matcher, taken = walked(spec, seed, tokens)
    stopped = matcher.accept(EOS) is Status.OK
    back = min(back, len(taken) + stopped)
    assert matcher.rollback(back) is Status.OK
    assert matcher.is_terminated is (stopped and back == 0)
    kept = taken[: len(taken) + stopped - back]
    fresh = compiled(spec).compiled.start(stop_token_ids=[EOS], max_rollback=0)
    assert all(fresh.accept(token) is Status.OK for token in kept)
    assert matcher.is_accepting is fresh.is_accepting
    if not matcher.is_terminated:
        assert filled(matcher) == filled(fresh)


def test_after_the_end_there_is_nothing_but_the_way_back() -> None:
    matcher, _ = walked(Regex("ab"), 0, 2)
    assert matcher.accept(EOS) is Status.OK
    assert matcher.is_accepting
    assert matcher.fill(np.zeros(BYTES.bitmask_width, np.int32)) is Status.TERMINATED
    assert [matcher.accept(token) for token in (EOS, ord("a"))] == [Status.TERMINATED] * 2
    assert matcher.rollback(1) is Status.OK
    assert filled(matcher) == {EOS}


def test_a_stop_token_is_no_text_whatever_it_spells() -> None:
    stop = ord("b")
    matcher = compiled(Regex("a?b?")).compiled.start(stop_token_ids=[stop, 31, EOS], max_rollback=0)
    assert filled(matcher) == {ord("a"), 257, 31, stop, EOS}
    assert matcher.accept(257) is Status.OK  # "ab", a token of text that ends as the stop token does
    assert filled(matcher) == {31, stop, EOS}
    assert matcher.accept(stop) is Status.OK
    assert matcher.is_terminated


def test_a_fork_shares_nothing_that_changes() -> None:
    matcher, _ = walked(Regex("a{3}"), 0, 1)
    fork = matcher.fork()
    assert fork.accept(ord("a")) is fork.accept(ord("a")) is Status.OK
    assert fork.is_accepting
    assert not matcher.is_accepting
    assert matcher.rollback(1) is Status.OK
    assert fork.is_accepting


def test_a_batch_is_its_rows() -> None:
    matchers = [walked(spec, 1, number)[0] for number, spec in enumerate(SPECS)]
    matchers[2].accept(EOS)
    rows = list(reversed(range(len(matchers))))
    bitmask = np.zeros((len(matchers), BYTES.bitmask_width), np.int32)
    assert BACKEND.batch_filler is not None
    statuses = BACKEND.batch_filler.fill_batch(matchers, bitmask, rows)
    for matcher, row, status in zip(matchers, rows, statuses, strict=True):
        assert status is (Status.TERMINATED if matcher.is_terminated else Status.OK)
        assert matcher.is_terminated or filled(matcher) == allowed(bitmask[row], BYTES.bitmask_width * 32)


def test_it_goes_on_after_it_has_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognizer, "MAX_CHARTS", 3)
    assert accepted(Ebnf('root ::= "(" root ")" | [0-9]+'), ["((((((12))))))", "(((1))"]) == ["((((((12))))))"]
    assert accepted(Regex("(ab|cd){3,90}"), ["abcdab" * 9, "abc"]) == ["abcdab" * 9]


def test_counts_are_not_copied() -> None:
    """Nor do they multiply where the text can be read in many ways."""
    assert accepted(Regex("[a-z]{0,90000}x"), ["a" * 50 + "x"])
    assert accepted(Regex("((a?){0,9}){9}"), ["", "a" * 81, "a" * 82]) == ["", "a" * 81]
    assert accepted(schema({"type": "string", "maxLength": 10**9}), ['"abc"'])


def test_what_a_vocabulary_cannot_spell_is_left_out() -> None:
    few = Vocabulary.from_tokens([b"a", b"b", b"", b"ab"], eos_token_ids=[2])
    backend = BoundBackend.create(INFO, None, few).unwrap()
    matcher = backend.compile(Regex("ab|ac|b")).unwrap().start().unwrap()
    row = np.zeros(1, np.int32)
    assert matcher.accept(0) is Status.OK
    assert matcher.fill(row) is Status.OK
    assert allowed(row, 32) == {1}
    match backend.compile(Regex("ac|[^ab]")):
        case Err(error):
            assert error.kind is ErrorKind.UNSATISFIABLE
        case Ok():
            pytest.fail("compiled")


@given(st.lists(st.tuples(*[st.integers(0, 0x10FFFF)] * 2).map(sorted), max_size=3), st.characters(codec="utf-8"))
def test_utf8_of_a_set_is_the_utf8_of_its_characters(pairs: list[list[int]], character: str) -> None:
    inside = any(first <= ord(character) <= last for first, last in pairs)
    ranges = union((first, last) for first, last in pairs)
    machine = recognizer.Recognizer({"character": utf8(ranges)}, "character")
    chart: recognizer.Chart | None = machine.first
    for byte in character.encode():
        chart = machine.step(chart, byte) if chart else None
    assert (chart is not None and machine.is_complete(chart)) is inside


def test_no_half_of_a_surrogate_pair_is_a_character() -> None:
    half, wide = b"\xed\xa0\x80", "[\ud7ff-\ue000]"
    matcher = compiled(Regex(wide)).compiled.start(stop_token_ids=[EOS], max_rollback=0)
    assert [matcher.accept(byte) for byte in half[:2]] == [Status.OK, Status.REJECTED]
    texts = ['"\ue000"', '"\\uE000"', '"\\ud800"', '"\\ud83d\\ude00"']
    assert accepted(schema({"type": "string", "pattern": wide}), texts) == texts[:2]


@given(st.integers(0, 9999), st.integers(0, 9999))
def test_blocks_hold_each_number_once(one: int, other: int) -> None:
    low, high = sorted((one, other))
    found = list(blocks(digits(low, 10, 4), digits(high, 10, 4), 9))
    sizes = [np.prod([last - first + 1 for first, last in block]) for block in found]
    assert sum(sizes) == high - low + 1
    for number in {low, high, (low + high) // 2}:
        places = digits(number, 10, 4)
        held = [
            all(first <= place <= last for place, (first, last) in zip(places, block, strict=True)) for block in found
        ]
        assert held.count(True) == 1
