"""The table of requests that are refused: what kind of error, where, and what the message has to say."""

import json
import math
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

from structout.errors import ErrorKind

INVALID, UNSUPPORTED, TOO_COMPLEX = ErrorKind.INVALID_SPEC, ErrorKind.UNSUPPORTED, ErrorKind.TOO_COMPLEX

Request = Mapping[str, Any]


@attrs.frozen
class Refused:
    """A request, and the error that it gets; ``words`` have to occur in its message or its hint."""

    request: Request
    pointer: str
    words: tuple[str, ...]
    kind: ErrorKind = INVALID
    offset: int | None = None


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"type": "array", "items": schema}
    return schema


def containing_itself() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    schema["items"] = schema
    return schema


def doubling(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value, value]
    return value


def schema_format(schema: Any) -> Request:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}


def outputs(**fields: Any) -> Request:
    return {"structured_outputs": fields}


class Colour(Enum):
    RED = "red"


ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
SUBTRACT = {"type": "function", "function": {"name": "subtract"}}
A_CALL_OF_ADD = {"type": "function", "function": {"name": "add"}}
SCHEMA = "/response_format/json_schema/schema"
TAG = {"type": "structural_tag", "format": {"type": "any_text"}}
STRUCTURE = {"begin": "<a>", "schema": {}, "end": "</a>"}

EMPTY_OR_NULL = {
    "no type": Refused({"response_format": {}}, "/response_format/type", ("no type", "json_schema")),
    "type null": Refused({"response_format": {"type": None}}, "/response_format/type", ("no type",)),
    "json_schema missing": Refused(
        {"response_format": {"type": "json_schema"}}, "/response_format", ("json_schema", "schema")
    ),
    "json_schema null": Refused(
        {"response_format": {"type": "json_schema", "json_schema": None}},
        "/response_format",
        ('no "json_schema" or "schema"',),
    ),
    "json_schema empty": Refused(
        {"response_format": {"type": "json_schema", "json_schema": {}}}, SCHEMA, ("no schema in it",)
    ),
    "schema null": Refused(schema_format(None), SCHEMA, ("no schema in it",)),
    "schema empty text": Refused(schema_format(""), SCHEMA, ("the schema is an empty text",)),
    "schema blank text": Refused(schema_format(" \n"), SCHEMA, ("the schema is an empty text",)),
    "structured_outputs empty": Refused(outputs(), "/structured_outputs", ("is empty", '"json"', '"choice"')),
    "structured_outputs all null": Refused(outputs(json=None, regex=None), "/structured_outputs", ("is empty",)),
    "options only": Refused(outputs(enforcement="exact"), "/structured_outputs", ("options", "no constraint")),
    "options and free text": Refused(
        {"structured_outputs": {"backend": "xgrammar"}, "response_format": {"type": "text"}},
        "/structured_outputs",
        ("options", "no constraint"),
    ),
    "json_object false": Refused(outputs(json_object=False), "/structured_outputs/json_object", ("true", "not false")),
    "regex": Refused(outputs(regex=""), "/structured_outputs/regex", ("the regex is empty",)),
    "SGLang's regex": Refused({"regex": ""}, "/regex", ("the regex is empty",)),
    "EBNF": Refused({"ebnf": " \n"}, "/ebnf", ("the grammar is empty",)),
    "grammar": Refused(outputs(grammar=""), "/structured_outputs/grammar", ("the grammar is empty",)),
    "grammar without a rule": Refused(
        {"guided_grammar": "hello"}, "/guided_grammar", ("no rule", "root ::=", "start:")
    ),
    "Lark where EBNF is due": Refused({"ebnf": 'start: "a"'}, "/ebnf", ("no rule of EBNF", "root ::=")),
    "EBNF where Lark is due": Refused(
        {"structured_output": {"type": "lark", "grammar": 'root ::= "a"'}},
        "/structured_output/grammar",
        ("no rule of Lark",),
    ),
    "choice": Refused(outputs(choice=[]), "/structured_outputs/choice", ("no options",)),
    "guided_choice": Refused({"guided_choice": []}, "/guided_choice", ("no options",)),
    "choice of nothing": Refused(outputs(choice=["", ""]), "/structured_outputs/choice", ("only the empty text",)),
    "structural tag": Refused({"structural_tag": ""}, "/structural_tag", ("the structural tag is an empty text",)),
    "structural tag without format": Refused(
        {"response_format": {"type": "structural_tag"}}, "/response_format", ('"format"', '"structures"')
    ),
    "structured_output empty": Refused({"structured_output": {}}, "/structured_output/type", ("no type",)),
    "structured_output without schema": Refused(
        {"structured_output": {"type": "json"}}, "/structured_output", ('no "schema"',)
    ),
}

