"""What is particular to lm-format-enforcer: what is refused of it, and what it does with the rest."""

import json
import random
from functools import cache
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from structout import Choice, Err, ErrorKind, GrammarSpec, JsonSchema, Ok, Policy, Regex, Serialization, Status
from structout.backend import Backend, Matcher
from structout.discovery import discover
from structout.fuzz.vocabulary import small_vocabulary
from structout.schema import reference_validator

from structout_lmfe import INFO

VOCABULARY = small_vocabulary()
[EOS] = VOCABULARY.eos_token_ids


@cache
def backend() -> Backend:
    return INFO.create(VOCABULARY)


def start(spec: GrammarSpec) -> Matcher:
    return backend().compile(spec).unwrap().start(stop_token_ids=[EOS], max_rollback=0)


def allowed(matcher: Matcher) -> list[int]:
    row = np.full(VOCABULARY.bitmask_width, 77, np.int32)
    assert matcher.fill(row) is Status.OK
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def takes(spec: GrammarSpec, text: str) -> bool:
    """Whether a text is accepted, a byte at a time."""
    matcher = start(spec)
    return all(matcher.accept(byte) is Status.OK for byte in text.encode()) and matcher.is_accepting


def walk(spec: GrammarSpec, seed: int, tokens: int = 60) -> str | None:
    """A text that a random walk through the rows ends with; None if it does not end."""
    draw, matcher, taken = random.Random(seed), start(spec), list[int]()
    for _ in range(tokens):
        choices = allowed(matcher)
        assert choices, VOCABULARY.decode(taken)
        closing = [8 if token == EOS or VOCABULARY.token(token)[:1] in b'"}],:' else 1 for token in choices]
        [token] = draw.choices(choices, closing)
        assert matcher.accept(token) is Status.OK
        if token == EOS:
            return VOCABULARY.decode(taken).decode()
        taken.append(token)
    return None


LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 1},
        {"type": "string", "pattern": "^[a-c]{2}(-\\d)?$"},
        {"type": ["string", "null"]},
        {"type": "boolean"},
        {"enum": ["a", "ab", "b a", ""]},
        {"const": "ab"},
    ]
)


def arrays(items: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        lambda item, least, more: {"type": "array", "items": item, "minItems": least, "maxItems": least + more},
        items,
        st.integers(0, 2),
        st.integers(1, 2),
    )


def objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.sampled_from(["a", "ab", "name"]), values, min_size=1)
    return properties.map(lambda each: {"type": "object", "properties": each, "required": sorted(each)})


