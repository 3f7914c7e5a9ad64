"""Corpora are read in their three forms, and what is none says what is wrong."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from structout import Choice, Ebnf, JsonSchema, Regex, StructuralTag
from structout.fuzz.corpus import CorpusError, Example, read
from structout.spec import Dialect, FormatMode
from tests import corpora

MASKBENCH = {
    "name": "one",
    "schema": {"type": "array"},
    "tests": [{"valid": True, "data": [1, "é"]}, {"valid": False, "data": {}}],
}
GROUP = {"description": "d", "schema": True, "tests": [{"description": "t", "data": None, "valid": True}]}


def gzipped(path: Path, lines: Iterable[Any]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def written(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_maskbench_as_one_file(tmp_path: Path) -> None:
    [example] = read(gzipped(tmp_path / "sample.jsonl.gz", [MASKBENCH]))
    assert example == Example("one", JsonSchema('{"type": "array"}'), (('[1, "é"]', '[1,"é"]'),), (("{}", "{}"),))


def test_maskbench_as_a_folder(tmp_path: Path) -> None:
    written(tmp_path / "b.json", {name: MASKBENCH[name] for name in ("schema", "tests")})
    written(tmp_path / "a.json", {"schema": {}, "meta": "no tests"})
    [example] = read(tmp_path)
    assert example.name == "b.json"


@pytest.mark.parametrize(
    ("draft", "dialect"),
    [
        ("draft2020-12", Dialect.DRAFT_2020_12),
        ("draft7", Dialect.DRAFT_7),
        ("draft4", Dialect.DRAFT_4),
        ("latest", Dialect.DRAFT_2020_12),
    ],
)
def test_a_draft_of_the_official_suite(tmp_path: Path, draft: str, dialect: Dialect) -> None:
    folder = tmp_path / "tests" / draft
    written(folder / "type.json", [GROUP, GROUP])
    written(folder / "optional" / "format" / "date.json", [GROUP])
    written(tmp_path / "remotes" / "a" / "b.json", {"type": "null"})
    examples = list(read(folder))
    assert [example.name for example in examples] == ["optional/format/date.json#0", "type.json#0", "type.json#1"]
    assert [example.part for example in examples] == ["optional", "required", "required"]
    specs = [example.spec for example in examples if isinstance(example.spec, JsonSchema)]
    assert [spec.format_mode for spec in specs] == [FormatMode.ASSERT, FormatMode.ANNOTATE, FormatMode.ANNOTATE]
    assert {spec.dialect for spec in specs} == {dialect}
    assert specs[0].registry == (("http://localhost:1234/a/b.json", '{"type": "null"}'),)
    assert examples[1].members == (("null", "null"),)


def test_lines_of_cases(tmp_path: Path) -> None:
    cases = [
        {"id": "schema", "kind": "json_schema", "input": {"type": "null"}, "draft": "7", "valid": ["null"]},
        {"id": "text", "kind": "json_schema", "input": "{}", "invalid": ["{"]},
        {"id": "regex", "kind": "regex", "input": "a+", "valid": ["a", "aa"], "invalid": ["b"]},
        {"id": "ebnf", "kind": "ebnf", "input": 'root ::= "a"', "valid": ["a"]},
        {"id": "choice", "kind": "choice", "input": ["a", "b"], "valid": ["a"]},
        {"id": "tag", "kind": "structural_tag", "input": {"type": "structural_tag"}, "valid": ["a"]},
        {"id": "no texts", "kind": "regex", "input": "a+"},
        {"id": "no options", "kind": "choice", "input": [1], "valid": ["a"]},
        {"id": "another matter", "kind": "engine", "input": [], "valid": ["a"]},
    ]
    path = written(tmp_path / "cases.jsonl", "".join(json.dumps(case) + "\n" for case in cases))
    examples = {example.name: example for example in read(path)}
    assert [example.spec for example in examples.values()] == [
        JsonSchema('{"type": "null"}', dialect=Dialect.DRAFT_7),
        JsonSchema("{}"),
        Regex("a+"),
        Ebnf('root ::= "a"'),
        Choice(("a", "b")),
        StructuralTag('{"type": "structural_tag"}'),
    ]
    assert examples["regex"].members == (("a",), ("aa",))
    assert examples["regex"].strangers == (("b",),)


@pytest.mark.parametrize(
    ("name", "content"),
    [("cases.txt", ""), ("folder/readme.md", ""), ("missing", None)],
    ids=["a file of another kind", "a folder without JSON", "nothing"],
)
def test_what_is_no_corpus_says_what_would_be(tmp_path: Path, name: str, content: str | None) -> None:
    path = tmp_path / name
    if content is not None:
        written(path, content)
    with pytest.raises(CorpusError, match=r"give a \.jsonl\.gz or \.jsonl file, or a folder of \.json files"):
        list(read(path.parent if "/" in name else path))


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"id": "x", "kind": "regex"', '{"kind": "regex", "input": "a", "valid": ["a"]}', '{"id": "x"}', "\n"],
)
def test_a_line_that_is_no_case_names_the_file(tmp_path: Path, content: str) -> None:
    path = written(tmp_path / "cases.jsonl", content)
    with pytest.raises(CorpusError, match=r"cases\.jsonl holds something that is no labelled schema"):
        list(read(path))


@pytest.mark.parametrize("content", [{"tests": [1]}, "text", [1], [{"schema": {}}]])
def test_neither_is_a_broken_folder(tmp_path: Path, content: Any) -> None:
    written(tmp_path / "a.json", json.dumps(content))
    with pytest.raises(CorpusError, match="no labelled schema"):
        list(read(tmp_path))


def test_a_file_that_was_cut_off_is_no_crash(tmp_path: Path) -> None:
    whole = gzipped(tmp_path / "whole.jsonl.gz", [MASKBENCH] * 50).read_bytes()
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[:-20])
    with pytest.raises(CorpusError):
        list(read(cut))


def test_the_shared_corpora_are_read() -> None:
    assert sum(1 for _ in read(corpora.maskbench_file())) == sum(1 for _ in corpora.maskbench())
