"""What a string schema comes to: an automaton, or what xgrammar can do by itself."""

from collections.abc import Mapping
from typing import Any, Final

from structout.result import Ok, Result
from structout_xgrammar.automaton import Automaton, automaton
from structout_xgrammar.formats import FORMATS
from structout_xgrammar.patterns import ANYTHING, Fault, Tree, anywhere, read

_MAX_COUNTED: Final = 16
"""An automaton counts up to so many characters. Past that its compile time is felt, and xgrammar counts, without a
state for each character, but without escapes either."""


def automaton_of(keywords: Mapping[str, Any], *, asserts_format: bool) -> Result[Automaton, Fault] | None:
    """The automaton for the values that the keywords allow; None where there need not be one.

    ``format`` is passed over beside ``pattern``, and where it is not enforced.
    """
    lower, upper = lengths(keywords)
    if not _needs_automaton(keywords, asserts_format=asserts_format):
        return None
    machine = _tree(keywords, asserts_format=asserts_format).and_then(automaton)
    return machine if (lower, upper) == (0, None) else machine.and_then(lambda found: found.within(lower, upper))


def lengths(keywords: Mapping[str, Any]) -> tuple[int, int | None]:
    """The least and the greatest number of characters."""
    upper = keywords.get("maxLength")
    return int(keywords.get("minLength", 0)), None if upper is None else int(upper)


def is_counted_without_escapes(keywords: Mapping[str, Any], *, asserts_format: bool) -> bool:
    """Whether xgrammar counts the characters by itself, so that none can be escaped."""
    return lengths(keywords) != (0, None) and not _needs_automaton(keywords, asserts_format=asserts_format)


def _needs_automaton(keywords: Mapping[str, Any], *, asserts_format: bool) -> bool:
    if "pattern" in keywords or (asserts_format and keywords.get("format") in FORMATS):
        return True
    lower, upper = lengths(keywords)
    return (lower, upper) != (0, None) and (lower if upper is None else upper) <= _MAX_COUNTED


def _tree(keywords: Mapping[str, Any], *, asserts_format: bool) -> Result[Tree, Fault]:
    if "pattern" in keywords:
        return read(keywords["pattern"]).map(anywhere)
    if asserts_format and keywords.get("format") in FORMATS:
        return read(FORMATS[keywords["format"]])
    return Ok(ANYTHING)
