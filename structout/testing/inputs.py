"""What the kit tests with: generated cases, the same in every run, and specs that are big in one dimension each."""

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from structout.fuzz.case import Case, Text
from structout.fuzz.cases import MAKERS
from structout.fuzz.json_cases import case_of, schema_case
from structout.fuzz.json_text import write
from structout.fuzz.keywords.table import generated, pairs
from structout.fuzz.schemas import keyword_schema
from structout.fuzz.shrinking import Trace
from structout.fuzz.vocabulary import ADDED
from structout.spec import (
    Choice,
    Dialect,
    Ebnf,
    FormatMode,
    GrammarSpec,
    JsonObject,
    JsonSchema,
    Lark,
    Policy,
    Regex,
    StructuralTag,
)
from structout.testing.interactions import Example, interactions
from structout.testing.readings import SERIALIZATIONS, readings

CASES: Final = 50
"""Generated cases of each kind of spec."""
KEYWORD_CASES: Final = 4
"""Generated cases of each keyword of JSON Schema, alone but for ``type`` and what it needs."""
PAIR_CASES: Final = 250
"""Pairs of keywords of JSON Schema, some 600 of which mean something together."""
_TOGETHER: Final = (
    ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties"),
    ("prefixItems", "items", "contains", "minContains", "maxContains", "unevaluatedItems"),
)
"""Keywords that are defined by what the others leave: of these no pair is left out."""
_CLOSED: Final = json.dumps(
    {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "array", "items": {"const": "/"}}},
        "required": ["b", "a"],
        "additionalProperties": False,
    }
)
"""Has little that a backend could leave out but for the ways to write it."""
_FORMAT: Final = '{"type": "string", "format": "date"}'


def cases_of_kind(kind: str) -> Iterator[Case]:
    """The cases for one kind of spec; of JSON Schema first some for every keyword."""
    if kind == "json_schema":
        yield from _keyword_cases()
    if make := MAKERS.get(kind):
        yield from (make(Trace(rest=random.Random(f"{kind} {number}"))) for number in range(CASES))


def _keyword_cases() -> Iterator[Case]:
    for seed in range(KEYWORD_CASES):
        for keyword in generated(Dialect.DRAFT_2020_12):
            schema = keyword_schema(Trace(rest=random.Random(f"{keyword} {seed}")), keyword)
            mode = FormatMode.ANNOTATE if seed % 2 else FormatMode.ASSERT
            yield schema_case(JsonSchema(write(schema), format_mode=mode), seed).unwrap()


def _plain(spec: GrammarSpec, *members: str) -> Case:
    return Case(spec, tuple(Text(member, "plain") for member in members))


_TAG: Final = {
    "type": "tag",
    "begin": ADDED,
    "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
    "end": "</a>",
}
PLAIN: Final[Mapping[str, Case]] = {
    "json_schema": _plain(
        JsonSchema('{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}'),
        f'{{"a": "{ADDED}"}}',
    ),
    "json_object": _plain(JsonObject(), f'{{"a": ["{ADDED}"]}}', "{}"),
    "lark": _plain(Lark('start: "a" /[0-9]+/'), "a1", "a20"),
    "regex": _plain(Regex(f"(?:{ADDED})?a[0-9]+"), f"{ADDED}a1", "a20"),
    "choice": _plain(Choice(["no", ADDED]), ADDED, "no"),
    "ebnf": _plain(Ebnf(f'root ::= "{ADDED}"? "a" [0-9]+'), f"{ADDED}a1", "a20"),
    "structural_tag": _plain(
        StructuralTag(json.dumps({"type": "structural_tag", "format": _TAG})), f"{ADDED}1</a>", f"{ADDED}-20</a>"
    ),
}
"""A case of each kind of spec as plain as can be, most with a token in it that was added to the vocabulary by hand.
A backend that registers the kind compiles it."""


