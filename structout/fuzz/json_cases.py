"""Cases for JSON Schema: a schema, texts that are valid under it, and texts that are just not."""

from typing import Final

from hypothesis import strategies as st

from structout.errors import GrammarError
from structout.fuzz.apart import apart
from structout.fuzz.case import Case, Text
from structout.fuzz.choices import Choices, Drawn, Seeded
from structout.fuzz.instances import find_instances
from structout.fuzz.json_text import write
from structout.fuzz.near_misses import near_misses
from structout.fuzz.schemas import MAX_DEPTH
from structout.fuzz.serializations import serializations
from structout.fuzz.subject import Subject, subject_of
from structout.fuzz.writer import Writer
from structout.result import Result
from structout.schema.walk import Schema
from structout.spec import Dialect, Escapes, FormatMode, JsonSchema, KeyOrder, Policy, Serialization, Whitespace

_INSTANCES: Final = 3
_TEXTS: Final = 3
_STRANGERS: Final = 12

_SERIALIZATIONS: Final = (
    (6, Serialization()),
    *((1, Serialization(whitespace=each)) for each in list(Whitespace)[1:]),
    (1, Serialization(key_order=KeyOrder.ANY)),
    (1, Serialization(escapes=Escapes.MINIMAL)),
)
_POLICIES: Final = ((3, Policy.SOUND), (1, Policy.BEST_EFFORT), (1, Policy.EXACT))
_DIALECTS: Final = ((3, Dialect.DRAFT_2020_12), (1, Dialect.DRAFT_7))


def json_case(
    choices: Choices,
    *,
    dialect: Dialect | None = None,
    serialization: Serialization | None = None,
    policy: Policy | None = None,
) -> Case:
    """A case of a generated schema.

    Args:
        choices: where it comes from.
        dialect: of the schema; if None, draft 7 one time in four, else 2020-12.
        serialization: if None, the default six times in ten; else compact, spaced, with members in any order or with
            the fewest escapes.
        policy: how exactly the schema has to be enforced; if None, the default three times in five, the others once
            each.
    """
    chosen = dialect or choices.weighted(_DIALECTS)
    return case_of(choices, Writer(choices, chosen).document(MAX_DEPTH), chosen, serialization, policy)


def case_of(
    choices: Choices,
    schema: Schema,
    dialect: Dialect = Dialect.DRAFT_2020_12,
    serialization: Serialization | None = None,
    policy: Policy | None = None,
) -> Case:
    """A case of a schema; what is not given is chosen, as in `json_case`.

    One time in six ``format`` is an annotation; if there are definitions, they are in another document one time in
    four.
    """
    registry: dict[str, str] = {}
    if choices.one_in(4):
        schema, registry = apart(schema)
    spec = JsonSchema(
        write(schema),
        dialect=dialect,
        format_mode=FormatMode.ANNOTATE if choices.one_in(6) else FormatMode.ASSERT,
        serialization=serialization or choices.weighted(_SERIALIZATIONS),
        policy=policy or choices.weighted(_POLICIES),
        registry=registry,
    )
    return schema_case(spec, choices.below(2**32)).unwrap()


def schema_case(spec: JsonSchema, seed: int) -> Result[Case, GrammarError]:
    """The case that a seed makes of a spec: the same in every process.

    It has up to three instances, each as up to three members, the plain text among them, and up to twelve strangers, at
    most two of which violate the same keyword. A schema of which no instance is found has no strangers either.
    """
    return subject_of(spec).map(lambda subject: _case(subject, seed))


def _case(subject: Subject, seed: int) -> Case:
    choices = Seeded(seed)
    found = find_instances(choices, subject, _INSTANCES)
    members = [text for value in found for text in _some(choices, serializations(choices, subject, value))]
    strangers = near_misses(choices, subject, found, _STRANGERS)
    return Case(
        subject.spec,
        members=tuple(dict.fromkeys(members)),
        strangers=tuple(Text(each.text, each.keyword) for each in strangers),
        seed=seed,
    )


def _some(choices: Choices, texts: list[Text]) -> list[Text]:
    """The first and some of the others."""
    chosen, others = texts[:1], texts[1:]
    while others and len(chosen) < _TEXTS:
        chosen.append(others.pop(choices.below(len(others))))
    return chosen


def cases_for(spec: JsonSchema) -> st.SearchStrategy[Case]:
    """Cases of one spec.

    Raises:
        UnwrapError: `structout.schema.check_schema` has something against the spec.
    """
    subject = subject_of(spec).unwrap()
    return st.integers(0, 2**32 - 1).map(lambda seed: _case(subject, seed))


@st.composite
def json_cases(
    draw: st.DrawFn,
    *,
    schemas: st.SearchStrategy[Schema] | None = None,
    dialect: Dialect | None = None,
    serialization: Serialization | None = None,
    policy: Policy | None = Policy.SOUND,
) -> Case:
    """Cases of generated schemas; see `json_case`.

    Args:
        schemas: of ``dialect``, 2020-12 if that is None, and valid under its metaschema; those of `json_case` if None.
        dialect, serialization, policy: as there.
    """
    choices = Drawn(draw)
    if schemas is None:
        return json_case(choices, dialect=dialect, serialization=serialization, policy=policy)
    return case_of(choices, draw(schemas), dialect or Dialect.DRAFT_2020_12, serialization, policy)
