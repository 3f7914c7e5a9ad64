"""llguidance's messages as errors for the caller."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok
from structout.schema import reachable
from structout.schema.loading import load_schema
from structout.spec import Choice, GrammarSpec, JsonObject, JsonSchema, Lark, Regex, StructuralTag

_KINDS: Final = (
    # Of a definition that no value satisfies llguidance does not ask whether anything needs it.
    (ErrorKind.UNSUPPORTED, r"^Unsatisfiable schema[\s\S]*while processing"),
    (ErrorKind.UNSATISFIABLE, r"^Unsatisfiable schema"),
    (
        ErrorKind.TOO_COMPLEX,
        r"recursion limit|too deeply nested|nest limit|too large|too many|fuel exhausted|max is|exceed"
        r"|stack level|Unable to determine|u16::MAX|lexer precomputation|Failed to generate regex",
    ),
    (
        ErrorKind.UNSUPPORTED,
        r"not supported|Unimplemented|Unknown format|only supported|not disjoint|unrecognized (escape|flag)"
        r"|invalid UTF-8|Anchor|surrogate|failed to compile JSON schema",
    ),
    (ErrorKind.INVALID_SPEC, r"Invalid type|not present in a registry|removal index"),
)
"""The first pattern that a message contains decides. Of what no pattern knows, a schema is UNSUPPORTED, since it may
well be valid, and a regular expression or a grammar is INVALID_SPEC."""

_KEYWORDS: Final = (
    ("oneOf", r"^oneOf"),
    ("minProperties", r"^min/maxProperties"),
    ("patternProperties", r"^patternProperty"),
    ("format", r"^Unknown format"),
    ("$ref", r"^circular references|registry|^Anchor"),
    ("pattern", r"^regex parse error"),
    ("type", r"^Invalid type"),
)
_QUOTED_KEYWORD: Final = re.compile(r"^Unimplemented keys: \[\"([^\"]+)\"|'([A-Za-z]+)'")
_WHERE: Final = re.compile(r"while processing json-schema:///#(\S*)")
_POSITION: Final = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")
_REASON_CHARACTERS: Final = 200

WHAT: Final[Mapping[type[GrammarSpec], str]] = MappingProxyType(
    {
        JsonSchema: "schema",
        JsonObject: "schema",
        Regex: "regular expression",
        Lark: "grammar",
        Choice: "choice",
        StructuralTag: "structural tag",
    }
)
"""What a spec is to its author."""


def compile_error(spec: GrammarSpec, raw: str) -> GrammarError:
    """The error for what llguidance says of a spec.

    Raises RuntimeError for a panic that is nobody's fault but llguidance's.
    """
    kind = next((kind for kind, pattern in _KINDS if re.search(pattern, raw)), None)
    if raw.startswith("panic") and kind is None:
        raise RuntimeError(raw)
    keyword = _keyword(raw) if isinstance(spec, JsonSchema) else None
    return GrammarError(
        kind=kind or _usual_kind(spec),
        message=_message(spec, raw),
        keyword=keyword,
        pointer=_pointer(spec, keyword, raw) if isinstance(spec, JsonSchema) and keyword else None,
        offset=_offset(spec, raw),
        detail=raw,
    )


def limit_error(tokens: int, raw: str) -> GrammarError:
    """The error for what llguidance says of a text of so many tokens: it has led to a state over one of its limits."""
    return GrammarError(
        kind=ErrorKind.TOO_COMPLEX,
        message=f"The grammar became too complex after {tokens} tokens: {_reason(raw)}.",
        hint="make what is repeated in it simpler, or name another backend",
        detail=raw,
    )


def _usual_kind(spec: GrammarSpec) -> ErrorKind:
    return ErrorKind.UNSUPPORTED if isinstance(spec, JsonSchema) else ErrorKind.INVALID_SPEC


def _message(spec: GrammarSpec, raw: str) -> str:
    if found := re.match(r"Unsatisfiable schema: (.*)", raw):
        part = " a part of" if _WHERE.search(raw) else ""
        return f"No value can satisfy{part} this schema: {_shortened(found[1])}."
    return f"This {WHAT[type(spec)]} cannot be compiled: {_reason(raw)}."


def _reason(raw: str) -> str:
    """What is wrong, without places, quotations of the grammar, and traces."""
    if "removal index" in raw:
        return "it names a special token, and the model has none"
    if raw.startswith("panic"):
        return "it has too many symbols"
    if found := re.search(r"row has (\d+) items; max is (\d+)", raw):
        return f"there are {found[1]} ways to go on, and {found[2]} may be"
    if found := re.search(r"^error: (.*)$", raw, re.MULTILINE):
        return found[1]
    reason = _POSITION.sub("", raw.partition("\n")[0]).strip()
    reason = re.sub(r" \('(?:[^'\\]|\\.)*'\)", "", reason).removeprefix("failed to compile JSON schema: ")
    if reason.startswith("oneOf"):
        return "branches of a oneOf are not known to exclude one another"
    return _shortened(reason)


def _shortened(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS else text[:_REASON_CHARACTERS] + " ..."


def _offset(spec: GrammarSpec, raw: str) -> int | None:
    match spec:
        case Regex(pattern=pattern):
            return _offset_in_pattern(pattern, raw)
        case Lark(text=text) if found := _POSITION.match(raw):
            lines = text.splitlines(keepends=True)
            return min(len(text), sum(map(len, lines[: int(found[1]) - 1])) + int(found[2]) - 1)
    return None


def _offset_in_pattern(pattern: str, raw: str) -> int | None:
    """Where the carets are, if they stand below the pattern as it was given."""
    found = re.search(r"^    (.*)\n    ( *)\^", raw, re.MULTILINE)
    return len(found[2]) if found and found[1] == pattern else None


def _keyword(raw: str) -> str | None:
    for keyword, pattern in _KEYWORDS:
        if re.search(pattern, raw):
            return keyword
    found = _QUOTED_KEYWORD.search(raw.partition("\n")[0])
    return found and (found[1] or found[2])


def _pointer(spec: JsonSchema, keyword: str, raw: str) -> str | None:
    """The place of the keyword, if there is only one: llguidance names no more than the definition around it."""
    where = _WHERE.search(raw)
    match load_schema(spec):
        case Ok(schema):
            nodes = [node.pointer for node in reachable(schema, spec.dialect) if keyword in node.keywords]
        case Err():
            nodes = []
    inside = [pointer for pointer in nodes if where is None or pointer.startswith(where[1])]
    return inside[0] if len(inside) == 1 else None
