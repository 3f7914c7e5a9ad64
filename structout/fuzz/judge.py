"""Decides whether a text is of a spec's language, independently of the backend under test."""

import re
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

import attrs

from structout.backend import Status
from structout.discovery import discover
from structout.errors import GrammarError
from structout.fuzz.json_text import strip_strings
from structout.fuzz.near_misses import keywords_on
from structout.fuzz.vocabulary import byte_vocabulary
from structout.grammar import BoundBackend, Grammar
from structout.result import Err, Ok, Result
from structout.schema import ReferenceValidator, reference_validator
from structout.spec import Choice, Escapes, GrammarSpec, JsonObject, JsonSchema, Serialization, Whitespace

Known: TypeAlias = bool | None
"""Whether a text is of the language; None where that is beyond the judge."""


@attrs.frozen
class Judge:
    """Knows better than the backend under test.

    Attributes:
        decide: takes the bytes of a text.
        violated: the keywords that lead to what a text violates, the innermost last; empty if there is no telling.
    """

    decide: Callable[[bytes], Known]
    violated: Callable[[bytes], tuple[str, ...]] = lambda _data: ()


REFERENCE: Final = "reference"
"""Id of the backend that judges what is no JSON."""


def judge_of(spec: GrammarSpec) -> Judge | None:
    """The judge of a spec; None where nobody knows better than the backend under test.

    JSON Schema is judged by the reference validator, a choice by comparison, the rest by the reference backend over a
    byte vocabulary, as far as it takes the spec.
    """
    match spec:
        case JsonSchema():
            return _known(reference_validator(spec).map(_by_validator))
        case JsonObject():
            return judge_of(JsonSchema('{"type": "object"}'))
        case Choice(options=options):
            texts = {option.encode("utf-8", "surrogatepass") for option in options}
            return Judge(lambda data: data in texts)
    backend = _reference()
    return _known(backend.compile(spec).map(_by_backend)) if backend else None


def _known(result: Result[Judge, GrammarError]) -> Judge | None:
    match result:
        case Ok(judge):
            return judge
        case Err():
            return None


def _by_validator(validator: ReferenceValidator) -> Judge:
    def decide(data: bytes) -> Known:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return False
        return validator.is_valid(text) or (None if _HUGE_EXPONENT.search(text) else False)

    def violated(data: bytes) -> tuple[str, ...]:
        paths = validator.violations(data.decode("utf-8", "replace"))
        return (keywords_on(paths[0]) or ("syntax",)) if paths else ()

    return Judge(decide, violated)


@cache
def _reference() -> BoundBackend | None:
    match discover(disable=[]).find(REFERENCE):
        case Ok(found):
            return BoundBackend.create(found.info, found.distribution, byte_vocabulary()).unwrap()
        case Err():
            return None


def _by_backend(grammar: Grammar) -> Judge:
    def decide(data: bytes) -> Known:
        constraint = grammar.start().unwrap()
        return all(constraint.accept(byte) is Status.OK for byte in data) and constraint.is_accepting

    return Judge(decide)


_HUGE_EXPONENT: Final = re.compile(r"[0-9][eE][-+]?[0-9]{4}")
"""The reference validator cannot hold such numbers."""
_SPACED: Final = re.compile(r"(?:[^,:\s]|[,:] (?!\s))*")
_NEEDLESS_ESCAPE: Final = re.compile(r"\\(?:/|u(?!00[01]|d[89a-f])[0-9a-f]{4})", re.IGNORECASE)


def breach_of(text: str, policy: Serialization) -> str | None:
    """How valid JSON text breaks a policy on white space or escapes; None if it does not.

    The order of members is not looked at.
    """
    bare = strip_strings(text)
    if policy.whitespace is Whitespace.COMPACT and re.search(r"\s", bare):
        return "white space in a compact text"
    if policy.whitespace is Whitespace.SPACED and not _SPACED.fullmatch(bare):
        return "white space other than one space after ',' and ':'"
    if policy.escapes is Escapes.MINIMAL and _NEEDLESS_ESCAPE.search(text.replace("\\\\", "")):
        return "an escape that JSON does not demand"
    return None