def language_cases(kind: str) -> Iterator[Case]:
    """More cases, in which the language alone is looked at: where its parts meet, and what is easily misread; and of
    JSON Schema, under all serialization policies, keywords together, objects closed every other time."""
    yield from (_listed(*example) for example in (*interactions(kind), *readings(kind)))
    if kind == "json_schema":
        for number, serialization in enumerate(SERIALIZATIONS):
            yield schema_case(JsonSchema(_CLOSED, serialization=serialization), number).unwrap()
        yield _plain(JsonSchema(_FORMAT, format_mode=FormatMode.ANNOTATE), '"a"', '"2024-02-30"')
        dependent = [pair for keywords in _TOGETHER for pair in itertools.combinations(keywords, 2)]
        others = random.Random(kind).sample(pairs(Dialect.DRAFT_2020_12), PAIR_CASES)
        for number, (one, other) in enumerate((*dependent * 4, *others)):
            choices = Trace(rest=random.Random(f"{one} {other} {number}"))
            schema = keyword_schema(choices, one, other)
            if number % 2 and not schema.keys().isdisjoint(("properties", "patternProperties")):
                schema.setdefault("additionalProperties", False)
            yield case_of(choices, schema, policy=Policy.SOUND)


def big_cases(kind: str) -> Iterator[Case]:
    """Specs of one kind that strain time and memory, with members and strangers; a backend may refuse them."""
    yield from (_listed(*example) for example in _big(kind))


def _listed(spec: GrammarSpec, members: Sequence[str], strangers: Sequence[str]) -> Case:
    return attrs.evolve(_plain(spec, *members), strangers=tuple(Text(stranger, "syntax") for stranger in strangers))


def _big(kind: str) -> Iterator[Example]:
    match kind:
        case "json_schema":
            options = [f"option {number}" for number in range(1000)]
            yield _schema({"enum": options}), ['"option 999"', '"option 500"'], ['"option 1000"']
            for most in (300, 2000):
                longest = f'"{"a" * most}"'
                yield _schema({"type": "string", "maxLength": most}), ['"a"', longest], [f'"{"a" * (most + 1)}"']
            yield _schema({"type": "string"}), [f'"{"ab" * 250}"'], []
            yield _schema({"type": "array", "items": {"type": "null"}}), [f"[{', '.join(['null'] * 60)}]"], []
            for depth in (40, 70):
                yield _schema(_nested(depth)), ["[" * depth + "]" * depth], ["[" * (depth + 1) + "]" * (depth + 1)]
            for bound in (2**31, 2**40):
                yield _schema({"type": "integer", "minimum": bound}), [str(bound)], [str(bound - 1), "1"]
                yield _schema({"type": "integer", "maximum": -bound}), [str(-bound)], [str(1 - bound), "-1"]
            yield _many_properties()
        case "regex":
            yield Regex("[a-z]{0,1000}"), ["a", "a" * 1000], ["a" * 1001]
            yield Regex("(?:a?){40}a{40}"), ["a" * 40], ["a" * 39, "a" * 81]
            yield Regex("a*"), ["a" * 400], []
        case "choice":
            options = [f"option {number}" for number in range(2000)]
            yield Choice(options), ["option 1999", "option 1000"], ["option 2000"]


def _many_properties() -> Example:
    names = [f"p{number}" for number in range(60)]
    properties: dict[str, object] = {name: {"type": "boolean"} for name in names}
    schema = {"type": "object", "properties": properties, "required": names, "additionalProperties": False}
    member = dict.fromkeys(names, True)
    strangers = [member | {"p59": None}, dict.fromkeys(names[:-1], True)]
    return _schema(schema), [json.dumps(member)], [json.dumps(stranger) for stranger in strangers]


def _schema(schema: object) -> JsonSchema:
    return JsonSchema(json.dumps(schema))


def _nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "array", "maxItems": 0}
    for _ in range(depth - 1):
        schema = {"type": "array", "items": schema, "maxItems": 1}
    return schema
