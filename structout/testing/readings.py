"""Specs that are easily read as if they said something else: in another dialect, beside other documents, without their
flags, written in another form. Each has texts that tell.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Final

from structout.spec import Dialect, Escapes, JsonObject, JsonSchema, KeyOrder, Lark, Serialization, StructuralTag
from structout.spec import Whitespace as Space
from structout.testing.interactions import Example

SERIALIZATIONS: Final = tuple(itertools.starmap(Serialization, itertools.product(Space, KeyOrder, Escapes)))
"""All there are."""

_COMPACT: Final = '{"a":[1,2]}'
_SPACED: Final = '{"a": [1, 2]}'
_LOOSE: Final = '{ "a" :[1,\n2]}'
_OBJECTS: Final = {Space.ANY: (_COMPACT, _SPACED, _LOOSE), Space.SPACED: (_SPACED,), Space.COMPACT: (_COMPACT,)}
"""Ways to write an object that a policy on white space allows."""
_ESCAPED: Final = (r'{"a":"\/"}', r'{"a": "\/"}')

_URI: Final = "https://example.com/a"
_TAG: Final = {"begin": "<a>", "content": {"type": "json_schema", "json_schema": {"type": "null"}}, "end": "</a>"}


def readings(kind: str) -> Iterator[Example]:
    """Those of one kind of spec."""
    match kind:
        case "json_object":
            yield from map(_object, SERIALIZATIONS)
        case "json_schema":
            yield from _dialects()
            yield from _documents()
        case "lark":
            yield from _flags()
        case "structural_tag":
            yield from _tags()


def _object(serialization: Serialization) -> Example:
    members = _OBJECTS[serialization.whitespace]
    strangers = [text for text in _OBJECTS[Space.ANY] if text not in members]
    if serialization.escapes is Escapes.MINIMAL:
        strangers += _ESCAPED
    return JsonObject(serialization=serialization), ["{}", *members], [*strangers, "[]", "1"]


def _dialects() -> Iterator[Example]:
    """What ``$schema`` says wins over the dialect that is meant without it."""
    reference = {"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": {"type": "string"}}}
    tuples = {"type": "array", "prefixItems": [{"type": "null"}]}
    new, old = Dialect.DRAFT_2020_12, Dialect.DRAFT_7
    yield JsonSchema(json.dumps({"$schema": old, **reference}), dialect=new), ['"a"', '"abc"'], ["1"]
    yield JsonSchema(json.dumps({"$schema": new, **reference}), dialect=old), ['"a"'], ['"abc"', "1"]
    yield JsonSchema(json.dumps({"$schema": old, **tuples}), dialect=new), ["[null]", "[1]"], ["1"]
    yield JsonSchema(json.dumps({"$schema": new, **tuples}), dialect=old), ["[null]"], ["[1]", "1"]


def _documents() -> Iterator[Example]:
    """One schema beside two documents, by turns: a pair of each, as two processes share the cases."""
    texts = {"integer": "1", "null": "null", "boolean": "true"}
    for name, member in texts.items():
        spec = JsonSchema(json.dumps({"$ref": _URI}), registry={_URI: json.dumps({"type": name})})
        yield from [(spec, [member], [text for text in texts.values() if text != member])] * 2


def _flags() -> Iterator[Example]:
    yield Lark('start: "yes"i'), ["yes", "YES", "yEs"], ["ye", "no"]
    yield Lark('start: "yes"'), ["yes"], ["YES", "Yes"]
    yield Lark("start: /[a-c]x/i"), ["ax", "CX"], ["dx", "a"]
    yield Lark("start: /a.c/s"), ["abc", "a\nc"], ["ac"]
    yield Lark("start: /a.c/"), ["abc"], ["a\nc", "ac"]


def _tags() -> Iterator[Example]:
    """How often tags may come, and has one to come."""
    one, two = "<a>null</a>", "<a>null</a><a>null</a>"
    triggered = {"type": "triggered_tags", "triggers": ["<a"], "tags": [_TAG]}
    separated = {"type": "tags_with_separator", "separator": ",", "tags": [_TAG]}
    yield _tag(triggered), ["", "b", one, two, f"b{one}b"], ["<a>1</a>", "<a>null"]
    yield _tag({**triggered, "at_least_one": True}), [one, two], ["", "b", f"b{one}", "<a>1</a>"]
    yield _tag({**triggered, "stop_after_first": True}), [one, f"b{one}"], [two, f"{one}b"]
    yield _tag(separated), ["", one, f"{one},{one}"], [two, f"{one},", "b"]
    yield _tag({**separated, "at_least_one": True}), [one, f"{one},{one}"], ["", two, f"{one},"]
    yield _tag({**separated, "stop_after_first": True}), ["", one], [f"{one},{one}", two]


def _tag(form: object) -> StructuralTag:
    return StructuralTag(json.dumps({"type": "structural_tag", "format": form}))