TWO_AT_ONCE = {
    "two dialects": Refused(
        {"response_format": {"type": "json_object"}, "guided_regex": "a"},
        "/guided_regex",
        ('"response_format"', '"guided_regex"', "2 constraints"),
    ),
    "the same twice": Refused(
        {"guided_json": {}, "json_schema": "{}"}, "/json_schema", ('"guided_json"', '"json_schema"')
    ),
    "three": Refused(
        {"regex": "a", "ebnf": 'root ::= "a"', "guided_choice": ["a"]}, "/guided_choice", ("3 constraints",)
    ),
    "within structured_outputs": Refused(
        outputs(json={}, choice=["a"]), "/structured_outputs", ('"json"', '"choice"', "at the same time")
    ),
    "structured_outputs and response_format": Refused(
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
        "/response_format",
        ('"structured_outputs"', '"response_format"'),
    ),
    "a forced call": Refused(
        {"tools": [ADD], "tool_choice": A_CALL_OF_ADD, "response_format": {"type": "json_object"}},
        "/response_format",
        ('"tool_choice"', '"response_format"'),
    ),
    "in a carrier": Refused(
        {"regex": "a", "extra_body": {"guided_regex": "b"}},
        "/extra_body/guided_regex",
        ('"regex"', '"extra_body.guided_regex"'),
    ),
    "two forms of a schema": Refused(
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}, "schema": {}}},
        "/response_format",
        ('"json_schema"', '"schema"', "at the same time"),
    ),
    "two forms of a tag": Refused(
        {"structural_tag": TAG | {"structures": [STRUCTURE], "triggers": ["<a>"]}},
        "/structural_tag",
        ('"format"', '"structures"'),
    ),
}

MISSPELT = {
    "guided_jsno": Refused({"guided_jsno": {}}, "/guided_jsno", ('did you mean "guided_json"?',)),
    "strucured_outputs": Refused(
        {"strucured_outputs": {"json": {}}}, "/strucured_outputs", ('did you mean "structured_outputs"?',)
    ),
    "response_fromat": Refused(
        {"response_fromat": {"type": "json_object"}}, "/response_fromat", ('did you mean "response_format"?',)
    ),
    "camel case": Refused({"responseFormat": {}}, "/responseFormat", ('did you mean "response_format"?',)),
    "hyphens": Refused({"response-format": {}}, "/response-format", ('did you mean "response_format"?',)),
    "ebfn": Refused({"ebfn": "x"}, "/ebfn", ('did you mean "ebnf"?',)),
    "an unknown guided_ field": Refused({"guided_schema": {}}, "/guided_schema", ("no field", "guided_json")),
    "beside a constraint": Refused({"regex": "a", "guided_jsonn": {}}, "/guided_jsonn", ("did you mean",)),
    "in sampling_params": Refused(
        {"sampling_params": {"json_schemas": "{}"}}, "/sampling_params/json_schemas", ('did you mean "json_schema"?',)
    ),
    "in structured_outputs": Refused(
        outputs(jsn={}), "/structured_outputs/jsn", ('no field "jsn"', 'did you mean "json"?', '"choice"')
    ),
    "unknown in structured_outputs": Refused(
        outputs(json={}, best_effort=True), "/structured_outputs/best_effort", ('no field "best_effort"', "enforcement")
    ),
    "vLLM's private backend": Refused(
        outputs(json={}, _backend="xgrammar"), "/structured_outputs/_backend", ('did you mean "backend"?',)
    ),
    "type of a response format": Refused(
        {"response_format": {"type": "json_scheme"}},
        "/response_format/type",
        ('did you mean "json_schema"?', '"text"', '"json_object"', '"structural_tag"'),
    ),
    "unknown type": Refused({"response_format": {"type": "xml"}}, "/response_format/type", ('"xml"', '"json_object"')),
    "type of a structured output": Refused(
        {"structured_output": {"type": "regexp", "pattern": "a"}}, "/structured_output/type", ('did you mean "regex"?',)
    ),
    "the plural": Refused({"structured_output": {"json": {}}}, "/structured_output/type", ("structured_outputs",)),
    "in a response format": Refused(
        {"response_format": {"type": "json_object", "scheme": {}}},
        "/response_format/scheme",
        ('no field "scheme"', 'did you mean "schema"?'),
    ),
    "the schema in place of its wrapper": Refused(
        {"response_format": {"type": "json_schema", "json_schema": {"type": "object"}}},
        SCHEMA,
        ("no schema in it", 'under "schema"'),
    ),
    "in the wrapper": Refused(
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "stric": True}}},
        "/response_format/json_schema/stric",
        ('did you mean "strict"?',),
    ),
    "in a structure": Refused(
        {"structural_tag": {"structures": [STRUCTURE | {"ends": "x"}], "triggers": ["<a>"]}},
        "/structural_tag/structures/0/ends",
        ('did you mean "end"?',),
    ),
    "enforcement": Refused(
        outputs(json={}, enforcement="exat"), "/structured_outputs/enforcement", ('did you mean "exact"?', '"sound"')
    ),
    "tool choice": Refused({"tools": [ADD], "tool_choice": "any"}, "/tool_choice", ('"any"', '"required"')),
    "tool_chioce": Refused(
        {"tools": [ADD], "tool_chioce": "required"}, "/tool_chioce", ('did you mean "tool_choice"?',)
    ),
}

