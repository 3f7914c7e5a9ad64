"""Hostile specs: what is known to crash, hang or slow down grammar backends, each in as many variants as are asked for.

A variant differs from the others in a detail that changes nothing of its cost, so that no cache knows it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from structout import parsing
from structout.result import Err, Ok, Result
from structout.spec import Choice, Ebnf, GrammarSpec, JsonSchema, Lark, Regex


@attrs.frozen
class Hostile:
    """One kind of hostile input.

    Attributes:
        name: what it is, in a few words.
        make: its spec in the variant of a number.
    """

    name: str
    make: Callable[[int], GrammarSpec]


def _schema(name: str, make: Callable[[int], Mapping[str, Any]]) -> Hostile:
    return Hostile(name, lambda number: JsonSchema(json.dumps({**make(number), "title": f"variant {number}"})))


def _references(number: int, length: int = 3000) -> Mapping[str, Any]:
    definitions: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": definitions | {f"d{length}": {"const": number}}}


def _one_of(number: int, depth: int = 12) -> Mapping[str, Any]:
    """Each of two alternatives has both again, in a property: 8,191 schemas."""
    schema: Mapping[str, Any] = {"const": number}
    for level in range(depth):
        branches = [{"type": "object", "properties": {f"{side}{level}": schema}, "required": [f"{side}{level}"]}
                    for side in "ab"]  # fmt: skip
        schema = {"oneOf": branches}
    return schema


def _arrays(number: int, depth: int = 400) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = {"const": number}
    for _ in range(depth):
        schema = {"type": "array", "items": schema}
    return schema


def _bounded(number: int) -> Mapping[str, Any]:
    """Bounded strings in bounded arrays."""
    text = {"type": "string", "maxLength": 100 + number % 7}
    lists = {name: {"type": "array", "items": text, "maxItems": 15} for name in ("a", "b", "c")}
    return {"type": "object", "properties": lists, "required": ["a", "b", "c"]}


def _optional(number: int) -> Mapping[str, Any]:
    """Optional properties in any order that a schema allows."""
    names = [f"field_{number}_{index:02}" for index in range(24)]
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, "additionalProperties": False}


def _rules(number: int, arrow: str, root: str, length: int = 3000) -> str:
    rules = [f"{root} {arrow} r0", *(f"r{i} {arrow} r{i + 1}" for i in range(length))]
    return "\n".join([*rules, f'r{length} {arrow} "{number}"', ""])


def _doubled(number: int, times: int = 30) -> str:
    """A text of so many doublings, which is all that there is."""
    rules = [f"r{level} ::= r{level + 1} r{level + 1}" for level in range(times)]
    return "\n".join(["root ::= r0", *rules, f'r{times} ::= "{number}"', ""])


HOSTILE: Final = (
    _schema("3,000 references in a chain", _references),
    _schema("an enum of 20,000 strings", lambda number: {"enum": [f"value {number} {i:05}" for i in range(20_000)]}),
    _schema("oneOf nested 12 deep", _one_of),
    _schema("arrays nested 400 deep", _arrays),
    _schema("bounded strings in bounded arrays", _bounded),
    _schema("24 optional properties", _optional),
    _schema("a definition that is itself", lambda _: {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    _schema("a huge multipleOf", lambda number: {"type": "integer", "multipleOf": 1_000_003 + number}),
    Hostile("[a-z]{1,129}", lambda number: Regex(f"{number}[a-z]{{1,129}}")),
    Hostile("three nested counts", lambda number: Regex(f"{number}(([a-z]{{1,129}}){{1,129}}){{1,129}}")),
    Hostile("(a?){n}a{n}", lambda number: Regex(f"(a?){{{500 + number}}}a{{{500 + number}}}")),
    Hostile("an exponential automaton", lambda number: Regex(f"{number}(a|b)*a(a|b){{18}}")),
    Hostile("a NUL in a class", lambda number: Regex(f"{number}[\0-\u2e7f]+")),
    Hostile("groups nested 5,000 deep", lambda number: Ebnf("root ::= " + "(" * 5000 + f'"{number}"' + ")" * 5000)),
    Hostile("a rule that is itself", lambda number: Ebnf(f"root ::= r{number}\nr{number} ::= r{number}\n")),
    Hostile("stars of stars", lambda number: Ebnf(f'root ::= "{number}" (("a"*)*)*\n')),
    Hostile("3,000 rules in a chain (EBNF)", lambda number: Ebnf(_rules(number, "::=", "root"))),
    Hostile("3,000 rules in a chain (Lark)", lambda number: Lark(_rules(number, ":", "start"))),
    Hostile("a text without end", lambda number: Ebnf(f'root ::= "{number}" root\n')),
    Hostile("a forced text of a gigabyte", lambda number: Ebnf(_doubled(number))),
    Hostile("3,000 choices", lambda number: Choice([f"category {number} {index:04} label" for index in range(3000)])),
)

_CLASSES: Final = ("crash", "hang", "performance")


def from_cases(folder: Path) -> Iterator[Hostile]:
    """The specs among public bug reports that are about a crash, a hang or performance. They have one variant.

    Args:
        folder: with ``cases.jsonl``: objects with ``id``, ``class``, ``kind`` and ``input``.
    """
    for line in (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        if any(each in case["class"] for each in _CLASSES) and isinstance(spec := _parsed(case), Ok):
            yield Hostile(case["id"], lambda _, spec=spec.value: spec)  # type: ignore[misc]  # binds it now


def _parsed(case: Mapping[str, Any]) -> Result[GrammarSpec, Any] | Err[str]:
    given = case.get("input")
    match case["kind"]:
        case "json_schema":
            return Ok(JsonSchema(given if isinstance(given, str) else json.dumps(given)))
        case "regex":
            return parsing.regex(given)
        case "ebnf":
            return Ok(Ebnf(str(given)))
        case "choice":
            return parsing.choice(given)
    return Err("no spec")
