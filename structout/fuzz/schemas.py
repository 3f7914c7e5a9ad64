"""Strategies for JSON Schemas.

What they choose, with which weights:

- The kind of instance a schema is meant for: string 3, integer 2, number 2, object 4, array 3, boolean 1, null 1 in 16;
  of a member or item: each alike.
- A subschema is a boolean 1 time in 8. Otherwise it has up to six keywords, two or three on average: two times in three
  one of its kind (``properties`` with weight 5, ``required`` and ``items`` 3, ``additionalProperties`` 2, the others
  1), or ``type`` (3), ``enum`` or ``const`` (1, and seldom beside others); else any keyword of the dialect, all alike.
  So a third of the keywords may well concern instances of another kind than ``type`` allows, and many schemas have no
  ``type``.
- ``type`` names the kind 8 times in 12, two types 3 times, another one once. Bounds cross 1 time in 16.
- A schema for a part of the instance is recursive 1 time in 10: a reference to the root or to a definition around it.
- An annotation takes the place of a keyword 1 time in 24.
- Names and strings are chosen from few characters, a third of which need an escape or several bytes; numbers half from
  small ones and half from the edges in `structout.fuzz.values`.

Shrinking leads to few keywords with simple values: ``{"not": {}}``, ``{"maxLength": 0}``.

Assertions and applicators are covered, and ``$ref``; of the other CORE keywords those that these need. References by
anchor or URI, and dynamic ones, are not generated.
"""

from typing import Any, Final

from hypothesis import strategies as st

from structout.fuzz.choices import Choices, Drawn
from structout.fuzz.writer import Writer
from structout.schema.walk import Schema
from structout.spec import Dialect

MAX_DEPTH: Final = 3
"""Levels of subschemas below the root."""


@st.composite
def schemas(
    draw: st.DrawFn,
    *,
    dialect: Dialect = Dialect.DRAFT_2020_12,
    keywords: frozenset[str] | None = None,
    max_depth: int = MAX_DEPTH,
) -> Schema:
    """Schemas that their dialect's metaschema takes; see the module for what they are like. Nine in ten have instances.

    Args:
        dialect: with any but 2020-12, schema objects name it in ``$schema``.
        keywords: the keywords to choose from; all, and annotations, if None.
        max_depth: levels of subschemas below the root.
    """
    return Writer(Drawn(draw), dialect, keywords).document(max_depth)


@st.composite
def keyword_schemas(
    draw: st.DrawFn, keyword: str, other: str | None = None, dialect: Dialect = Dialect.DRAFT_2020_12
) -> Schema:
    """Small schemas in whose root these keywords stand together.

    Beside them stand only ``type``, half of the time (of a type that they restrict, or of both), and what one of them
    means nothing without, such as ``if`` beside ``then``.
    """
    return keyword_schema(Drawn(draw), keyword, other, dialect)


def keyword_schema(
    choices: Choices, keyword: str, other: str | None = None, dialect: Dialect = Dialect.DRAFT_2020_12
) -> dict[str, Any]:
    """What `keyword_schemas` draws, without Hypothesis."""
    names = (keyword,) if other is None else (keyword, other)
    return Writer(choices, dialect).together(names, depth=1)
