"""What the value of a keyword is written with: the choices, and what surrounds the keyword."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol, TypeAlias

import attrs

from structout.fuzz.choices import Choices
from structout.schema.walk import Schema
from structout.spec import Dialect


class WriteInner(Protocol):
    """Writes a subschema, nearly always with at least ``least`` keywords, of instances of ``kind``; ``in_place``: of
    the same instance as the schema around it, not of a part of it."""

    def __call__(self, kind: str, *, in_place: bool, least: int = 0) -> Schema: ...


@attrs.frozen
class Scope:
    """One schema object while it is written.

    Attributes:
        choices: see `Choices`.
        dialect: the schema's.
        kind: type of the instances that the schema is meant for, most likely.
        written: its keywords so far.
        company: names of the keywords that are going to stand in it, as far as that is known.
        inner: writes a subschema.
        refer: a reference to a schema that may apply to the same instance; None if there can be none.
    """

    choices: Choices
    dialect: Dialect
    kind: str
    written: Mapping[str, Any]
    company: Collection[str]
    inner: WriteInner
    refer: Callable[[], str | None]


WriteValue: TypeAlias = Callable[[Scope], Any]
"""Writes the value of one keyword."""
