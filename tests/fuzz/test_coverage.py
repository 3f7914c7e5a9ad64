"""Coverage: counted right, merged right, and what the generators reach."""

import json

import pytest

from structout.fuzz.choices import Seeded
from structout.fuzz.coverage import Coverage
from structout.fuzz.keywords.table import generated, pairs
from structout.fuzz.schemas import keyword_schema
from structout.fuzz.writer import Writer
from structout.spec import Dialect

_DIALECTS = (Dialect.DRAFT_2020_12, Dialect.DRAFT_7)


def test_keywords_and_pairs_are_counted_where_they_stand() -> None:
    coverage = Coverage()
    coverage.add({"type": "object", "title": "a", "properties": {"minLength": {"type": "string", "maxLength": 1}}})
    assert coverage.keywords == {"type": 2, "properties": 1, "maxLength": 1}
    assert coverage.pairs == {("type", "properties"): 1, ("type", "maxLength"): 1}


def test_data_is_no_schema_and_keywords_beside_an_old_reference_are_none() -> None:
    coverage = Coverage(Dialect.DRAFT_7)
    coverage.add({"const": {"minLength": 1}})
    coverage.add({"$ref": "#/definitions/a", "minLength": 1, "definitions": {"a": {}}})
    assert coverage.keywords == {"const": 1, "$ref": 1}
    assert not coverage.pairs


def test_merging_is_adding() -> None:
    one, two, both = Coverage(), Coverage(), Coverage()
    for coverage, schema in ((one, {"type": "null", "enum": [None]}), (two, {"type": "null"})):
        coverage.add(schema)
        both.add(schema)
    one.merge(two)
    assert one == both


def test_the_lines_say_what_is_missing() -> None:
    coverage = Coverage()
    coverage.add({"type": "string", "minLength": 1})
    total, keywords, both = coverage.lines(most=2)
    assert total == "1 schemas, DRAFT_2020_12: keywords 2 of 40, pairs 1 of 780"
    assert keywords == "keywords never seen: enum, const and 36 more"
    assert both == "pairs never seen: type + enum, type + const and 777 more"


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_keyword_schemas_reach_every_keyword_and_pair(dialect: Dialect) -> None:
    coverage = Coverage(dialect)
    for seed, pair in enumerate(pairs(dialect)):
        coverage.add(keyword_schema(Seeded(seed), *pair, dialect))
    for seed, keyword in enumerate(generated(dialect)):
        coverage.add(keyword_schema(Seeded(seed), keyword, dialect=dialect))
    assert (coverage.missing_keywords(), coverage.missing_pairs()) == ([], [])
    assert len(list(coverage.lines())) == 1


@pytest.mark.parametrize("dialect", _DIALECTS)
def test_schemas_reach_every_keyword_and_nearly_every_pair(dialect: Dialect) -> None:
    coverage = Coverage(dialect)
    for seed in range(2000):
        coverage.add(Writer(Seeded(seed), dialect).document(3))
    assert coverage.missing_keywords() == []
    assert len(coverage.missing_pairs()) < len(pairs(dialect)) / 10


def test_coverage_crosses_processes_as_data() -> None:
    coverage = Coverage(Dialect.DRAFT_7)
    coverage.add({"type": "string", "minLength": 1})
    assert Coverage.from_json(json.loads(json.dumps(coverage.to_json()))) == coverage
