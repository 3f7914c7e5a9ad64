"""Writes JSON Schemas, keyword by keyword."""

import functools
import urllib.parse
from collections.abc import Collection, Iterable
from typing import Any, Final

import attrs

from structout.fuzz.choices import Choices
from structout.fuzz.keywords.scope import Scope
from structout.fuzz.keywords.settling import settle
from structout.fuzz.keywords.table import NEEDS, WRITERS, generated, kinds_of, own
from structout.schema import pointer as json_pointer
from structout.schema.keywords import KEYWORDS, REF_SUPPRESSES_SIBLINGS, Role
from structout.schema.walk import Schema
from structout.spec import Dialect

_KINDS: Final = (
    *((3, "string"), (2, "integer"), (2, "number"), (4, "object"), (3, "array")),
    *((1, "boolean"), (1, "null")),
)
_LITERALS: Final = frozenset({"const", "enum"})
_MOST_KEYWORDS: Final = 6
_MOST_DEFINITIONS: Final = 3
_DEFINITION_NAMES: Final = ("a", "b", "node", "a/b", "~", "é x", "")
_ANNOTATIONS: Final = (
    ("title", "a"),
    ("description", 'say "a"'),
    ("default", None),
    ("$comment", "é"),
    ("examples", [1]),
)


@attrs.frozen
class _Place:
    """Where a schema goes: see `structout.fuzz.keywords.scope.WriteInner`; ``depth`` levels may follow below it,
    whose schemas have at least ``least_inside`` keywords, mostly."""

    kind: str
    depth: int
    in_place: bool = False
    least: int = 0
    least_inside: int = 0


