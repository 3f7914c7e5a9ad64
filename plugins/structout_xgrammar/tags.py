"""Structural tags: the schemas and regular expressions in them are rewritten as they are when they stand alone."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from structout.backend import Finding
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.schema import check_schema
from structout.schema.loading import parse_json
from structout.schema.pointer import join
from structout.spec import JsonSchema, Policy, StructuralTag
from structout_xgrammar.automaton import Automaton, automaton
from structout_xgrammar.ebnf import rules
from structout_xgrammar.errors import BACKEND
from structout_xgrammar.grammars import ebnf_findings, lark_findings
from structout_xgrammar.patterns import read
from structout_xgrammar.schemas import narrowed, rewrite
from structout_xgrammar.sources import TagSource, Translation

_TOKEN_FORMATS: Final = frozenset({"token", "exclude_token", "any_tokens", "token_triggered_tags", "token_dispatch"})
"""Formats over token ids. Control tokens, which they are for, match nothing here."""


class _Refused(Exception):
    """A tag that cannot be had. Carries the error."""

    def __init__(self, error: GrammarError) -> None:
        super().__init__(error.message)
        self.error = error


def translate_tag(spec: StructuralTag) -> Result[Translation, GrammarError]:
    rewriter = _Rewriter(spec.policy)
    try:
        tag = rewriter.rewrite(parse_json(spec.text), "")
    except _Refused as refused:
        return Err(refused.error)
    except (ValueError, RecursionError) as error:
        message = "The structural tag is not JSON, or nested too deeply."
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, backend=BACKEND, detail=str(error)))
    source = TagSource(json.dumps(tag), rewriter.automata)
    return Ok(Translation(source, tuple(rewriter.unenforced), tuple(rewriter.narrowed)))


class _Rewriter:
    def __init__(self, policy: Policy) -> None:
        self.automata: dict[str, Automaton] = {}
        self.unenforced: list[Finding] = []
        self.narrowed: list[Finding] = []
        self._policy = policy

    def rewrite(self, value: Any, pointer: str) -> Any:
        """A part of a tag, and what is inside it."""
        match value:
            case list():
                return [self.rewrite(item, join(pointer, index)) for index, item in enumerate(value)]
            case dict():
                return self._format(value, pointer)
            case str() if "\0" in value:  # where xgrammar would end the text
                raise self._refused(pointer, "value", "has a NUL character", ErrorKind.UNSUPPORTED)
            case _:
                return value

    def _format(self, value: dict[str, Any], pointer: str) -> dict[str, Any]:
        match value.get("type"):
            case "json_schema":
                return self._schema(value, pointer)
            case "regex":
                return self._regex(value, pointer)
            case "grammar":
                check = lark_findings if value.get("syntax") == "lark" else ebnf_findings
                found = check(value["grammar"]) if isinstance(value.get("grammar"), str) else []
                self.unenforced += [attrs.evolve(finding, pointer=pointer) for finding in found]
                return {name: self.rewrite(part, join(pointer, name)) for name, part in value.items()}
            case "qwen_xml_parameter":
                raise self._refused(pointer, "style", "is enforced for JSON only")
            case str() as name if name in _TOKEN_FORMATS:
                raise self._refused(pointer, "type", f"{name} is not supported: a tag is made of text here")
            case _:
                self._check_budget(value, pointer)
                return {name: self.rewrite(part, join(pointer, name)) for name, part in value.items()}

    def _schema(self, value: dict[str, Any], pointer: str) -> dict[str, Any]:
        for name, default in (("style", "json"), ("any_order", False), ("excludes", [])):
            if value.get(name, default) != default:
                raise self._refused(pointer, name, "is not supported")
        schema = JsonSchema(json.dumps(value.get("json_schema")), policy=self._policy)
        if invalid := check_schema(schema):
            raise _Refused(attrs.evolve(invalid, pointer=_inside(pointer, invalid.pointer or "")))
        match rewrite(schema, self.automata), narrowed(schema):
            case (Err(error), _) | (_, Err(error)):
                raise _Refused(attrs.evolve(error, pointer=_inside(pointer, error.pointer or "")))
            case Ok((rewritten, left_out)), Ok(leaving_out):
                self.unenforced += _moved(left_out, pointer)
                self.narrowed += _moved(leaving_out, pointer)
                return value | {"json_schema": rewritten}

    def _regex(self, value: dict[str, Any], pointer: str) -> dict[str, Any]:
        pattern = value.get("pattern")
        if not isinstance(pattern, str):
            return value
        match read(pattern).and_then(automaton):
            case Ok(machine):
                return {"type": "grammar", "grammar": rules(machine, "root")}
            case Err(fault):
                raise self._refused(pointer, "pattern", f"is not supported: {fault.message}", fault.kind)

    def _check_budget(self, value: Mapping[str, Any], pointer: str) -> None:
        for name in ("max_tokens", "max_chars"):
            if value.get(name) is not None:
                self.unenforced.append(Finding(pointer, name, "is exceeded where the text cannot end"))

    def _refused(self, pointer: str, keyword: str, reason: str, kind: ErrorKind = ErrorKind.UNSUPPORTED) -> _Refused:
        message = f"{keyword!r} of a structural tag {reason}."
        return _Refused(GrammarError(kind=kind, message=message, pointer=pointer, keyword=keyword, backend=BACKEND))


def _inside(pointer: str, inner: str) -> str:
    return join(pointer, "json_schema") + inner


def _moved(findings: Iterable[Finding], pointer: str) -> list[Finding]:
    return [attrs.evolve(finding, pointer=_inside(pointer, finding.pointer)) for finding in findings]
