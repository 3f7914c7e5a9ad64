"""What xgrammar gets for a spec."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from structout.backend import Finding
from structout.spec import Serialization
from structout_xgrammar.automaton import Automaton


@attrs.frozen
class SchemaSource:
    """A JSON Schema for xgrammar's converter.

    Attributes:
        text: the rewritten schema.
        automata: what its patterns stand for.
        serialization: how its instances are written.
        is_simple: whether it is satisfiable only if xgrammar finds nothing wrong with it.
    """

    text: str
    automata: Mapping[str, Automaton]
    serialization: Serialization
    is_simple: bool


@attrs.frozen
class EbnfSource:
    """A grammar in EBNF, from the rule ``root``."""

    text: str
    root: str = "root"


@attrs.frozen
class LarkSource:
    """A grammar in Lark's syntax."""

    text: str


@attrs.frozen
class TagSource:
    """A structural tag, as JSON text.

    Attributes:
        text: the tag, with rewritten schemas in it.
        automata: what the patterns in those stand for.
    """

    text: str
    automata: Mapping[str, Automaton]


Source: TypeAlias = SchemaSource | EbnfSource | LarkSource | TagSource


@attrs.frozen
class Translation:
    """What to compile for a spec, and where its language is not the spec's."""

    source: Source
    unenforced: tuple[Finding, ...] = ()
    narrowed: tuple[Finding, ...] = ()
