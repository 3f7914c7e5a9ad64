"""What the kit tests with: generated cases, the same in every run, and specs that are big in one dimension each."""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Final

from structout.fuzz.case import Case, Text
from structout.fuzz.cases import MAKERS
from structout.fuzz.json_cases import schema_case
from structout.fuzz.json_text import write
from structout.fuzz.keywords.table import generated
from structout.fuzz.schemas import keyword_schema
from structout.fuzz.shrinking import Trace
from structout.spec import Choice, Dialect, Ebnf, GrammarSpec, JsonSchema, Regex, StructuralTag

CASES: Final = 60
"""Generated cases of each kind of spec."""
KEYWORD_CASES: Final = 4
"""Generated cases of each keyword of JSON Schema, alone but for ``type`` and what it needs."""


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
            yield schema_case(JsonSchema(write(schema)), seed).unwrap()


_TAG: Final = {
    "type": "tag",
    "begin": "<a>",
    "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
    "end": "</a>",
}
PLAIN: Final[Mapping[str, GrammarSpec]] = {
    "json_schema": JsonSchema('{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}'),
    "regex": Regex("a[0-9]+"),
    "choice": Choice(["yes", "no"]),
    "ebnf": Ebnf('root ::= "a" [0-9]+'),
    "structural_tag": StructuralTag(json.dumps({"type": "structural_tag", "format": _TAG})),
}
"""A spec of each kind as plain as can be: a backend that registers the kind compiles it."""


def big_cases(kind: str) -> Iterator[Case]:
    """Specs of one kind that strain time and memory; a backend may refuse them. Members come with them."""
    for number, (spec, member) in enumerate(_big(kind)):
        yield Case(spec, (Text(member, "plain"),), seed=number)


def _big(kind: str) -> Iterator[tuple[GrammarSpec, str]]:
    match kind:
        case "json_schema":
            yield _schema({"enum": [f"option {number}" for number in range(1000)]}), '"option 999"'
            yield _schema({"type": "string", "maxLength": 2000}), '"a"'
            yield _schema(_nested(40)), "[" * 40 + "]" * 40
            yield _schema({"type": "object", "properties": {f"p{number}": {} for number in range(100)}}), "{}"
        case "regex":
            yield Regex("[a-z]{0,1000}"), "a"
            yield Regex("(?:a?){40}a{40}"), "a" * 40
        case "choice":
            yield Choice([f"option {number}" for number in range(2000)]), "option 1999"


def _schema(schema: object) -> JsonSchema:
    return JsonSchema(json.dumps(schema))


def _nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "array", "maxItems": 0}
    for _ in range(depth - 1):
        schema = {"type": "array", "items": schema, "maxItems": 1}
    return schema
