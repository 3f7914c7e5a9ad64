"""Cases for JSON Schema: a schema, texts that are valid under it, and texts that are just not."""

from typing import Final

from hypothesis import strategies as st

from structout.errors import GrammarError
from structout.fuzz.case import Case, Text
from structout.fuzz.choices import Choices, Seeded
from structout.fuzz.instances import find_instances
from structout.fuzz.json_text import write
from structout.fuzz.near_misses import near_misses
from structout.fuzz.schemas import schemas as any_schemas
from structout.fuzz.serializations import serializations
from structout.fuzz.subject import Subject, subject_of
from structout.result import Result
from structout.schema.walk import Schema
from structout.spec import Dialect, JsonSchema, Policy, Serialization, Whitespace

_INSTANCES: Final = 3
_TEXTS: Final = 3
_STRANGERS: Final = 8

_POLICIES: Final = st.sampled_from(
    [Serialization()] * 6 + [Serialization(whitespace=Whitespace.COMPACT), Serialization(whitespace=Whitespace.SPACED)]
)
_DIALECTS: Final = st.sampled_from([Dialect.DRAFT_2020_12] * 3 + [Dialect.DRAFT_7])


def schema_case(spec: JsonSchema, seed: int) -> Result[Case, GrammarError]:
    """The case that a seed makes of a spec: the same in every process.

    It has up to three instances, each as up to three members, the plain text among them, and up to eight strangers that
    each violate another keyword. A schema of which no instance is found has no strangers either.
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
    policy: Policy = Policy.SOUND,
) -> Case:
    """Cases of generated schemas.

    Args:
        schemas: of ``dialect``, valid under its metaschema; `structout.fuzz.schemas.schemas` if None.
        dialect: of the schemas; if None, draft 7 one time in four and else 2020-12, which ``schemas`` then have to be.
        serialization: if None, the default six times in eight, compact and spaced once each.
        policy: how exactly the schema has to be enforced.
    """
    chosen = dialect or (draw(_DIALECTS) if schemas is None else Dialect.DRAFT_2020_12)
    schema = draw(any_schemas(dialect=chosen) if schemas is None else schemas)
    spec = JsonSchema(
        write(schema),
        dialect=chosen,
        serialization=serialization or draw(_POLICIES),
        policy=policy,
    )
    return schema_case(spec, draw(st.integers(0, 2**32 - 1))).unwrap()
