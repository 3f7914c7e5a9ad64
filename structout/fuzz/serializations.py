"""The texts of one value that a serialization policy allows."""

from collections.abc import Iterator
from typing import Final

from structout.fuzz.case import Text
from structout.fuzz.choices import Choices
from structout.fuzz.json_text import COMPACT, SPACED, Style, write
from structout.fuzz.ordering import declared, shuffled
from structout.fuzz.subject import Subject
from structout.fuzz.values import Json
from structout.spec import Escapes, KeyOrder, Whitespace

NUMBER_FORM: Final = "number form"
"""Note of a text whose numbers are not written in the shortest way: no policy speaks of that, so a backend may not have
it, and still be right."""


def serializations(choices: Choices, subject: Subject, value: Json) -> list[Text]:
    """Different texts of a value that is valid under a schema, each of them valid too, and as its policy says.

    Their notes: ``"plain"``, always the first: in declared order, compact if the policy is, else as `json.dumps` does;
    ``"compact"`` and ``"white space"`` under a policy that leaves white space open, ``"reordered"`` under one that
    leaves the order open, ``"escapes"`` under one that leaves them open; and ``"number form"``, see `NUMBER_FORM`.
    """
    plain = plain_text(subject, value)
    found = {plain: "plain"}
    for note, text in _variants(choices, subject, declared(subject.structure, value)):
        found.setdefault(text, note)
    return [Text(text, note) for text, note in found.items() if note != NUMBER_FORM or subject.validator.is_valid(text)]


def plain_text(subject: Subject, value: Json) -> str:
    """A value in declared order, with the white space of the policy and only the escapes that JSON demands."""
    return write(declared(subject.structure, value), _plain_style(subject))


def _plain_style(subject: Subject) -> Style:
    return COMPACT if subject.spec.serialization.whitespace is Whitespace.COMPACT else SPACED


def _variants(choices: Choices, subject: Subject, value: Json) -> Iterator[tuple[str, str]]:
    """Notes and texts, some of which may be the plain one."""
    policy, style = subject.spec.serialization, _plain_style(subject)
    if policy.whitespace is Whitespace.ANY:
        yield "compact", write(value, COMPACT)
        yield "white space", write(value, Style(white_space=choices))
    if policy.key_order is KeyOrder.ANY:
        yield "reordered", write(shuffled(choices, value), style)
    if policy.escapes is Escapes.ANY:
        yield "escapes", write(value, Style(style.comma, style.colon, escapes=choices))
    yield NUMBER_FORM, write(value, Style(style.comma, style.colon, numbers=choices))
