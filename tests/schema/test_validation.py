"""Reference validation: what is a schema, and what is valid under it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from structout.errors import ErrorKind
from structout.schema import check_schema, pointer, reference_validator
from structout.schema.keywords import DIALECTS
from structout.schema.loading import MAX_DEPTH
from structout.schema.validation import MAX_IN_PLACE_DEPTH
from structout.spec import Dialect, FormatMode, JsonSchema
from tests.schema.strategies import schemas


def spec(schema: Any, **options: Any) -> JsonSchema:
    return JsonSchema(json.dumps(schema), **options)


def is_valid(schema: Any, text: str, **options: Any) -> bool:
    return reference_validator(spec(schema, **options)).unwrap().is_valid(text)


def nested(open_part: str, depth: int, close_part: str, leaf: str = "1") -> str:
    return open_part * depth + leaf + close_part * depth


@pytest.mark.parametrize(
    ("schema", "place", "keyword", "message"),
    [
        (
            {"properties": {"a/b": {"type": "strin"}}},
            "/properties/a~1b/type",
            "type",
            '"strin" is not a value that type',
        ),
        ({"properties": {"type": 3}}, "/properties/type", "properties", "3 is not of types"),
        ({"items": [{}]}, "/items", "items", "not of types"),
        ({"minLength": -1}, "/minLength", "minLength", "-1 is less than the minimum of 0"),
        ({"required": True}, "/required", "required", "true is not of type"),
        ({"allOf": [True, {"pattern": "(["}]}, "/allOf/1/pattern", "pattern", 'not a "regex"'),
        ({"patternProperties": {"([": {}}}, "/patternProperties/([", "patternProperties", 'not a "regex"'),
        ({"pattern": "a\\Z"}, "/pattern", "pattern", 'not a "regex"'),
        ({"$ref": 3}, "/$ref", "$ref", "3 is not of type"),
        ({"$schema": "http://x/unknown"}, "/$schema", "$schema", "dialect 'http://x/unknown' is not known"),
        ({"$schema": 3}, "/$schema", "$schema", "3 is not of type"),
        ({"items": {"$ref": "#/$defs/a"}}, "/items/$ref", "$ref", "no '$defs'"),
        ({"items": {"$ref": "#name"}}, "/items/$ref", "$ref", "no anchor 'name'"),
        ({"items": {"$ref": "http://x/y"}}, "/items/$ref", "$ref", "no schema 'http://x/y'"),
        ({"items": {"$ref": "file:///etc/passwd"}}, "/items/$ref", "$ref", "no schema 'file:///etc/passwd'"),
        ({"$id": "file:///etc/", "items": {"$ref": "passwd"}}, "/items/$ref", "$ref", "no schema 'file:///etc/passwd'"),
        ({"$defs": {"a": {"$ref": "http://x/y"}}}, "/$defs/a/$ref", "$ref", "no schema 'http://x/y'"),
        ({"allOf": [{"$ref": "#"}]}, "", None, "what it means is undefined"),
        ({"enum": "x" * 1000}, "/enum", "enum", " ... "),
    ],
)
def test_what_is_no_schema_is_refused_where_it_is_none(
    schema: Any, place: str, keyword: str | None, message: str
) -> None:
    error = check_schema(spec(schema))
    assert error is not None
    assert error.kind is ErrorKind.INVALID_SPEC
    assert (error.pointer, error.keyword) == (place, keyword)
    assert message in error.message
    assert len(error.message) < 300
    assert error.hint


def test_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text('{"type": "string"}')
    uri = (tmp_path / "schema.json").as_uri()
    error = check_schema(spec({"$ref": uri}))
    assert error is not None
    assert uri in error.message
    assert check_schema(spec({"$ref": uri}, registry={uri: '{"type": "string"}'})) is None


def test_an_error_in_the_registry_says_in_which_document() -> None:
    remote = {"http://x/a": json.dumps({"$defs": {"b": {"type": "strin"}}})}
    error = check_schema(spec({"$ref": "http://x/a"}, registry=remote))
    assert error is not None
    assert error.pointer == "http://x/a#/$defs/b/type"


def test_a_reference_out_of_the_registry_says_in_which_document() -> None:
    error = check_schema(spec({"$ref": "http://x/a"}, registry={"http://x/a": '{"$ref": "b"}'}))
    assert error is not None
    assert error.pointer == "http://x/a#/$ref"


def test_documents_that_nothing_refers_to_do_not_matter() -> None:
    registry = {"http://x/a": '{"type": "strin"}', "http://x/b": '{"$ref": "http://nowhere"}'}
    assert check_schema(spec({"type": "string"}, registry=registry)) is None


def test_a_schema_of_another_draft_needs_to_say_so() -> None:
    tuples = {"items": [{"type": "string"}], "additionalItems": False}
    error = check_schema(spec(tuples))
    assert error is not None
    assert error.hint is not None
    assert "$schema" in error.hint
    assert check_schema(spec(tuples, dialect=Dialect.DRAFT_7)) is None
    assert check_schema(spec({"$schema": Dialect.DRAFT_7} | tuples)) is None


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_metaschemas_can_be_referred_to(dialect: Dialect) -> None:
    schema = {"$ref": str(dialect)}
    assert is_valid(schema, '{"type": "string"}', dialect=dialect)
    assert not is_valid(schema, '{"type": "strin"}', dialect=dialect)


def test_format_is_asserted_or_not_as_the_spec_says() -> None:
    assert not is_valid({"format": "date"}, '"x"')
    assert is_valid({"format": "date"}, '"x"', format_mode=FormatMode.ANNOTATE)
    assert is_valid({"format": "unheard-of"}, '"x"')


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": "number"}, "1e400", True),
        ({"type": "integer"}, "1.0", True),
        ({"multipleOf": 0.01}, "4.35", True),
        ({"maximum": 0.1}, "0.10000000000000000000000001", False),
        ({"const": 12345678901234567890}, "12345678901234567891", False),
        ({"type": "integer"}, "9" * 5000, True),
        ({"maxLength": 1}, r'"\ud83d\ude00"', True),
        ({"maxLength": 1}, r'"\ud83d"', True),
        ({"pattern": r"^\d$"}, '"٣"', False),
        ({"pattern": r"^\cA$"}, r'"\u0001"', True),
        ({"pattern": "^a$"}, r'"a\n"', False),
        ({"properties": {"a": {"type": "string"}}}, '{"a": 1, "a": "x"}', True),
        (True, "NaN", False),
        (True, "", False),
        (True, '{"a": 1} {}', False),
        (True, '"\ud800"', False),
        (True, " \t\n\r1 ", True),
        (True, "\u00a01", False),
    ],
)
def test_texts_are_taken_exactly(schema: Any, text: str, expected: bool) -> None:
    assert is_valid(schema, text) is expected


def test_errors_say_where_in_the_text() -> None:
    validator = reference_validator(spec({"properties": {"a/b": {"items": {"minimum": 3}}}})).unwrap()
    assert validator.errors('{"a/b": [4, 1]}') == [("/a~1b/1", "1 is less than the minimum of 3")]
    assert validator.errors('{"a/b": [4]}') == []
    [(place, message)] = validator.errors("{")
    assert place == ""
    assert message.startswith("not JSON: ")


def test_violations_are_paths_through_references_to_keywords() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/b"}}, "maxProperties": 1, "$defs": {"b": {"type": "string"}}}
    validator = reference_validator(spec(schema)).unwrap()
    assert validator.violations('{"a": "x"}') == []
    assert validator.violations('{"a": 1}') == [("properties", "a", "$ref", "type")]
    assert set(validator.violations('{"a": 1, "b": 2}')) == {("properties", "a", "$ref", "type"), ("maxProperties",)}
    assert validator.violations("{") == [()]


@given(schemas(), st.sampled_from(["1", '"a"', "null", '{"a": [1], "b": {}}', '[1, {"a": 2}]', "nonsense"]))
def test_every_schema_is_judged_and_every_invalid_text_has_an_error(schema: Any, text: str) -> None:
    error = check_schema(spec(schema))
    if error is None:
        validator = reference_validator(spec(schema)).unwrap()
        assert validator.is_valid(text) is not bool(validator.errors(text))
    elif error.kind is ErrorKind.INVALID_SPEC and error.pointer is not None:
        assert pointer.resolve(schema, error.pointer).unwrap() is not None or "null" in json.dumps(schema)


def test_the_pointer_of_an_error_has_the_empty_names_on_its_way() -> None:
    error = check_schema(spec({"definitions": {"": {"$schema": False}}}))
    assert error is not None
    assert error.pointer == "/definitions//$schema"


@pytest.mark.parametrize("length", [MAX_IN_PLACE_DEPTH, 20_000])
@pytest.mark.parametrize("link", [{"$ref": "{}"}, {"allOf": [{"$ref": "{}"}]}])
def test_long_chains_are_refused_before_they_crash_the_process(link: Any, length: int) -> None:
    template = json.dumps(link)
    links = [f'"{number}": ' + template.replace("{}", f"#/$defs/{number + 1}") for number in range(length)]
    error = check_schema(JsonSchema('{"$ref": "#/$defs/0", "$defs": {' + ", ".join(links) + f', "{length}": true}}}}'))
    assert error is not None
    assert error.kind is ErrorKind.TOO_COMPLEX
    assert str(MAX_IN_PLACE_DEPTH) in error.message


def test_deep_schemas_are_refused_before_they_crash_the_process() -> None:
    error = check_schema(JsonSchema(nested('{"not": ', 100_000, "}", "true")))
    assert error is not None
    assert error.kind is ErrorKind.TOO_COMPLEX
    assert str(MAX_DEPTH) in error.message


@pytest.mark.parametrize("schema", [True, {"uniqueItems": True}, {"items": {"$ref": "#"}}, {"contains": {"const": 1}}])
def test_deep_texts_are_judged_up_to_the_limit(schema: Any) -> None:
    validator = reference_validator(spec(schema)).unwrap()
    assert validator.max_depth == MAX_DEPTH
    for depth in (MAX_DEPTH, MAX_DEPTH + 1, 100_000):
        text = nested("[", depth, "]")
        assert validator.is_valid(text) is not bool(validator.errors(text))
        assert depth <= MAX_DEPTH or "too deep to be checked" in validator.errors(text)[0][1]


HARDEST = """
import json
from structout.schema import reference_validator
from structout.schema.validation import MAX_IN_PLACE_DEPTH
from structout.spec import JsonSchema

