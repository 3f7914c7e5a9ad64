"""Whether what a grammar says that it leaves out accounts for a text that it refuses."""

import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from typing import Final

from structout.backend import Finding
from structout.fuzz.applying import applied_within
from structout.fuzz.case import Text
from structout.fuzz.json_text import strip_strings
from structout.fuzz.subject import Subject

_FORM: Final[Mapping[str, Callable[[Text], bool]]] = {
    "whitespace": lambda text: text.note in ("white space", "compact"),
    "key_order": lambda text: text.note == "reordered",
    "escapes": lambda text: "\\" in text.text,
    "characters": lambda text: any(unicodedata.category(char) == "Cc" for char in text.text),
    "numbers": lambda text: re.search(r"[0-9][.eE]", strip_strings(text.text)) is not None,
    "nesting": lambda text: re.search(r"[\[{][^]}]*[\[{][^]}]*[\[{]", strip_strings(text.text)) is not None,
}
"""Which texts each of `structout.backend.FORMS` may cost."""


def accounts_for(findings: Collection[Finding], subject: Subject, member: Text) -> bool:
    """Whether one of the findings is about a form that the member has, or about a schema that applies to its value or
    to a part of it."""
    if any(_FORM[finding.keyword](member) for finding in findings if finding.keyword in _FORM and not finding.pointer):
        return True
    places = {finding.pointer for finding in findings if finding.keyword not in _FORM}
    return any(node.location in places for node in applied_within(subject.structure, json.loads(member.text)))
