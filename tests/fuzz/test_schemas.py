"""Generated schemas: valid, made of all keywords, finite, and small once shrunk."""

import json
import random
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from structout.fuzz.choices import Seeded
from structout.fuzz.instances import find_instances
from structout.fuzz.json_text import write
from structout.fuzz.keywords.table import WRITERS, generated, pairs
from structout.fuzz.schemas import keyword_schema, keyword_schemas, schemas
from structout.fuzz.writer import Writer
from structout.schema import check_schema, walk
from structout.schema.keywords import KEYWORDS, Role
from structout.spec import Dialect, JsonSchema
from tests.fuzz.strategies import dialects, subject

_DIALECTS = (Dialect.DRAFT_2020_12, Dialect.DRAFT_7)


@given(st.data(), dialects)
def test_a_schema_is_one(data: st.DataObject, dialect: Dialect) -> None:
    schema = data.draw(schemas(dialect=dialect))
    assert check_schema(JsonSchema(json.dumps(schema))) is None, "it says itself which dialect it is of"


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_a_schema_is_one_at_random(dialect: Dialect) -> None:
    for seed in range(1000):
        schema = Writer(Seeded(seed), dialect).document(3)
        assert check_schema(JsonSchema(write(schema), dialect=dialect)) is None, schema


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_every_assertion_and_applicator_is_generated(dialect: Dialect) -> None:
    known = {name for name, word in KEYWORDS[dialect].items() if word.role in (Role.ASSERTION, Role.APPLICATOR)}
    assert set(generated(dialect)) == known | {"$ref"}
    assert WRITERS.keys() >= known


@given(st.data(), dialects)
def test_keywords_stand_together(data: st.DataObject, dialect: Dialect) -> None:
    one, two = data.draw(st.sampled_from(pairs(dialect)))
    schema = data.draw(keyword_schemas(one, two, dialect))
    assert isinstance(schema, dict)
    assert {one, two} <= schema.keys()
    assert check_schema(JsonSchema(write(schema), dialect=dialect)) is None


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_keywords_stand_nearly_alone(dialect: Dialect) -> None:
    companions = {"type", "$schema", "$defs", "definitions", "if", "then", "else", "contains", "items"}
    for seed, keyword in enumerate(generated(dialect)):
        schema = keyword_schema(Seeded(seed), keyword, dialect=dialect)
        assert isinstance(schema, dict)
        assert schema.keys() <= companions | {keyword}


@given(schemas(keywords=frozenset({"type", "minLength", "anyOf"})))
def test_only_the_keywords_that_are_asked_for_are_used(schema: Any) -> None:
    assert {name for node in walk(schema) for name in node.keywords} <= {"type", "minLength", "anyOf"}


def test_schemas_are_as_varied_as_promised() -> None:
    written = [Writer(Seeded(seed), Dialect.DRAFT_2020_12).document(3) for seed in range(2000)]
    nodes = [node for schema in written for node in walk(schema)]
    assert any(node.schema is True for node in nodes)
    assert any(node.schema is False for node in nodes)
    assert any("type" not in node.keywords and "maxLength" in node.keywords for node in nodes)
    assert any(node.keywords.get("$ref") == "#" for node in nodes)
    references = {name for node in nodes if (name := node.keywords.get("$ref", "#")).startswith("#/$defs/")}
    assert any("~1" in name for name in references)
    assert any("%" in name for name in references)
    text = "".join(map(write, written))
    assert all(part in text for part in ("\\u0000", '\\"', "\\\\", "é", "😀", "1e-07", "1e+22", "-0.0", str(2**63)))


def test_most_schemas_have_instances() -> None:
    found = 0
    for seed in range(300):
        schema = Writer(Seeded(seed), Dialect.DRAFT_2020_12).document(3)
        found += bool(find_instances(Seeded(seed), subject(schema), 1))
    assert found >= 255


_PHASES = (Phase.generate, Phase.shrink)
_SETTINGS = settings(max_examples=2000, database=None, derandomize=True, phases=_PHASES)


@pytest.mark.parametrize("keyword", ["not", "maxLength"])
def test_schemas_shrink_to_few_keywords(keyword: str) -> None:
    small = schemas(max_depth=2)
    schema = find(small, lambda found: any(keyword in node.keywords for node in walk(found)), settings=_SETTINGS)
    assert sum(len(node.keywords) for node in walk(schema)) <= 3


def test_the_same_seed_writes_the_same_schema() -> None:
    seed = random.Random(0).randrange(2**32)
    one, two = (Writer(Seeded(seed), Dialect.DRAFT_7).document(3) for _ in range(2))
    assert write(one) == write(two)
