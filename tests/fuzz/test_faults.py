"""Faults are kept as files, found again, and the command that comes with one shows it again."""

import shlex
from pathlib import Path

import attrs
import pytest
from typer.testing import CliRunner

from structout import Choice, JsonSchema, Regex
from structout.cli.app import app
from structout.fuzz import Case, Fault, FaultFolder, Law, Text, Violation
from structout.fuzz.faults import keywords_of
from structout.spec import GrammarSpec

CASE = Case(Choice(("a", "é")), members=(Text("é", "plain"),), seed=3, name="here")
FAULT = Fault(
    "loses_the_last", Violation(Law.WRONG_REJECTION, "it cannot be written", {"text": "é", "tokens": [1, 2]}), CASE
)
PLUGIN = "tests.fuzz.hazards:loses_the_last"


def test_a_fault_is_found_again(tmp_path: Path) -> None:
    folder = FaultFolder(tmp_path / "new" / "folder")
    file = folder.save(FAULT)
    assert file.name == f"{FAULT.name}.json"
    assert "é" in file.read_text(encoding="utf-8")
    assert list(folder.of("loses_the_last")) == [FAULT]
    assert folder.save(FAULT) == file
    assert len(list(folder.path.iterdir())) == 1


def test_a_folder_tells_backends_apart(tmp_path: Path) -> None:
    folder = FaultFolder(tmp_path)
    for backend in ("trie", "trie_two"):
        folder.save(attrs.evolve(FAULT, backend=backend))
    assert [fault.backend for fault in folder.of("trie")] == ["trie"]
    assert list(FaultFolder(tmp_path / "missing").of("trie")) == []


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "1", '{"backend": "trie"}', '{"case": {"spec": {"kind": "x"}}}', "é"]
)
def test_a_file_that_is_no_fault_is_left_out(tmp_path: Path, content: str) -> None:
    folder = FaultFolder(tmp_path)
    folder.save(FAULT)
    (tmp_path / "loses_the_last-broken.json").write_text(content, encoding="latin-1")
    assert list(folder.of("loses_the_last")) == [FAULT]


def test_a_name_depends_on_the_example(tmp_path: Path) -> None:
    assert FAULT.name == attrs.evolve(FAULT, violation=Violation(Law.WRONG_REJECTION, "else")).name
    assert FAULT.name != attrs.evolve(FAULT, case=attrs.evolve(CASE, seed=4)).name


@pytest.mark.parametrize(
    ("spec", "keywords"),
    [
        (
            JsonSchema('{"$schema": "https://json-schema.org/draft/2020-12/schema", "not": {"minimum": 1}}'),
            {"not", "minimum"},
        ),
        (JsonSchema('{"properties": {"minimum": {"type": "null"}}}'), {"properties", "type"}),
        (JsonSchema("true"), set()),
        (JsonSchema("{"), set()),
        (Regex("a"), {"regex"}),
    ],
)
def test_the_keywords_of_a_spec(spec: GrammarSpec, keywords: set[str]) -> None:
    assert keywords_of(spec) == keywords


def test_a_fault_covers_what_has_more_keywords() -> None:
    def case(text: str) -> Case:
        return Case(JsonSchema(text))

    violation = Violation(Law.OVER_ACCEPTANCE, "it does", {"violates": "minimum"})
    fault = Fault("trie", violation, case('{"minimum": 1}'))
    assert fault.covers(violation, case('{"minimum": 2, "type": "integer"}'))
    assert not fault.covers(violation, case('{"maximum": 2}'))
    assert not fault.covers(attrs.evolve(violation, evidence={"violates": "maximum"}), case('{"minimum": 1}'))


def test_the_command_shows_the_fault_again(tmp_path: Path) -> None:
    folder = FaultFolder(tmp_path / "with space")
    folder.save(FAULT)
    program, *arguments = shlex.split(folder.command(FAULT, (PLUGIN,)))
    assert program == "structout"
    result = CliRunner().invoke(app, [*arguments, "--faults", str(tmp_path)])
    assert result.exit_code == 1, result.output
    assert "wrong_rejection" in result.output


def test_a_fault_that_is_gone_shows_nothing(tmp_path: Path) -> None:
    gone = attrs.evolve(FAULT, backend="reference")
    folder = FaultFolder(tmp_path)
    folder.save(gone)
    result = CliRunner().invoke(app, [*shlex.split(folder.command(gone))[1:], "--faults", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "all laws held" in result.output
