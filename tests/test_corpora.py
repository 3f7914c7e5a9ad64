"""The corpora are read whole, and their absence is a skip that says where they were looked for."""

from collections import Counter
from pathlib import Path

import pytest

from tests import corpora


def test_maskbench_labels_instances_of_both_kinds() -> None:
    schemas = list(corpora.maskbench())
    labels = Counter(instance["valid"] for schema in schemas for instance in schema["tests"])
    assert len({schema["name"] for schema in schemas}) == len(schemas) == 1500
    assert labels[True] > 1000
    assert labels[False] > 1000


def test_cases_are_told_apart_by_id() -> None:
    ids = [case["id"] for case in corpora.cases()]
    assert len(set(ids)) == len(ids) == 114


@pytest.mark.parametrize(("draft", "groups"), [("draft7", 257), ("draft2020-12", 383)])
def test_the_required_part_of_the_suite_is_all_there(draft: corpora.Draft, groups: int) -> None:
    required = list(corpora.json_schema_test_suite(draft))
    assert len(required) == groups
    assert not any(group["file"].startswith("optional/") for group in required)


def test_the_optional_part_of_the_suite_is_apart() -> None:
    optional = list(corpora.json_schema_test_suite("draft2020-12", optional=True))
    assert all(group["file"].startswith("optional/") for group in optional)
    assert "optional/format/date-time.json" in {group["file"] for group in optional}


def test_remotes_are_found_by_the_uri_that_the_suite_uses() -> None:
    assert corpora.suite_remotes()["http://localhost:1234/integer.json"] == {"type": "integer"}


def test_a_missing_corpus_is_a_skip_that_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTOUT_CORPORA", str(tmp_path))
    with pytest.raises(pytest.skip.Exception, match=str(tmp_path)):
        next(corpora.maskbench())
