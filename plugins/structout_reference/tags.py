"""Structural tags that constrain all of the text: texts, regular expressions, JSON and tags, in any combination."""

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from structout.errors import GrammarError
from structout.parsing.tags import structural_tag
from structout.result import Err, Ok
from structout.schema.pointer import join
from structout.spec import JsonSchema, StructuralTag
from structout_reference.characters import literal, utf8
from structout_reference.errors import Refused, refused
from structout_reference.nodes import Node, Rules, alt, seq
from structout_reference.refusals import refusal
from structout_reference.regex import whole
from structout_reference.schema import START, read_schema

_FIELDS: Final[Mapping[str, Mapping[str, type]]] = {
    "const_string": {"value": str},
    "regex": {"pattern": str},
    "json_schema": {"json_schema": object},
    "tag": {"begin": str, "content": dict, "end": str},
    "sequence": {"elements": list},
    "or": {"elements": list},
}
"""What each format has besides its type: all of it, and no more."""


def read_tag(spec: StructuralTag) -> Rules:
    match structural_tag(spec.text, policy=spec.policy):
        case Err(error):
            raise Refused(error)
        case Ok(normal):
            reader = _TagReader()
            return {START: reader.node(json.loads(normal.text)["format"], "/format"), **reader.rules}


class _TagReader:
    def __init__(self) -> None:
        self.rules: dict[str, Node] = {}

    def node(self, format_: Any, pointer: str) -> Node:
        """What a format at ``pointer`` stands for. Adds the rules that it needs."""
        kind = _checked_kind(format_, pointer)
        match kind:
            case "const_string":
                return literal(format_["value"])
            case "regex":
                return self._regex(format_["pattern"], join(pointer, "pattern"))
            case "json_schema":
                return self._schema(format_["json_schema"], join(pointer, "json_schema"))
            case "tag":
                content = self.node(format_["content"], join(pointer, "content"))
                return seq(literal(format_["begin"]), content, literal(format_["end"]))
            case _:
                place = join(pointer, "elements")
                parts = [self.node(part, join(place, index)) for index, part in enumerate(format_["elements"])]
                return alt(*parts) if kind == "or" else seq(*parts)

    def _regex(self, pattern: str, pointer: str) -> Node:
        try:
            return whole(pattern, utf8)
        except Refused as fault:
            raise Refused(attrs.evolve(fault.error, pointer=pointer)) from None

    def _schema(self, schema: Any, pointer: str) -> Node:
        spec = JsonSchema(json.dumps(schema))
        try:
            if error := refusal(spec):
                raise Refused(error)
            rules = dict(read_schema(spec, prefix=pointer))
        except Refused as fault:
            raise Refused(_moved(fault.error, pointer)) from None
        start = rules.pop(START)
        self.rules |= rules
        return start


def _moved(error: GrammarError, pointer: str) -> GrammarError:
    return attrs.evolve(error, pointer=pointer + (error.pointer or ""))


def _checked_kind(format_: Any, pointer: str) -> str:
    kind = format_.get("type") if isinstance(format_, dict) else None
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None or format_.keys() != {"type", *fields}:
        raise refused(f"Of structural tags, only {', '.join(_FIELDS)} are supported.", pointer=pointer, keyword="type")
    for name, expected in fields.items():
        if not isinstance(format_[name], expected):
            raise refused(f"{name} has another type here than is supported.", pointer=pointer, keyword=name)
    return str(kind)
