"""Checking a schema and building its validator: the one is quicker, and neither is stricter than the other."""

import itertools
import json

import hypothesis.strategies as st
import pytest
from hypothesis import given

from structout import Err, JsonSchema, Ok
from structout.schema import check_schema, reference_validator
from structout.spec import Dialect
from tests import corpora

KEYWORDS = [
    "type", "enum", "const", "multipleOf", "maximum", "exclusiveMinimum", "maxLength", "minItems", "uniqueItems",
    "maxContains", "minProperties", "required", "dependentRequired", "allOf", "anyOf", "oneOf", "not", "if", "then",
    "dependentSchemas", "prefixItems", "items", "contains", "properties", "additionalProperties", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties", "format", "contentEncoding", "contentMediaType", "contentSchema",
    "definitions", "dependencies", "additionalItems", "id", "a", "default", "examples", "pattern", "$ref", "$id",
    "patternProperties", "$schema", "$anchor", "$defs",
]  # fmt: skip
WORDS = ["string", "integer", "strin", "regex", "date", "", "(", "#", "#/$defs/a", "urn:a", "application/json"]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([1.5, 0.0, 10**30, *WORDS]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=4),
    max_leaves=12,
)


def agree(spec: JsonSchema) -> bool:
    match reference_validator(spec):
        case Ok():
            return check_schema(spec) is None
        case Err(error):
            return check_schema(spec) == error


@given(st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=5), st.sampled_from(Dialect))
def test_what_is_checked_is_what_is_built(value: dict[str, object], dialect: Dialect) -> None:
    assert agree(JsonSchema(json.dumps(value), dialect=dialect))


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "strin"}',
        '{"properties": {"a": {"minLength": -1}}}',
        '{"a": 1e9999999999999999999}',
        '{"maximum": NaN}',
        "{" + '"not":{' * 120 + "}" * 121,
        '{"allOf":[' * 60 + "{}" + "]}" * 60,
        '{"\\u0070attern": "("}',
        '{"\\u0024ref": "#/nowhere"}',
        "\ufeff{}",
        "[]",
    ],
)
def test_refusals_are_the_same_word_for_word(text: str) -> None:
    assert agree(JsonSchema(text))


def test_real_schemas_are_checked_as_they_are_built() -> None:
    for case in itertools.islice(corpora.maskbench(), 300):
        assert agree(JsonSchema(json.dumps(case["schema"])))