WRONG_TYPE = {
    "response format": Refused(
        {"response_format": "json_object"}, "/response_format", ("must be an object, not a string", '"type"')
    ),
    "response format as a list": Refused({"response_format": []}, "/response_format", ("not an array",)),
    "type": Refused({"response_format": {"type": 1}}, "/response_format/type", ("a number for a type",)),
    "wrapper": Refused(
        {"response_format": {"type": "json_schema", "json_schema": "{}"}},
        "/response_format/json_schema",
        ("must be an object, not a string",),
    ),
    "strict": Refused(
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "strict": "yes"}}},
        "/response_format/json_schema/strict",
        ("strict must be a boolean, not a string",),
    ),
    "schema a list": Refused(schema_format([]), SCHEMA, ("an object or a boolean, not an array",)),
    "schema a number": Refused(schema_format(3), SCHEMA, ("not a number",)),
    "schema text of a string": Refused(schema_format('"{}"'), SCHEMA, ("not a string",)),
    "schema text of null": Refused({"guided_json": "null"}, "/guided_json", ("not null",)),
    "structured_outputs": Refused({"structured_outputs": "json"}, "/structured_outputs", ("not a string",)),
    "structured_outputs with odd names": Refused(
        {"structured_outputs": {1: {}}}, "/structured_outputs", ("a number for a field name",)
    ),
    "regex": Refused(outputs(regex=["a"]), "/structured_outputs/regex", ("must be a string, not an array",)),
    "regex of bytes": Refused({"regex": b"a"}, "/regex", ("not a Python bytes",)),
    "grammar": Refused({"grammar": {"type": "json"}}, "/grammar", ("must be a string, not an object",)),
    "choice": Refused(outputs(choice="yes,no"), "/structured_outputs/choice", ("array of strings", '["yes", "no"]')),
    "option": Refused({"guided_choice": ["a", 1]}, "/guided_choice/1", ("option 1", "must be a string, not a number")),
    "option null": Refused({"guided_choice": [None]}, "/guided_choice/0", ("not null",)),
    "json_object": Refused(outputs(json_object="true"), "/structured_outputs/json_object", ("not a string",)),
    "structural tag": Refused({"structural_tag": []}, "/structural_tag", ("must be an object, not an array",)),
    "type of a tag": Refused({"structural_tag": {"type": "tag"}}, "/structural_tag/type", ('"structural_tag"',)),
    "format of a tag": Refused({"structural_tag": {"format": {}}}, "/structural_tag/format", ('with a "type"',)),
    "triggers beside a format": Refused(
        {"structural_tag": TAG | {"triggers": ["<a>"]}}, "/structural_tag/triggers", ("goes with structures",)
    ),
    "no triggers": Refused(
        {"structural_tag": {"structures": [STRUCTURE]}}, "/structural_tag/triggers", ("at least one text",)
    ),
    "empty trigger": Refused(
        {"structural_tag": {"structures": [STRUCTURE], "triggers": [""]}}, "/structural_tag/triggers", ("empty",)
    ),
    "no structures": Refused(
        {"structural_tag": {"structures": [], "triggers": ["<a>"]}}, "/structural_tag/structures", ("at least one",)
    ),
    "structure": Refused(
        {"structural_tag": {"structures": ["<a>"], "triggers": ["<a>"]}},
        "/structural_tag/structures/0",
        ("must be an object, not a string",),
    ),
    "end of a structure": Refused(
        {"structural_tag": {"structures": [{"begin": "<a>", "schema": {}}], "triggers": ["<a>"]}},
        "/structural_tag/structures/0/end",
        ("end of a structure must be a string, not null",),
    ),
    "schema of a structure": Refused(
        {"structural_tag": {"structures": [STRUCTURE | {"schema": None}], "triggers": ["<a>"]}},
        "/structural_tag/structures/0/schema",
        ("an object or a boolean, not null",),
    ),
    "at_least_one": Refused(
        {"structural_tag": {"structures": [STRUCTURE], "triggers": ["<a>"], "at_least_one": 1}},
        "/structural_tag/at_least_one",
        ("must be a boolean, not a number",),
    ),
    "enforcement": Refused(outputs(json={}, enforcement=1), "/structured_outputs/enforcement", ("not a number",)),
    "disable_any_whitespace": Refused(
        outputs(json={}, disable_any_whitespace="yes"),
        "/structured_outputs/disable_any_whitespace",
        ("must be a boolean, not a string",),
    ),
    "whitespace_pattern": Refused(
        outputs(json={}, whitespace_pattern=1), "/structured_outputs/whitespace_pattern", ("must be a string",)
    ),
    "white space without JSON": Refused(
        outputs(regex="a", disable_any_whitespace=True), "/structured_outputs", ("white space", "regex")
    ),
    "sampling_params": Refused({"sampling_params": [{"regex": "a"}]}, "/sampling_params", ("must be an object",)),
}

