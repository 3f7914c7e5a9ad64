"""How long a regular expression the library would make of a schema, before it does.

It writes everything out: what a reference names at every reference, and of n optional members, where none is required,
each n times. Of recursion it writes three levels, and then drops members that are required.
"""

from typing import Any, Final

from structout.errors import ErrorKind, GrammarError
from structout.schema.pointer import join
from structout_outlines.rules import dispatch, ref_tokens

MAX_LENGTH: Final = 400_000
"""Characters. With some 20 to a state this is the size that is determinized at most."""

MAX_DEPTH: Final = 100
"""Schemas inside one another, references followed. The library recurses, and its parsers of JSON and of regular
expressions give up at 128 and 250 levels."""

_OPEN_LENGTH: Final = 3_000
_PLAIN_LENGTH: Final = 100


def too_extensive(schema: Any) -> GrammarError | None:
    """The error for a schema that is recursive, too deep, or too long when it is written out, or has a reference that
    the library does not resolve."""
    return _Extent(schema).error()


class _Extent:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._known: dict[int, int] = {}
        self._open: set[int] = set()
        self._cycle: str | None = None
        self._unresolved: str | None = None
        self._too_deep = False

    def error(self) -> GrammarError | None:
        length = self._length(self._root, MAX_DEPTH)
        if self._cycle is not None:
            message = "A recursive schema has no regular expression."
            return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, pointer=self._cycle)
        if self._unresolved is not None:
            message = f"outlines cannot follow the reference {self._unresolved!r}."
            hint = "refer by a plain path from the root, through objects only, or use another backend"
            return GrammarError(kind=ErrorKind.UNSUPPORTED, message=message, keyword="$ref", hint=hint)
        if self._too_deep:
            message = f"The schema is nested more than {MAX_DEPTH} deep, references followed."
            return GrammarError(kind=ErrorKind.TOO_COMPLEX, message=message)
        if length > MAX_LENGTH:
            message = f"As a regular expression the schema has over {MAX_LENGTH:,} characters."
            return GrammarError(
                kind=ErrorKind.TOO_COMPLEX, message=message, hint="make members required, or use another backend"
            )
        return None

    def _length(self, schema: Any, depth: int) -> int:
        """Characters, about; ``depth`` levels more may be nested."""
        if not isinstance(schema, dict):
            return _OPEN_LENGTH
        if id(schema) in self._known:
            return self._known[id(schema)]
        if depth == 0:
            self._too_deep = True
            return 0
        self._open.add(id(schema))
        length = self._written(schema, depth - 1)
        self._open.discard(id(schema))
        self._known[id(schema)] = length
        return length

    def _written(self, schema: dict[str, Any], depth: int) -> int:
        match dispatch(schema):
            case "properties":
                return self._members(schema, depth)
            case ("allOf" | "anyOf" | "oneOf" | "prefixItems") as keyword:
                return sum(self._length(branch, depth) for branch in schema[keyword])
            case ("enum" | "const") as keyword:
                return 2 * len(str(schema[keyword]))
            case "$ref":
                return self._named(schema["$ref"], depth)
            case _:
                return self._typed(schema, depth)

    def _members(self, schema: dict[str, Any], depth: int) -> int:
        members = schema["properties"]
        lengths = [len(name) + 30 + self._length(member, depth) for name, member in members.items()]
        if any(name in members for name in schema.get("required", ())):
            return sum(lengths)
        return sum(length * (len(lengths) - place) for place, length in enumerate(lengths))

    def _named(self, reference: Any, depth: int) -> int:
        tokens = ref_tokens(reference)
        target = self._root if tokens is not None else None
        for token in tokens or ():
            target = target.get(token) if isinstance(target, dict) else None
        if target is None:
            self._unresolved = str(reference)
            return 0
        if id(target) in self._open:
            self._cycle = join("", *tokens or ())
            return 0
        return self._length(target, depth)

    def _typed(self, schema: dict[str, Any], depth: int) -> int:
        inner = [schema[keyword] for keyword in ("items", "additionalProperties") if keyword in schema]
        pattern = len(schema["pattern"]) if isinstance(schema.get("pattern"), str) else 0
        is_open = not inner and schema.get("type") not in ("string", "number", "integer", "boolean", "null")
        return _PLAIN_LENGTH + pattern + is_open * _OPEN_LENGTH + sum(2 * self._length(one, depth) for one in inner)
