"""Small specs in which parts of a language meet, each with texts that are of it and texts that are not.

Chance brings such parts together seldom, and then often beside something that a backend refuses. What is tried here is
what implementations are known to treat in ways of their own: keywords that look at each other, names and values at the
edges of their kinds, characters at the edges of UTF-8.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from structout.spec import Choice, Ebnf, GrammarSpec, JsonSchema, Regex

Example: TypeAlias = tuple[GrammarSpec, Sequence[str], Sequence[str]]
"""A spec, members, strangers."""

_EDGES: Final = "\x7f\u0080\u07ff\u0800\ud7a3\ue000\ufffd\uffff\U00010000\U000fffff\U00100000\U0010ffff"
"""The first and last characters of each length in UTF-8, and around the surrogates."""

_SCHEMAS: Final[Sequence[tuple[str, Sequence[str], Sequence[str]]]] = (
    # Values that are equal in some languages, and values in values.
    ('{"enum": [1, true, 0, false]}', ["1", "true", "0", "false"], ["2", "null", '"1"']),
    ('{"enum": ["", null, "null"]}', ['""', "null", '"null"'], ['" "', "0"]),
    ('{"const": true}', ["true"], ["1", "false"]),
    ('{"const": [[1]]}', ["[[1]]"], ["[[2]]", "[[]]", "[1]"]),
    ('{"const": {"a": {"b": [0]}}}', ['{"a": {"b": [0]}}'], ['{"a": {"b": [1]}}', '{"a": {}}', "{}"]),
    ('{"enum": [[], {}, [[]], {"a": []}]}', ["[]", "{}", "[[]]", '{"a": []}'], ["[{}]", '{"a": {}}']),
    # Members.
    (
        '{"type": "object", "properties": {"": {"type": "integer"}}, "required": [""], "additionalProperties": false}',
        ['{"": 1}'],
        ['{"": "x"}', "{}"],
    ),
    (
        '{"type": "object", "required": ["a"], "additionalProperties": {"type": "integer"}}',
        ['{"a": 1}', '{"a": 1, "b": 2}'],
        ['{"a": "x"}', "{}", '{"a": 1, "b": "x"}'],
    ),
    (
        '{"type": "object", "properties": {"a": false, "b": {"type": "null"}}, "additionalProperties": false}',
        ["{}", '{"b": null}'],
        ['{"a": 1}', '{"b": 1}'],
    ),
    (
        '{"type": "object", "properties": {"abcdefghijklmnop": {"type": "null"}, "abcdefghijklmnoq": {"type": "null"}},'
        ' "required": ["abcdefghijklmnop", "abcdefghijklmnoq"], "additionalProperties": false}',
        ['{"abcdefghijklmnop": null, "abcdefghijklmnoq": null}'],
        ["{}", '{"abcdefghijklmnop": null}', '{"abcdefghijklmnoq": null}'],
    ),
    # Names that some languages take for numbers, and put first.
    (
        '{"type": "object", "properties": {"b": {"type": "null"}, "10": {"type": "null"}, "9": {"type": "null"}},'
        ' "required": ["b", "10", "9"], "additionalProperties": false}',
        ['{"b": null, "10": null, "9": null}'],
        ['{"b": null, "10": null}', '{"b": null, "9": null}', "{}"],
    ),
    (
        '{"type": "object", "properties": {"a": true}, "patternProperties": {"^a": {"type": "integer"}},'
        ' "additionalProperties": false}',
        ['{"a": 1}', '{"ab": 1}'],
        ['{"a": "x"}', '{"ab": "x"}', '{"b": 1}'],
    ),
    (
        '{"type": "object", "patternProperties": {"^a": {"type": "integer"}},'
        ' "additionalProperties": {"type": "null"}}',
        ['{"a": 1}', '{"b": null}'],
        ['{"a": null}', '{"b": 1}'],
    ),
    (
        '{"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 1, "maxProperties": 1,'
        ' "additionalProperties": {"type": "null"}}',
        ['{"a": null}', '{"b": null}'],
        ["{}", '{"a": null, "b": null}'],
    ),
    (
        '{"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},'
        ' {"properties": {"a": {"minimum": 3}}}]}',
        ['{"a": 3}'],
        ['{"a": "x"}', '{"a": 2}', "{}"],
    ),
    (
        '{"allOf": [{"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]},'
        ' {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"]}]}',
        ['{"a": null, "b": null}'],
        ['{"a": null}', '{"b": null}', "{}"],
    ),
    # Items.
    (
        '{"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"}, "maxItems": 3}',
        ["[]", "[null]", "[null, true, false]"],
        ["[true]", "[null, null]", "[null, true, true, true]"],
    ),
    ('{"type": "array", "prefixItems": [{"type": "null"}, true], "items": false}', ["[null, 1]"], ["[null, 1, 1]"]),
    ('{"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 2}', ["[null, null]"], ["[null]", "[]"]),
    ('{"type": "array", "items": false}', ["[]"], ["[1]", "[null]"]),
    # Numbers.
    ('{"type": "integer", "minimum": 1, "exclusiveMinimum": 3}', ["4"], ["2", "3", "1"]),
    ('{"type": "integer", "maximum": 9, "exclusiveMaximum": 7}', ["6"], ["7", "8", "9"]),
    ('{"type": "integer", "minimum": 1.5, "maximum": 3.5}', ["2", "3"], ["1", "4"]),
    ('{"type": "integer", "minimum": -12, "maximum": -3}', ["-3", "-12", "-9"], ["-2", "-13", "3", "0"]),
    ('{"type": "integer", "minimum": 95, "maximum": 1005}', ["95", "99", "100", "999", "1005"], ["94", "1006", "9"]),
    ('{"type": "number", "minimum": 0.125, "maximum": 0.126}', ["0.125", "0.126"], ["0.128", "0.124", "1"]),
    ('{"type": "integer"}', ["0", "-1", "10"], ["01", "1.5", "-", "+1", "1."]),
    (
        '{"type": "number"}',
        ["0", "-1.5", "0.01", "1e5", "1E5", "1e+5", "1E-05", "-0.5E+5"],
        ["01", "1.", ".5", "+1", "1e", "E5", "1e5.0", "NaN", "Infinity"],
    ),
    # Integers that are no double.
    ('{"const": 9007199254740993}', ["9007199254740993"], ["9007199254740992", "9007199254740994"]),
    ('{"enum": [9007199254740993, 1]}', ["9007199254740993"], ["9007199254740992", "9007199254740994"]),
    (
        '{"type": "integer", "minimum": 9007199254740993, "maximum": 9007199254740995}',
        ["9007199254740993", "9007199254740995"],
        ["9007199254740992", "9007199254740996"],
    ),
    # References and branches.
    (
        '{"type": "object", "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}},'
        ' "additionalProperties": false}',
        ['{"b": 1}', '{"a": 1, "b": 2}'],
        ['{"b": "x"}'],
    ),
    ('{"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$defs": {"b": {"type": "null"}}}}}', ["null"], ["1"]),
    ('{"$ref": "#x", "$defs": {"a": {"$anchor": "x", "type": "null"}}}', ["null"], ["1"]),
    (
        '{"type": "array", "items": {"$ref": "#/$defs/tree"}, "$defs": {"tree": {"anyOf": [{"type": "null"},'
        ' {"type": "array", "items": {"$ref": "#/$defs/tree"}}]}}}',
        ["[null, [null, []]]"],
        ["[1]", "[[1]]", "null"],
    ),
    (
        '{"anyOf": [' + ", ".join(f'{{"const": {number}}}' for number in range(40)) + "]}",
        ["0", "16", "39"],
        ["40", "null"],
    ),
    ('{"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer"}]}', ['"a"', "12"], ['"ab"', "null"]),
    ('{"type": ["integer", "string"], "minimum": 3, "maxLength": 1}', ["3", '"a"'], ["2", '"ab"', "null"]),
    # Formats.
    (
        '{"type": "string", "format": "date"}',
        ['"2023-12-31"', '"2024-02-29"'],
        ['"2024-13-45"', '"2024-00-10"', '"2024-01-32"', '"2024-1-1"', '"20240101"'],
    ),
    (
        '{"type": "string", "format": "time"}',
        ['"23:59:58Z"'],
        ['"24:00:00Z"', '"12:60:00Z"', '"12:00"'],
    ),
    # Strings.
    (
        '{"type": "string", "maxLength": 1}',
        [f'"{char}"' for char in _EDGES] + [r'"\n"', r'"\""', '""'],
        ['"ab"', '"\U0001f600\U0001f600"', r'"\n\n"'],
    ),
    ('{"type": "string", "minLength": 2, "maxLength": 2}', ['"ab"', '"\U0001f600a"'], ['"\U0001f600"', '"abc"']),
    ('{"type": "string", "pattern": "^a|b$"}', ['"ax"', '"xb"', '"a"', '"b"'], ['"xa"', '"bx"', '""']),
    ('{"type": "string", "pattern": "^(a|b)$"}', ['"a"', '"b"'], ['"ab"', '"ax"', '""']),
    ('{"type": "string", "pattern": "^\\\\d+$"}', ['"12"'], ['"\u0663"', '"a"', '""']),
    ('{"type": "string", "pattern": "^\\\\w$"}', ['"a"', '"_"'], ['"\u00e9"', '"\u212a"', '"-"']),
    ('{"type": "string", "pattern": "^a{0}b$"}', ['"b"'], ['"ab"']),
    ('{"type": "string", "pattern": "^[ab-]$"}', ['"-"', '"a"'], ['"c"']),
    ('{"type": "string", "pattern": "a.c"}', ['"abc"', '"xa cx"'], [r'"a\nc"', '"ac"']),
)

_REGEXES: Final[Sequence[tuple[str, Sequence[str], Sequence[str]]]] = (
    ("a{0}b", ["b"], ["ab"]),
    ("a{0,0}b", ["b"], ["ab"]),
    ("a{1}b{0,1}", ["a", "ab"], ["aa", "b", "abb"]),
    ("(ab){2,3}", ["abab", "ababab"], ["ab", "abababab"]),
    ("[0-9a-f]{2,}", ["0a", "abcdef"], ["a", "0g"]),
    ("[ab-]", ["-", "a"], ["c"]),
    ("[-ab]", ["-", "b"], ["c"]),
    ("[^a]", ["\n", *_EDGES], ["a", ""]),
    (".", [*_EDGES], ["\n", "", "ab"]),
    (r"\x41\u00e9", ["A\u00e9"], ["x41u00e9", "a\u00e9"]),
    (r"a\.b\*", ["a.b*"], ["axb*", "a.b"]),
    ("(a|ab)(c|bcd)", ["ac", "abc", "abcd", "abbcd"], ["ab", "abcdd"]),
    ("a|b*c", ["a", "c", "bbc"], ["ac", "b", ""]),
    ("(a*)*b", ["b", "aab"], ["a", ""]),
    ("(a|b)?", ["", "a", "b"], ["ab"]),
)

_CHOICES: Final[Sequence[tuple[Sequence[str], Sequence[str]]]] = (
    (["a", "ab", "abc", ""], ["b", "abcd", "ac"]),
    (["a\0b", "a"], ["a\0", "b", "a\0c"]),
    (["a|b", "c"], ["a", "b", "|"]),
    (["x" * 300, "y"], ["x" * 255, "x" * 299, "x" * 301]),
    (["true", "TRUE", "1"], ["True", "tRUE", "11"]),
    ([" a", "a ", "\ta", "a\r\n", "a\n"], ["a", "a\r", "\t"]),
    ([*_EDGES], ["\u0081", "\ud7a2", "\U00010001"]),
    (["e\u0301", "\ufb01", "\u00b2"], ["\u00e9", "fi", "2"]),
)

_GRAMMARS: Final[Sequence[tuple[str, str, Sequence[str], Sequence[str]]]] = (
    ('root ::= "a" | ""', "root", ["a", ""], ["aa"]),
    ('x ::= "a"\nroot ::= x x', "root", ["aa"], ["a", "aaa"]),
    ('root ::= "a" x\nx ::= "b"', "x", ["b"], ["ab", "a"]),
    ("root ::= [a-z]{1,300}", "root", ["a", "a" * 300], ["", "a" * 301]),
    ('root ::= "a"{0,2} "b"{2}', "root", ["bb", "aabb"], ["b", "aaabb"]),
    ('root ::= "a" | "b" "c"', "root", ["a", "bc"], ["ac", "b", "c"]),
    ('root ::= ("a" | "b") "c"', "root", ["ac", "bc"], ["a", "c"]),
    (r'root ::= "\x41\n\"" [^\n"]', "root", ['A\n"x'], ['A\n""', 'x41\n"x']),
    ('root ::= "(" root ")" | "x"', "root", ["x", "((x))"], ["(x", "x)", "()"]),
)


def interactions(kind: str) -> Iterator[Example]:
    """Those of one kind of spec."""
    match kind:
        case "json_schema":
            yield from ((JsonSchema(schema), members, strangers) for schema, members, strangers in _SCHEMAS)
        case "regex":
            yield from ((Regex(pattern), members, strangers) for pattern, members, strangers in _REGEXES)
        case "choice":
            yield from ((Choice(options), options, strangers) for options, strangers in _CHOICES)
        case "ebnf":
            yield from ((Ebnf(text, root=root), members, strangers) for text, root, members, strangers in _GRAMMARS)