BAD_TEXT = {
    "schema is no JSON": Refused(schema_format("{type: string}"), SCHEMA, ("is not JSON", "line 1"), offset=1),
    "schema breaks off": Refused({"json_schema": '{"a":'}, "/json_schema", ("is not JSON",), offset=5),
    "schema goes on": Refused({"json_schema": "{} {}"}, "/json_schema", ("is not JSON", "extra data"), offset=3),
    "schema with Python's literals": Refused({"guided_json": "{'a': True}"}, "/guided_json", ("not JSON",), offset=1),
    "NUL in a schema": Refused({"guided_json": '{"a": "\0"}'}, "/guided_json", ("control character",), offset=7),
    "NUL in a regex": Refused(outputs(regex="a\0"), "/structured_outputs/regex", ("NUL", "escape"), offset=1),
    "NUL in EBNF": Refused({"ebnf": 'root ::= "\0"'}, "/ebnf", ("NUL",), offset=10),
    "NUL in Lark": Refused({"guided_grammar": 'start: "\0"'}, "/guided_grammar", ("NUL",), offset=8),
    "NUL in an option": Refused({"guided_choice": ["a", "b\0"]}, "/guided_choice/1", ("option 1", "NUL"), offset=1),
    "surrogate in a schema": Refused(
        {"guided_json": {"properties": {"a": {"const": "\ud800"}}}}, "/guided_json/properties/a/const", ("surrogate",)
    ),
    "surrogate in a name": Refused(
        {"guided_json": {"properties": {"\ud800": {}}}}, "/guided_json/properties", ("name",)
    ),
    "surrogate in a text of a schema": Refused({"guided_json": '"\ud800"'}, "/guided_json", ("surrogate",), offset=1),
    "escaped surrogate": Refused({"guided_json": r'{"const": "\ud800x"}'}, "/guided_json/const", ("surrogate",)),
    "surrogate in a regex": Refused({"regex": "ab\udfff"}, "/regex", ("surrogate", "UTF-8"), offset=2),
    "surrogate in an option": Refused({"guided_choice": ["\udfff"]}, "/guided_choice/0", ("surrogate",), offset=0),
    "surrogate in a field": Refused(outputs(**{"jso\ud800": 1}), "/structured_outputs/jso\\ud800", ('"jso\\ud800"',)),
    "NaN": Refused({"guided_json": {"minimum": math.nan}}, "/guided_json/minimum", ("NaN",)),
    "Infinity": Refused({"guided_json": {"enum": [1, -math.inf]}}, "/guided_json/enum/1", ("infinite",)),
    "NaN in text": Refused({"guided_json": '{"minimum": NaN}'}, "/guided_json/minimum", ("NaN",)),
    "beyond a double": Refused({"guided_json": '{"minimum": 1e400}'}, "/guided_json/minimum", ("double",)),
    "a name twice": Refused(
        {"guided_json": '{"properties": {"a": {"type": "string", "type": "null"}}}'},
        "/guided_json/properties/a",
        ('"type"', "more than once"),
    ),
    "a name twice in a tag": Refused(
        {"structural_tag": '{"format": {}, "format": {}}'}, "/structural_tag", ("format",)
    ),
}

