"""Specs: what decides the language decides the key, and nothing else does."""

import json
from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from structout import (
    Choice,
    Ebnf,
    GrammarSpec,
    JsonObject,
    JsonSchema,
    Lark,
    Policy,
    Regex,
    Serialization,
    StructuralTag,
)
from structout.spec import (
    SPEC_KINDS,
    SPEC_TYPES,
    Dialect,
    Escapes,
    FormatMode,
    KeyOrder,
    Whitespace,
    strip_json_whitespace,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(json_values, st.sampled_from([None, 0, 1, 4, "\t"]), st.booleans())
def test_white_space_between_tokens_goes_and_nothing_else(value: object, indent: int | str | None, ascii: bool) -> None:
    compact = json.dumps(value, separators=(",", ":"), ensure_ascii=ascii)
    spaced = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert strip_json_whitespace(spaced) == compact
    assert JsonSchema(spaced).key == JsonSchema(compact).key


def test_the_order_of_properties_is_part_of_the_key() -> None:
    assert JsonSchema('{"a":1,"b":2}').key != JsonSchema('{"b":2,"a":1}').key


def test_a_choice_is_a_set() -> None:
    assert Choice(("a", "b")).key == Choice(["b", "a", "a"]).key
    assert Choice(("a", "b")).key != Choice(("a",)).key
    assert Choice(("ab",)).key != Choice(("a", "b")).key


def test_one_text_is_no_list_of_options() -> None:
    with pytest.raises(TypeError, match="several texts"):
        Choice("abc")


@pytest.mark.parametrize("text", ["tr ue", "1 2", "- 1", "1\n.5", '"a b', '"a\\" b', "tr\t \x00ue"])
def test_what_is_not_json_does_not_become_json_or_something_else(text: str) -> None:
    closed_up = "".join(text.split())
    assert strip_json_whitespace(text) != closed_up
    assert JsonSchema(text).key != JsonSchema(closed_up).key
    assert strip_json_whitespace(f" [ {text}") == f"[{strip_json_whitespace(text)}"


@pytest.mark.parametrize("unit", ['"', '\\"', '"\\', "\\", " ", "a ", '" '])
def test_what_never_ends_is_scanned_once(unit: str) -> None:
    """A scan that went back for each of 300,000 units would not return."""
    for start in ("", '"'):
        assert len(strip_json_whitespace(start + unit * 300_000)) <= len(unit) * 300_000 + 1


@pytest.mark.parametrize(
    ("by_value", "by_member"),
    [
        (Choice(("a",), policy="exact"), Choice(("a",), policy=Policy.EXACT)),
        (
            JsonSchema("{}", dialect="http://json-schema.org/draft-07/schema#", format_mode="annotate"),
            JsonSchema("{}", dialect=Dialect.DRAFT_7, format_mode=FormatMode.ANNOTATE),
        ),
        (
            JsonObject(serialization=Serialization("compact", "any", "minimal")),
            JsonObject(serialization=Serialization(Whitespace.COMPACT, KeyOrder.ANY, Escapes.MINIMAL)),
        ),
    ],
)
def test_a_value_stands_for_its_member(by_value: GrammarSpec, by_member: GrammarSpec) -> None:
    assert (by_value, by_value.key, by_value.policy is by_member.policy) == (by_member, by_member.key, True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Choice(("a",), policy="strict"),
        lambda: JsonSchema("{}", dialect="draft-07"),
        lambda: JsonSchema("{}", format_mode="ignore"),
        lambda: Serialization(whitespace="some"),
        lambda: Serialization(key_order="sorted"),
        lambda: Serialization(escapes=""),
    ],
)
def test_a_value_that_no_member_has_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="is not a valid"):
        make()


VARIANTS: list[GrammarSpec] = [
    JsonSchema("{}"),
    JsonSchema("[]"),
    JsonSchema("{}", dialect=Dialect.DRAFT_7),
    JsonSchema("{}", format_mode=FormatMode.ANNOTATE),
    JsonSchema("{}", serialization=Serialization(whitespace=Whitespace.COMPACT)),
    JsonSchema("{}", serialization=Serialization(key_order=KeyOrder.ANY)),
    JsonSchema("{}", serialization=Serialization(escapes=Escapes.MINIMAL)),
    JsonSchema("{}", registry={"u": "{}"}),
    JsonSchema("{}", registry={"u": "[]"}),
    JsonSchema("{}", policy=Policy.EXACT),
    JsonSchema("{}", policy=Policy.BEST_EFFORT),
    JsonObject(),
    JsonObject(serialization=Serialization(whitespace=Whitespace.SPACED)),
    Regex("{}"),
    Ebnf("{}"),
    Ebnf("{}", root="start"),
    Lark("{}"),
    Choice(("{}",)),
    StructuralTag("{}"),
]


def test_everything_that_decides_the_language_decides_the_key() -> None:
    assert len({spec.key for spec in VARIANTS}) == len(VARIANTS)


def test_a_registry_is_frozen_and_its_order_does_not_matter() -> None:
    mutable = {"b": "{}", "a": "{ }"}
    spec = JsonSchema("{}", registry=mutable)
    mutable["a"] = "changed"
    assert spec.registry == (("a", "{ }"), ("b", "{}"))
    assert spec.key == JsonSchema("{}", registry={"a": "{}", "b": "{}"}).key


@pytest.mark.parametrize("make", [JsonSchema, Regex, Ebnf, Lark, StructuralTag])
def test_text_is_text(make: type[JsonSchema]) -> None:
    with pytest.raises(TypeError):
        make({"type": "object"})  # type: ignore[arg-type]


def test_kinds_are_named_once_each() -> None:
    assert len(SPEC_TYPES) == len(set(SPEC_KINDS)) == 7
