"""Reading JSON strictly, and only as deep as everybody can."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.errors import ErrorKind
from structout.result import Err, Ok
from structout.schema import check_schema, reference_validator
from structout.schema.loading import MAX_DEPTH, load_registry, load_schema, parse_json
from structout.spec import JsonSchema

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(json_values)
def test_exact_parsing_changes_nothing_else(value: Any) -> None:
    assert parse_json(json.dumps(value), exact=True) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e400", Decimal("1e400")),
        ("0.1", Decimal("0.1")),
        ("-" + "9" * 5000, Decimal("-" + "9" * 5000)),
        (r'"\ud83d\ude00"', "😀"),
        (r'"\uD800"', "\ufffd"),
        (r'"\ude00\ud83d"', "\ufffd\ufffd"),
        (r'"\\ud800"', r"\ud800"),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_exact_parsing(text: str, value: Any) -> None:
    assert parse_json(text, exact=True) == value


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("NaN", "NaN is no JSON value"),
        ("[-Infinity]", "-Infinity is no JSON value"),
        ("{'a': 1}", "Expecting property name"),
        ("[1,]", "Expecting value"),
        ("01", "Extra data"),
        ('"\n"', "Invalid control character"),
        ("1 2", "Extra data"),
    ],
)
def test_what_is_not_json_is_refused(text: str, reason: str, exact: bool) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(text, exact=exact)


def test_half_a_surrogate_pair_is_no_json() -> None:
    with pytest.raises(ValueError, match="half a surrogate pair"):
        parse_json('"\ud800"', exact=True)


@pytest.mark.parametrize(
    ("text", "kind", "message", "offset"),
    [
        ("{", ErrorKind.INVALID_SPEC, "not JSON", 1),
        ('{"const": NaN}', ErrorKind.INVALID_SPEC, "NaN is no JSON value", None),
        ("[]", ErrorKind.INVALID_SPEC, "neither a JSON object nor true or false", None),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), ErrorKind.TOO_COMPLEX, f"more than {MAX_DEPTH} deep", None),
        ("[" * 1_000_000, ErrorKind.TOO_COMPLEX, f"more than {MAX_DEPTH} deep", None),
    ],
)
def test_what_is_no_schema_is_an_error(text: str, kind: ErrorKind, message: str, offset: int | None) -> None:
    for loaded in (load_schema(JsonSchema(text)), load_registry(JsonSchema("true", registry={"urn:a": text}))):
        match loaded:
            case Err(error):
                assert error.kind is kind
                assert message in error.message
                assert error.offset == offset
            case Ok(value):
                pytest.fail(f"loaded {value!r}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"minimum": 1e99999999999999999999}', "a number's exponent is too large"),
        ('{"minimum": 1e-99999999999999999999}', "a number's exponent is too large"),
        ('{"minimum": ' + "1" * 5000 + "}", "an integer has too many digits"),
    ],
)
def test_a_number_that_python_cannot_hold_is_an_error_in_our_words(text: str, reason: str) -> None:
    loaded = [load_schema(JsonSchema(text), exact=exact) for exact in (False, True)]
    errors = [result.error for result in loaded if isinstance(result, Err)]
    assert [(error.kind, error.message) for error in errors] == [
        (ErrorKind.INVALID_SPEC, f"The schema cannot be read: {reason}.")
    ]


@pytest.mark.parametrize("exponent", ["9" * 20, "-" + "9" * 20])
def test_a_number_that_is_too_large_is_no_instance_and_no_schema(exponent: str) -> None:
    validator = reference_validator(JsonSchema('{"minimum": 0}')).unwrap()
    assert not validator.is_valid(f"1e{exponent}")
    assert "exponent is too large" in validator.errors(f"1e{exponent}")[0][1]
    error = check_schema(JsonSchema(f'{{"minimum": 1e{exponent}}}'))
    assert error is not None
    assert error.kind is ErrorKind.INVALID_SPEC


def test_the_deepest_schema_is_loaded() -> None:
    text = '{"not": ' * MAX_DEPTH + "true" + "}" * MAX_DEPTH
    assert load_schema(JsonSchema(text)) == Ok(json.loads(text))


def test_the_registry_is_loaded_by_uri() -> None:
    assert load_registry(JsonSchema("true", registry={"urn:a": "{}", "urn:b": "false"})) == Ok(
        {"urn:a": {}, "urn:b": False}
    )
