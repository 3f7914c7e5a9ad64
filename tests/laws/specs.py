"""Small specs of every kind, for laws that have to hold whatever the grammar is."""

import json

from structout import Choice, Ebnf, GrammarSpec, JsonObject, JsonSchema, Lark, Regex, StructuralTag

OBJECT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"enum": ["a", "ab", "é"]}, "maxItems": 3},
        "n": {"type": "integer"},
        "inner": {"type": "object", "properties": {"x": {"type": "boolean"}}, "additionalProperties": False},
    },
    "required": ["name", "n"],
    "additionalProperties": False,
}
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<call>",
        "content": {"type": "json_schema", "json_schema": {"type": "boolean"}},
        "end": "</call>",
    },
}

SPECS: dict[str, GrammarSpec] = {
    "object": JsonSchema(json.dumps(OBJECT)),
    "strings": JsonSchema('{"type": "array", "items": {"type": "string"}}'),
    "any object": JsonObject(),
    "date": Regex(r"(19|20)[0-9]{2}-(0[1-9]|1[0-2])-[0-9]{2}"),
    "prefixes": Regex(r"a|ab|a(-a)?|(é|ü)+"),
    "choice": Choice(("yes", "no", "yes, certainly", 'quote " and \\', "naïve é", "a.b*c")),
    "ebnf": Ebnf('root ::= "(" root ")" | [0-9]+ | "é"'),
    "lark": Lark('start: "(" start ")" | NUMBER\nNUMBER: /[0-9]+/\n'),
    "tag": StructuralTag(json.dumps(TAG)),
}

COMPLETE: dict[str, str] = {
    "object": '{"name":"x","n":1}',
    "strings": '["x"]',
    "any object": "{}",
    "date": "1999-12-31",
    "prefixes": "a-a",
    "choice": "no",
    "ebnf": "(1)",
    "lark": "(1)",
    "tag": "<call>true</call>",
}
"""A text of each spec's language, of characters that every vocabulary has as tokens."""