NOT_JSON_VALUES = {
    "set": Refused(schema_format({"enum": {1}}), f"{SCHEMA}/enum", ("a Python set", "plain JSON")),
    "tuple": Refused(schema_format({"enum": (1, 2)}), f"{SCHEMA}/enum", ("a Python tuple",)),
    "bytes": Refused(schema_format({"const": b"a"}), f"{SCHEMA}/const", ("a Python bytes",)),
    "enum": Refused(schema_format({"const": Colour.RED}), f"{SCHEMA}/const", ("a Python Colour",)),
    "class": Refused({"guided_json": Colour}, "/guided_json", ("a Python EnumType",)),
    "number for a name": Refused(
        schema_format({"properties": {1: {}}}), f"{SCHEMA}/properties", ("a number", "strings")
    ),
    "pointer is escaped": Refused(schema_format({"a/b": {"~": ()}}), f"{SCHEMA}/a~1b/~0", ("a Python tuple",)),
}

TOO_LARGE = {
    "depth of a schema": Refused(schema_format(nested(65)), SCHEMA, ("more than 64", "max_depth"), TOO_COMPLEX),
    "400 arrays": Refused(schema_format(nested(400)), SCHEMA, ("max_depth",), TOO_COMPLEX),
    "depth of a schema's text": Refused(
        schema_format(json.dumps(nested(65))), SCHEMA, ("65 levels", "at most 64", "max_depth"), TOO_COMPLEX
    ),
    "brackets alone": Refused({"guided_json": "[" * 100_000}, "/guided_json", ("100,000 levels",), TOO_COMPLEX),
    "a schema in itself": Refused(schema_format(containing_itself()), SCHEMA, ("max_depth",), TOO_COMPLEX),
    "bytes of a schema": Refused(
        schema_format({"description": "é" * 524_288}), SCHEMA, ("bytes", "1,048,576", "max_text_bytes"), TOO_COMPLEX
    ),
    "bytes of a text": Refused({"regex": "a" * 1_048_577}, "/regex", ("1,048,577 bytes", "at most"), TOO_COMPLEX),
    "groups of a regex": Refused({"regex": "(" * 65 + ")" * 65}, "/regex", ("65 levels", "max_depth"), TOO_COMPLEX),
    "groups of EBNF": Refused({"ebnf": f'root ::= {"(" * 9_000}"a"{")" * 9_000}'}, "/ebnf", ("9,000",), TOO_COMPLEX),
    "groups of Lark": Refused(
        {"guided_grammar": f'start: {"[" * 99}"a"{"]" * 99}'}, "/guided_grammar", ("99 levels",), TOO_COMPLEX
    ),
    "options": Refused(
        {"guided_choice": ["a"] * 10_001}, "/guided_choice", ("10,001 options", "10,000", "max_choices"), TOO_COMPLEX
    ),
    "bytes of options": Refused(
        {"guided_choice": ["a" * 600_000, "b" * 600_000]}, "/guided_choice", ("1,200,000 bytes",), TOO_COMPLEX
    ),
    "digits": Refused(
        schema_format({"maximum": 10**640}), f"{SCHEMA}/maximum", ("640 digits", "max_number_digits"), TOO_COMPLEX
    ),
    "digits in text": Refused(
        {"guided_json": f'{{"maximum": {"9" * 5_000}}}'}, "/guided_json/maximum", ("640 digits",), TOO_COMPLEX
    ),
    "fields": Refused({str(n): n for n in range(1_001)}, "", ("1,001 fields", "max_fields"), TOO_COMPLEX),
}