class Writer:
    """Writes one schema with its definitions.

    A definition is written where the first reference to it stands. A reference that applies to the same instance leads
    to a definition that is complete by then, so that no schema applies because of itself; one to a smaller part of the
    instance may also lead to the root or to a definition that is still being written: that is recursion.

    Args:
        choices: what decides.
        dialect: the schema's.
        keywords: the keywords that may be used; all that `generated` lists, and annotations, if None.
    """

    def __init__(self, choices: Choices, dialect: Dialect, keywords: Collection[str] | None = None) -> None:
        self._choices = choices
        self._dialect = dialect
        self._keywords = frozenset(generated(dialect) if keywords is None else keywords)
        self._annotates = keywords is None
        self._definitions: dict[str, Schema | None] = {}
        self._recursive: set[str] = set()

    def document(self, depth: int) -> Schema:
        """Any schema, with at most ``depth`` levels of subschemas below it."""
        kind, least = self._choices.weighted(_KINDS), 0 if self._choices.one_in(16) else 1
        return self._complete(self._schema(_Place(kind, depth, in_place=True, least=least)))

    def together(self, keywords: Iterable[str], depth: int) -> dict[str, Any]:
        """A schema object with all of these keywords, with ``type`` half of the time, and what gives them meaning."""
        names = list(dict.fromkeys(keywords))
        kinds = [kind for name in names for kind in kinds_of(name)[:1]] or [self._choices.weighted(_KINDS)]
        place = _Place(self._choices.pick(kinds), depth, in_place=True, least_inside=1)
        schema: dict[str, Any] = {}
        if "type" not in names and self._choices.one_in(2):
            schema["type"] = kinds[0] if len(set(kinds)) == 1 else list(dict.fromkeys(kinds))
        for name in names:
            self._write(schema, name, place, names)
        for name in names:
            self._accompany(schema, name, place, names)
        settle(self._choices, schema, self._recursive)
        completed = self._complete(schema)
        assert isinstance(completed, dict)
        return completed

    def _complete(self, schema: Schema) -> Schema:
        if isinstance(schema, bool):
            return schema
        before = {"$schema": str(self._dialect)} if self._dialect is not Dialect.DRAFT_2020_12 else {}
        return before | schema | ({self._holder: self._definitions} if self._definitions else {})

    @property
    def _holder(self) -> str:
        return "$defs" if "$defs" in KEYWORDS[self._dialect] else "definitions"

    def _schema(self, place: _Place) -> Schema:
        if not place.least and self._choices.one_in(8):
            return bool(self._choices.below(2))
        if not place.in_place and self._may("$ref") and self._choices.one_in(10):
            return {"$ref": self._loop()}
        schema: dict[str, Any] = {}
        while len(schema) < _MOST_KEYWORDS and self._choices.part(lambda: self._step(schema, place)):
            pass
        if "$ref" in schema and self._dialect in REF_SUPPRESSES_SIBLINGS and not self._choices.one_in(8):
            return {"$ref": schema["$ref"]}
        settle(self._choices, schema, self._recursive)
        return schema

    def _step(self, schema: dict[str, Any], place: _Place) -> bool:
        """Adds a keyword, or ends: once in 64 as long as there should be more, else once in four, in the last levels in
        three; but literals seldom go with others."""
        if len(schema) < place.least:
            ends = self._choices.below(8) == 0 and self._choices.below(8) == 0
        else:
            times = 4 if place.depth > 1 else 3
            ends = self._choices.below(times) <= (0 if _LITERALS.isdisjoint(schema) else times - 2)
        if not ends:
            self._add(schema, place)
        return not ends

    def _may(self, keyword: str) -> bool:
        return keyword in self._keywords

    def _add(self, schema: dict[str, Any], place: _Place) -> None:
        if self._annotates and self._choices.one_in(24):
            schema.update((self._choices.pick(_ANNOTATIONS),))
            return
        usual, all_names = _pools(self._dialect, self._keywords, place.kind, place.depth > 0)
        name = self._choices.pick(all_names if self._choices.one_in(3) else usual)
        unlikely = name in _LITERALS and not schema.keys() <= {"type"} and not self._choices.one_in(4)
        if name and name not in schema and not unlikely:
            self._write(schema, name, place, schema.keys())
            if not self._choices.one_in(4):
                self._accompany(schema, name, place, schema.keys())

    def _accompany(self, schema: dict[str, Any], name: str, place: _Place, company: Collection[str]) -> None:
        needed = NEEDS.get(name, ())
        if needed and name in schema and schema.keys().isdisjoint(needed) and self._may(needed[0]):
            self._write(schema, self._choices.pick(needed), place, {*company, name})

    def _write(self, schema: dict[str, Any], name: str, place: _Place, company: Collection[str]) -> None:
        inner = functools.partial(self._inner, place)
        refer = functools.partial(self._refer, place)
        value = WRITERS[name](Scope(self._choices, self._dialect, place.kind, schema, company, inner, refer))
        if value is not None or name == "const":
            schema[name] = value

    def _inner(self, place: _Place, kind: str, *, in_place: bool, least: int = 0) -> Schema:
        if not self._choices.one_in(8):
            least = max(least, place.least_inside)
        return self._schema(_Place(kind, max(0, place.depth - 1), in_place, least))

    def _refer(self, place: _Place) -> str | None:
        complete = [name for name, schema in self._definitions.items() if schema is not None]
        free = [name for name in _DEFINITION_NAMES if name not in self._definitions]
        has_room = place.depth > 0 and len(self._definitions) < _MOST_DEFINITIONS
        if not complete or (has_room and self._choices.one_in(2)):
            return self._define(self._choices.pick(free), place) if has_room else None
        return self._pointer(self._choices.pick(complete))

    def _define(self, name: str, place: _Place) -> str:
        self._definitions[name] = None
        definition = _Place(place.kind, place.depth - 1, in_place=True, least=1)
        self._definitions[name] = self._choices.part(lambda: self._schema(definition))
        return self._pointer(name)

    def _loop(self) -> str:
        open_names = [name for name, schema in self._definitions.items() if schema is None]
        target = self._choices.pick(("#", *map(self._pointer, open_names)))
        self._recursive.add(target)
        return target

    def _pointer(self, name: str) -> str:
        return "#" + urllib.parse.quote(json_pointer.join("", self._holder, name), safe="/~$")


@functools.lru_cache(maxsize=1024)
def _pools(
    dialect: Dialect, keywords: frozenset[str], kind: str, has_room: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The keywords that suit ``kind``, and all, as far as they may be used; with subschemas only if there is room.

    First comes "", for none: what shrinking can make of any of them without a change to the others.
    """
    known = KEYWORDS[dialect]
    usable = [
        name
        for name in generated(dialect)
        if name in keywords and (has_room or known[name].role is not Role.APPLICATOR)
    ]
    return ("", *(name for name in own(dialect, kind) if name in usable)), ("", *usable)
