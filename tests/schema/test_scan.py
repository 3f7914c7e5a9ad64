"""Rules, their conditions, and the refusals that follow from what they find."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.backend import Finding
from structout.errors import ErrorKind
from structout.result import Ok
from structout.schema import (
    Condition,
    Rule,
    Schema,
    all_of,
    always,
    below_root,
    beside,
    findings,
    pointer,
    reachable,
    refusal,
    scan,
    type_allows,
    untyped,
    value_is,
    value_matches,
    without,
)
from structout.schema.keywords import KEYWORDS
from structout.spec import Dialect, FormatMode, JsonSchema, Policy
from tests.schema.strategies import schemas

RULES = (
    Rule("not", "is ignored"),
    Rule("uniqueItems", "is ignored", when=value_is(True)),
    Rule("format", "is ignored"),
)


def applies(condition: Condition, keyword: str, schema: dict[str, Any]) -> bool:
    return bool(scan(schema, [Rule(keyword, "", when=condition)]))


@pytest.mark.parametrize(
    ("condition", "keyword", "schema", "expected"),
    [
        (always, "minLength", {"minLength": 1}, True),
        (always, "minLength", {"maxLength": 1}, False),
        (beside("pattern"), "minLength", {"minLength": 1, "pattern": "a"}, True),
        (beside("pattern", "format"), "minLength", {"minLength": 1, "format": "date"}, True),
        (beside("pattern"), "minLength", {"minLength": 1, "allOf": [{"pattern": "a"}]}, False),
        (beside("x-unknown"), "minLength", {"minLength": 1, "x-unknown": 2}, False),
        (without("type"), "minLength", {"minLength": 1}, True),
        (without("type"), "minLength", {"minLength": 1, "type": "string"}, False),
        (without("type", "enum"), "minLength", {"minLength": 1, "enum": []}, False),
        (value_is(True), "uniqueItems", {"uniqueItems": True}, True),
        (value_is(True), "uniqueItems", {"uniqueItems": False}, False),
        (value_is(True), "uniqueItems", {"uniqueItems": 1}, False),
        (value_is(0), "minItems", {"minItems": False}, False),
        (value_is(0), "minItems", {"minItems": 0.0}, True),
        (value_is("date", "time"), "format", {"format": "time"}, True),
        (value_is("date", "time"), "format", {"format": "email"}, False),
        (value_matches(lambda value: isinstance(value, list)), "items", {"items": []}, True),
        (value_matches(lambda value: isinstance(value, list)), "items", {"items": {}}, False),
        (type_allows("number"), "multipleOf", {"multipleOf": 2}, True),
        (type_allows("number"), "multipleOf", {"multipleOf": 2, "type": "number"}, True),
        (type_allows("number"), "multipleOf", {"multipleOf": 2, "type": ["null", "number"]}, True),
        (type_allows("number"), "multipleOf", {"multipleOf": 2, "type": "integer"}, False),
        (type_allows("integer"), "multipleOf", {"multipleOf": 2, "type": "number"}, True),
        (type_allows("integer"), "multipleOf", {"multipleOf": 2, "type": "string"}, False),
        (type_allows("string", "array"), "multipleOf", {"multipleOf": 2, "type": "array"}, True),
        (type_allows("number"), "multipleOf", {"multipleOf": 2, "type": 7}, False),
        (type_allows("number"), "multipleOf", {"multipleOf": 2, "type": [{}, "number"]}, True),
        (below_root, "$id", {"$id": "http://x/a"}, False),
        (below_root, "$id", {"items": {"$id": "http://x/a"}}, True),
        (all_of(beside("pattern"), without("type")), "minLength", {"minLength": 1, "pattern": "a"}, True),
        (all_of(beside("pattern"), without("type")), "minLength", {"minLength": 1}, False),
    ],
)
def test_conditions(condition: Condition, keyword: str, schema: dict[str, Any], expected: bool) -> None:
    assert applies(condition, keyword, schema) is expected


def test_untyped_makes_a_rule_of_each_keyword() -> None:
    rules = untyped("minimum", "maximum", reason="needs a type")
    assert [rule.keyword for rule in rules] == ["minimum", "maximum"]
    assert scan({"minimum": 1, "properties": {"a": {"maximum": 1, "type": "number"}}}, rules) == (
        Finding("", "minimum", "needs a type"),
    )


def test_findings_name_the_place_the_keyword_and_the_reason() -> None:
    schema: Schema = {
        "properties": {"a/b": {"not": {}, "uniqueItems": True}, "c": {"$ref": "#/$defs/used"}},
        "$defs": {"used": {"items": {"not": {}}}, "unused": {"not": {}}},
        "default": {"not": {}},
    }
    assert scan(schema, RULES) == (
        Finding("/properties/a~1b", "not", "is ignored"),
        Finding("/properties/a~1b", "uniqueItems", "is ignored"),
        Finding("/$defs/used/items", "not", "is ignored"),
    )


def test_two_rules_on_one_keyword_both_find() -> None:
    rules = (Rule("not", "first"), Rule("not", "second"))
    assert [finding.reason for finding in scan({"not": {}}, rules)] == ["first", "second"]


@pytest.mark.parametrize(
    ("keyword", "dialect", "found"),
    [
        ("dependentRequired", Dialect.DRAFT_7, False),
        ("dependentRequired", Dialect.DRAFT_2020_12, True),
        ("x-unknown", Dialect.DRAFT_2020_12, False),
    ],
)
def test_what_the_dialect_does_not_know_is_no_finding(keyword: str, dialect: Dialect, found: bool) -> None:
    assert bool(scan({keyword: {}}, [Rule(keyword, "is ignored")], dialect)) is found


def test_keywords_that_a_reference_suppresses_are_no_finding() -> None:
    schema: Schema = {"$ref": "#/definitions/a", "not": {}, "definitions": {"a": {}}}
    assert scan(schema, RULES, Dialect.DRAFT_7) == ()
    assert len(scan(schema, RULES)) == 1


@given(schemas(), st.sampled_from(list(KEYWORDS[Dialect.DRAFT_2020_12])))
def test_a_rule_without_condition_finds_each_reachable_occurrence(schema: Schema, keyword: str) -> None:
    found = [finding.pointer for finding in scan(schema, [Rule(keyword, "is ignored")])]
    holders = [pointer.resolve(schema, place).unwrap() for place in found]
    assert all(keyword in holder for holder in holders)
    assert len(found) == sum(keyword in node.keywords for node in reachable(schema))


@given(schemas(), st.lists(st.sampled_from(list(KEYWORDS[Dialect.DRAFT_2020_12])), unique=True))
def test_more_rules_find_no_less(schema: Schema, keywords: list[str]) -> None:
    rules = [Rule(keyword, "is ignored") for keyword in keywords]
    assert set(scan(schema, rules[:1])) <= set(scan(schema, rules))


def spec(schema: Any, **options: Any) -> JsonSchema:
    return JsonSchema(json.dumps(schema), **options)


def test_a_refusal_names_the_first_finding_and_counts_the_others() -> None:
    error = refusal(spec({"items": {"not": {}}, "anyOf": [{"not": {}}, {"not": {}}]}), RULES, backend="mine")
    assert error is not None
    assert error.kind is ErrorKind.UNSUPPORTED
    assert (error.backend, error.keyword, error.pointer) == ("mine", "not", "/items")
    assert error.message == "mine does not enforce this schema: not is ignored, and 2 more such places."
    assert error.hint is not None
    assert "best_effort" in error.hint


def test_a_single_finding_counts_no_others() -> None:
    error = refusal(spec({"not": {}}), RULES, backend="mine")
    assert error is not None
    assert "more" not in error.message


@pytest.mark.parametrize("policy", Policy)
def test_best_effort_lists_what_the_other_policies_refuse(policy: Policy) -> None:
    dropped = spec({"not": {}}, policy=policy)
    assert (refusal(dropped, RULES, backend="mine") is None) is (policy is Policy.BEST_EFFORT)
    assert findings(dropped, RULES) == Ok((Finding("", "not", "is ignored"),))


def test_what_nothing_is_found_in_is_not_refused() -> None:
    assert refusal(spec({"type": "string"}), RULES, backend="mine") is None


def test_rules_on_format_count_where_it_is_asserted() -> None:
    schema = {"format": "date"}
    assert refusal(spec(schema), RULES, backend="mine") is not None
    assert refusal(spec(schema, format_mode=FormatMode.ANNOTATE), RULES, backend="mine") is None


def test_dialect_and_registry_of_the_spec_count() -> None:
    rules = (Rule("additionalItems", "is ignored"),)
    remote = {"urn:a": json.dumps({"additionalItems": False})}
    there = spec({"$ref": "urn:a"}, dialect=Dialect.DRAFT_7, registry=remote)
    assert findings(there, rules) == Ok((Finding("urn:a#", "additionalItems", "is ignored"),))
    assert findings(spec({"$ref": "urn:a"}, registry=remote), rules) == Ok(())


def test_a_text_that_is_no_schema_is_refused_as_such() -> None:
    error = refusal(JsonSchema("{"), RULES, backend="mine")
    assert error is not None
    assert error.kind is ErrorKind.INVALID_SPEC
