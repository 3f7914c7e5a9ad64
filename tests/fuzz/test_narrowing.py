"""What a grammar says that it leaves out excuses what it is about, and nothing else."""

import pytest

from structout.backend import FORMS, Finding
from structout.fuzz.case import Text
from structout.fuzz.narrowing import accounts_for
from tests.fuzz.strategies import subject

SCHEMA = {
    "properties": {"a": {"maxLength": 3}, "b": {"items": {"$ref": "#/$defs/c"}}},
    "propertyNames": {"minLength": 1},
    "allOf": [{"not": {"anyOf": [{"type": "null"}]}}],
    "$defs": {"c": {"maximum": 1}},
}


@pytest.mark.parametrize(
    ("pointer", "text", "is_excused"),
    [
        ("/properties/a", '{"a": "x"}', True),
        ("/properties/a", '{"b": []}', False),
        ("/properties/b/items", '{"b": [1]}', True),
        ("/$defs/c", '{"b": [1]}', True),
        ("/$defs/c", '{"b": []}', False),
        ("/propertyNames", '{"b": []}', True),
        ("/propertyNames", "{}", False),
        ("/allOf/0/not/anyOf/0", "1", True),
        ("", "1", True),
    ],
)
def test_a_place_excuses_values_that_its_schema_applies_to(pointer: str, text: str, is_excused: bool) -> None:
    assert accounts_for([Finding(pointer, "type", "is less")], subject(SCHEMA), Text(text, "plain")) is is_excused


@pytest.mark.parametrize(
    ("form", "text", "is_excused"),
    [
        ("whitespace", Text('{"a":1}', "compact"), True),
        ("whitespace", Text('{"a": 1}', "plain"), False),
        ("key_order", Text('{"b": 1, "a": 1}', "reordered"), True),
        ("key_order", Text('{"a": 1}', "plain"), False),
        ("escapes", Text('"\\u0000"', "plain"), True),
        ("escapes", Text('"a"', "plain"), False),
        ("characters", Text('"\x7f"', "plain"), True),
        ("characters", Text('"\\u007f\u00e9"', "plain"), False),
        ("numbers", Text("[1e5]", "plain"), True),
        ("numbers", Text("[1.0]", "plain"), True),
        ("numbers", Text('["1.0"]', "plain"), False),
        ("nesting", Text("[[[]]]", "plain"), True),
        ("nesting", Text('[[], {}, "[[["]', "plain"), False),
    ],
)
def test_a_form_excuses_texts_that_have_it(form: str, text: Text, is_excused: bool) -> None:
    assert form in FORMS
    assert accounts_for([Finding("", form, "is less")], subject(True), text) is is_excused
