"""Instances of a schema: built to be valid, then checked."""

from typing import Final

from hypothesis import strategies as st

from structout.fuzz.building.builder import Builder
from structout.fuzz.choices import Choices, Drawn
from structout.fuzz.json_text import write
from structout.fuzz.subject import Subject, subject_of
from structout.fuzz.values import Json
from structout.spec import JsonSchema

_TRIES: Final = 6
"""Values that are built at most for each that is wanted."""


def find_instances(choices: Choices, subject: Subject, count: int) -> list[Json]:
    """Up to ``count`` different values that are valid; fewer, or none, where they are hard to find or do not exist."""
    found: dict[str, Json] = {}
    builder = Builder(choices, subject.structure)
    for _ in range(_TRIES * count):
        value = choices.part(builder.root)
        text = write(value)
        if text not in found and subject.validator.is_valid(text):
            found[text] = value
        if len(found) == count:
            break
    return list(found.values())


@st.composite
def instances(draw: st.DrawFn, spec: JsonSchema, *, most: int = 3) -> list[Json]:
    """Lists of up to ``most`` different JSON values that are valid under the spec's schema; empty where none is found.

    Raises:
        UnwrapError: `structout.schema.check_schema` has something against the spec.
    """
    return find_instances(Drawn(draw), subject_of(spec).unwrap(), most)
