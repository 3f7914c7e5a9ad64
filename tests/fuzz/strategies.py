"""What the tests of the generators draw."""

import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from structout.fuzz.json_text import write
from structout.fuzz.schemas import keyword_schemas, schemas
from structout.fuzz.subject import Subject, subject_of
from structout.spec import Dialect, JsonSchema, Serialization

dialects = st.sampled_from([Dialect.DRAFT_2020_12, Dialect.DRAFT_7])
seeds = st.integers(0, 2**32 - 1)


def subject(schema: Any, **options: Any) -> Subject:
    """The subject of a schema that is one."""
    return subject_of(JsonSchema(write(schema), **options)).unwrap()


@st.composite
def subjects(draw: st.DrawFn, serialization: st.SearchStrategy[Serialization] | None = None) -> Subject:
    """Subjects of any schema of the two dialects."""
    dialect = draw(dialects)
    policy = Serialization() if serialization is None else draw(serialization)
    return subject(draw(schemas(dialect=dialect)), dialect=dialect, serialization=policy)


def ordered_json(text: str) -> Any:
    """The value of a text, its objects as lists of their members in order."""
    return json.loads(text, object_pairs_hook=lambda pairs: ["object", *pairs], parse_float=Decimal)


__all__ = ["dialects", "keyword_schemas", "ordered_json", "schemas", "seeds", "subject", "subjects"]