TOOLS = {
    "no tools": Refused({"tool_choice": "required"}, "/tools", ("forces a call", "null")),
    "empty tools": Refused({"tools": [], "tool_choice": A_CALL_OF_ADD}, "/tools", ("is empty",)),
    "unknown function": Refused(
        {"tools": [ADD, SUBTRACT], "tool_choice": {"type": "function", "function": {"name": "ad"}}},
        "/tool_choice",
        ('"ad"', 'did you mean "add"?', '"subtract"'),
    ),
    "no name": Refused(
        {"tools": [ADD], "tool_choice": {"type": "function", "function": {}}},
        "/tool_choice/function/name",
        ("does not name a function",),
    ),
    "no name, Responses": Refused(
        {"tools": [ADD], "tool_choice": {"type": "function"}}, "/tool_choice/name", ("name",)
    ),
    "no type": Refused(
        {"tools": [ADD], "tool_choice": {"function": {"name": "add"}}}, "/tool_choice/type", ("function",)
    ),
    "a list": Refused({"tools": [ADD], "tool_choice": ["add"]}, "/tool_choice", ("not an array",)),
    "allowed tools": Refused(
        {"tools": [ADD], "tool_choice": {"type": "allowed_tools"}}, "/tool_choice/type", ("not supported",), UNSUPPORTED
    ),
    "custom tool": Refused(
        {"tools": [ADD, {"type": "custom"}], "tool_choice": "required"}, "/tools/1/type", ('"custom"',), UNSUPPORTED
    ),
    "no object": Refused({"tools": ["add"], "tool_choice": "required"}, "/tools/0", ("not a string",)),
    "function is none": Refused(
        {"tools": [{"type": "function", "function": 1}], "tool_choice": "required"}, "/tools/0/function", ("a number",)
    ),
    "nameless": Refused(
        {"tools": [{"type": "function", "function": {"name": ""}}], "tool_choice": "required"},
        "/tools/0/function/name",
        ("no name",),
    ),
    "surrogate in a name": Refused(
        {"tools": [{"type": "function", "name": "\ud800"}], "tool_choice": "required"},
        "/tools/0/name",
        ("UTF-8",),
        offset=0,
    ),
    "two of a name": Refused({"tools": [ADD, ADD], "tool_choice": "required"}, "/tools/1/function/name", ('"add"',)),
    "parameters": Refused(
        {
            "tools": [{"type": "function", "name": "f", "parameters": []}],
            "tool_choice": {"type": "function", "name": "f"},
        },
        "/tools/0/parameters",
        ('"f"', "an object, not an array"),
    ),
    "something in the parameters": Refused(
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"enum": {1}}}}],
            "tool_choice": "required",
        },
        "/tools/0/function/parameters/enum",
        ("a Python set",),
    ),
    "two dialects": Refused(
        {
            "tools": [
                ADD,
                {"type": "function", "name": "f", "parameters": {"$schema": "http://json-schema.org/draft-07/schema#"}},
            ],
            "tool_choice": "required",
        },
        "/tools",
        ("draft-07", "2020-12"),
        UNSUPPORTED,
    ),
}

NOT_ENFORCED = {
    "whitespace_pattern": Refused(
        outputs(json={}, whitespace_pattern="[ ]?"),
        "/structured_outputs/whitespace_pattern",
        ("white space", "disable_any_whitespace"),
        UNSUPPORTED,
    ),
    "guided_whitespace_pattern": Refused(
        {"guided_json": {}, "guided_whitespace_pattern": "[ ]?"},
        "/guided_whitespace_pattern",
        ("white space",),
        UNSUPPORTED,
    ),
    "disable_additional_properties": Refused(
        outputs(json={}, disable_additional_properties=True),
        "/structured_outputs/disable_additional_properties",
        ("not supported", '"additionalProperties": false'),
        UNSUPPORTED,
    ),
}

GROUPS = {
    "empty or null": EMPTY_OR_NULL,
    "two at once": TWO_AT_ONCE,
    "misspelt": MISSPELT,
    "wrong type": WRONG_TYPE,
    "bad text": BAD_TEXT,
    "not JSON": NOT_JSON_VALUES,
    "too large": TOO_LARGE,
    "tools": TOOLS,
    "not enforced": NOT_ENFORCED,
}