length = (MAX_IN_PLACE_DEPTH - 4) // {levels}
definitions = {{str(n): json.loads('{link}' % f"#/$defs/{{n + 1}}") for n in range(length)}}
last = {{"type": ["integer", "object"], "properties": {{"a": {{"$ref": "#"}}}}}}
schema = {{"$ref": "#/$defs/0", "$defs": definitions | {{str(length): last}}}}
validator = reference_validator(JsonSchema(json.dumps(schema))).unwrap()
valid, invalid = (
    '{{"a": ' * validator.max_depth + leaf + "}}" * validator.max_depth for leaf in ("1", '"x"')
)
assert validator.is_valid(valid)
assert validator.errors(valid) == []
assert not validator.is_valid(invalid)
print("judged", validator.max_depth)
"""


@pytest.mark.parametrize(
    ("levels", "link"),
    [
        (1, '{"$ref": "%s"}'),
        (1, '{"$dynamicRef": "%s"}'),
        (2, '{"allOf": [{"$ref": "%s"}]}'),
        (2, '{"anyOf": [false, {"$ref": "%s"}]}'),
        (2, '{"oneOf": [false, {"$ref": "%s"}]}'),
        (3, '{"not": {"not": {"$ref": "%s"}}}'),
        (1, '{"$ref": "%s", "unevaluatedProperties": true, "unevaluatedItems": true}'),
    ],
)
def test_the_hardest_that_the_limits_let_through_does_not_crash(levels: int, link: str) -> None:
    code = HARDEST.format(levels=levels, link=link)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("judged 10")
