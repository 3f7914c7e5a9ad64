"""From what somebody typed into the page to a spec."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from structout import parsing
from structout.errors import ErrorKind, GrammarError
from structout.parsing.problems import quote, quote_all
from structout.result import Err, Result
from structout.spec import GrammarSpec, Policy

Typed: TypeAlias = Callable[[str, Policy], Result[GrammarSpec, GrammarError]]

KINDS: Final[Mapping[str, Typed]] = MappingProxyType(
    {
        "json_schema": lambda text, policy: parsing.json_schema(text, policy=policy),
        "regex": lambda text, policy: parsing.regex(text, policy=policy),
        "choice": lambda text, policy: parsing.choice([line for line in text.split("\n") if line], policy=policy),
        "ebnf": lambda text, policy: parsing.ebnf(text, policy=policy),
        "lark": lambda text, policy: parsing.lark(text, policy=policy),
        "structural_tag": lambda text, policy: parsing.structural_tag(text, policy=policy),
        "json_object": lambda text, policy: parsing.json_object(True, policy=policy),
    }
)
"""How the text of each kind is read. A choice has an option in each line that is not empty; any object has no text."""


def spec_of(kind: str, text: str, policy: Policy) -> Result[GrammarSpec, GrammarError]:
    """The spec, or what is wrong with the text. Pointers and offsets of errors lead into the text."""
    if (read := KINDS.get(kind)) is None:
        message = f"{quote(kind)} is not a kind of constraint"
        hint = f"use {quote_all(tuple(KINDS))}"
        return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword="kind", hint=hint))
    return read(text, policy)