def unions(branches: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """At most one of the branches is more than a literal, and that is no union."""
    literals = st.sampled_from([{"type": "null"}, {"type": "boolean"}, {"enum": ["a", "é"]}, {"const": "ab"}])
    return st.builds(
        lambda one, rest, first: {"anyOf": [one, *rest] if first else [*rest, one]},
        LEAVES | objects(branches) | arrays(branches),
        st.lists(literals, max_size=2),
        st.booleans(),
    )


SCHEMAS = st.recursive(LEAVES, lambda inner: arrays(inner) | objects(inner) | unions(inner), max_leaves=6)


@settings(deadline=None, derandomize=True)
@given(schema=SCHEMAS, order=st.sampled_from(["declared", "any"]), seed=st.integers(0, 2**16))
def test_what_it_takes_it_enforces(schema: Any, order: str, seed: int) -> None:
    spec = JsonSchema(json.dumps(schema), serialization=Serialization(key_order=order))
    text = walk(spec, seed)
    assert text is None or reference_validator(spec).unwrap().is_valid(text)


REFUSED: dict[str, tuple[Any, str, str]] = {
    "numbers": ({"type": "number"}, "", "type"),
    "integers": (
        {"properties": {"n": {"type": "integer"}}, "type": "object", "required": ["n"]},
        "/properties/n",
        "type",
    ),
    "anything": ({"type": "array", "items": {}}, "/items", "type"),
    "everything": (True, "", "type"),
    "no items": ({"type": "array"}, "", "type"),
    "optional members": ({"type": "object", "properties": {"a": {"type": "null"}}}, "", "properties"),
    "maps": ({"type": "object", "additionalProperties": {"type": "null"}}, "", "additionalProperties"),
    "lengths": ({"type": "string", "maxLength": 3}, "", "maxLength"),
    "formats": ({"type": "string", "format": "date"}, "", "format"),
    "siblings": ({"anyOf": [{"type": "null"}], "minLength": 1}, "", "minLength"),
    "other references": ({"$ref": "#/properties/a", "properties": {"a": {"type": "null"}}}, "", "$ref"),
    "quotes": ({"enum": ['"']}, "", "enum"),
    "values that are no texts": ({"enum": [1, 12]}, "", "enum"),
    "constants": ({"const": None}, "", "const"),
    "wide patterns": ({"type": "string", "pattern": "^.$"}, "", "pattern"),
    "several branches": ({"anyOf": [{"type": "string"}, {"type": "string"}]}, "", "anyOf"),
    "oneOf": ({"oneOf": [{"type": "null"}]}, "", "oneOf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_would_drop_is_refused_with_its_place(name: str) -> None:
    schema, pointer, keyword = REFUSED[name]
    spec = JsonSchema(json.dumps(schema))
    match backend().compile(spec):
        case Err(error):
            assert error.kind is ErrorKind.UNSUPPORTED
            assert (error.pointer, error.keyword) == (pointer, keyword)
            assert INFO.refusal(spec) == error
        case Ok():
            pytest.fail("it compiled")


@pytest.mark.parametrize(
    ("schema", "text"),
    [({"type": "number"}, "1.e5"), ({"type": "integer"}, "1e-5"), ({"type": "string", "maxLength": 1}, '"  a"')],
    ids=["no JSON", "no integer", "too long"],
)
def test_best_effort_takes_it_and_says_so(schema: Any, text: str) -> None:
    """That the text is taken is why the schema is refused: where it is no longer, the rule can go."""
    spec = JsonSchema(json.dumps(schema), policy=Policy.BEST_EFFORT)
    assert takes(spec, text)
    assert not reference_validator(spec).unwrap().is_valid(text)
    assert [finding.keyword for finding in backend().compile(spec).unwrap().unenforced] == list(schema)[-1:]


def test_members_come_in_the_order_that_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "null"}, "a": {"type": "null"}}, "required": ["a", "b"]}
    declared, other = '{"b":null,"a":null}', '{"a":null,"b":null}'
    for order, answers in (("declared", (True, False)), ("any", (True, True))):
        spec = JsonSchema(json.dumps(schema), serialization=Serialization(key_order=order))
        assert (takes(spec, declared), takes(spec, other)) == answers


def test_an_error_inside_is_a_failure_and_no_end_of_the_text() -> None:
    spec = JsonSchema('{"type": "array", "items": {"const": 5}}', policy=Policy.BEST_EFFORT)
    matcher = start(spec)
    assert matcher.accept(ord("[")) is Status.FAILED
    assert not matcher.is_terminated


def test_strings_are_left_only_where_json_allows_it() -> None:
    matcher = start(JsonSchema('{"type": "string"}'))
    for byte in b'"a':
        matcher.accept(byte)
    after = {VOCABULARY.token(token) for token in allowed(matcher)}
    assert {b'"', b"\\", b"name"} <= after
    assert not {b"\n", b"\t", b"\0", b'",', b"\\u"} & after
    matcher.accept(ord("\\"))
    assert {VOCABULARY.token(token) for token in allowed(matcher)} >= {b"n", b'"', b"name"}
    assert matcher.accept(ord("u")) is Status.REJECTED


def test_regular_expressions() -> None:
    spec = Regex("a[bc]|é?")
    assert [text for text in ("ab", "ac", "", "a", "abc") if takes(spec, text)] == ["ab", "ac", ""]


def test_a_character_is_one_token_or_none() -> None:
    matcher = start(Regex("é"))
    [whole] = [token for token, piece in enumerate(VOCABULARY.tokens()) if piece == "é".encode()]
    assert allowed(matcher) == [whole]
    assert matcher.accept("é".encode()[0]) is Status.REJECTED
    assert matcher.accept(whole) is Status.OK


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [("(a", ErrorKind.INVALID_SPEC), (r"\bfoo", ErrorKind.UNSUPPORTED), ("^a$", ErrorKind.UNSUPPORTED)],
)
def test_regular_expressions_that_it_cannot_read(pattern: str, kind: ErrorKind) -> None:
    match backend().compile(Regex(pattern)):
        case Err(error):
            assert error.kind is kind
        case Ok():
            pytest.fail("it compiled")


def test_choices() -> None:
    spec = Choice(("yes", "yes, certainly", "no"))
    assert [text for text in ("yes", "yes, certainly", "no", "ye", "yes,", "") if takes(spec, text)] == list(
        spec.options
    )


def test_structout_finds_it() -> None:
    assert discover().find("lmfe").unwrap().info is INFO
