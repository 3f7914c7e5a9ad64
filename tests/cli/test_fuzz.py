"""``structout fuzz``: exit codes, reports in three forms, faults that are kept and shown again."""

import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml
from rich.console import Console
from typer.testing import CliRunner, Result

from structout.cli.app import app
from structout.cli.reports import BackendResult, print_result, write_junit
from structout.fuzz import Case, Fault, Law, Violation
from structout.spec import Regex

FAULTY = ("--backend", "loses_the_last", "--plugin", "tests.fuzz.hazards:loses_the_last")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "array", "items": {"type": "integer"}, "maxItems": 2}')
    return path


def fuzz(folder: Path, *arguments: object, examples: int = 3) -> Result:
    """The command with a small budget, and with a folder of faults of its own."""
    options = ["--faults", folder / "faults", "--max-examples", examples, "--time", 600]
    return CliRunner().invoke(app, ["fuzz", *map(str, (*arguments, *options))])


def test_all_laws_held(tmp_path: Path, schema: Path) -> None:
    result = fuzz(tmp_path, schema, "--backend", "reference")
    assert result.exit_code == 0, result.output
    assert re.search(r"reference: 3 cases, 3 compiled, 0 refused, \d+ of \d+ walks .*; all laws held", result.output)
    assert not (tmp_path / "faults").exists()


def test_a_fault_is_told_with_a_command_that_shows_it_again(tmp_path: Path, schema: Path) -> None:
    result = fuzz(tmp_path, schema, *FAULTY)
    assert result.exit_code == 1, result.output
    assert "over_acceptance: " in result.output
    assert '{"type": "array", "items": {"type": "integer"}, "maxItems": 2}' in result.output
    commands = re.findall(r"again: structout (fuzz .*)", result.output)
    assert commands
    again = CliRunner().invoke(app, [*shlex.split(commands[0]), "--faults", str(tmp_path / "again")])
    assert again.exit_code == 1, again.output
    assert "1 cases, 1 compiled" in again.output


def test_saved_faults_are_looked_at_first(tmp_path: Path, schema: Path) -> None:
    assert fuzz(tmp_path, schema, *FAULTY).exit_code == 1
    saved = {path.stem for path in (tmp_path / "faults").iterdir()}
    result = fuzz(tmp_path, schema, *FAULTY, "--json", examples=1)
    assert result.exit_code == 1
    [backend] = json.loads(result.stdout)["backends"]
    assert {fault["name"] for fault in backend["faults"]} == saved
    assert backend["examined"] == len(saved)


def test_known_faults_are_counted_and_no_news(tmp_path: Path) -> None:
    """llguidance declares that it writes characters in their shortest form only."""
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "string"}')
    known = fuzz(tmp_path, schema, "--backend", "llguidance", examples=6)
    assert known.exit_code == 0, known.output
    assert re.search(r"known, [1-9]\d* times: llguidance writes a character in its shortest form only", known.output)
    told = fuzz(tmp_path, schema, "--backend", "llguidance", "--include-known", examples=6)
    assert told.exit_code == 1, told.output
    assert "serialization: " in told.output
    assert "known, " not in told.output


def test_generated_specs_and_a_report_in_json(tmp_path: Path) -> None:
    result = fuzz(tmp_path, "--generate", "--backend", "reference", "--seed", "5", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["seed"] == 5
    [backend] = report["backends"]
    assert (backend["backend"], backend["examined"], backend["faults"]) == ("reference", 3, [])
    assert report["coverage"]["schemas"] <= 3


def test_generated_specs_print_their_coverage(tmp_path: Path) -> None:
    result = fuzz(tmp_path, "--generate", "--backend", "reference")
    assert re.search(r"schemas, DRAFT_2020_12: keywords \d+ of \d+, pairs \d+ of \d+", result.output)


def test_the_same_seed_says_the_same(tmp_path: Path) -> None:
    def faults(seed: int) -> Any:
        result = fuzz(tmp_path / str(seed), "--generate", *FAULTY, "--seed", seed, "--json", examples=4)
        return json.loads(result.stdout)["backends"][0]["faults"]

    first = faults(3)
    for saved in (tmp_path / "3" / "faults").glob("*"):
        saved.unlink()
    assert faults(3) == first


def test_a_corpus_is_replayed(tmp_path: Path) -> None:
    lines = [
        {"id": "one", "kind": "choice", "input": ["a", "b"], "valid": ["a", "b"], "invalid": ["c"]},
        {"id": "two", "kind": "regex", "input": "a+", "valid": ["aa"], "invalid": [""]},
    ]
    corpus = tmp_path / "cases.jsonl"
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    good = fuzz(tmp_path, "--corpus", corpus, "--backend", "reference")
    assert good.exit_code == 0, good.output
    assert "reference: 2 examples: exact 100.0%" in good.output
    bad = fuzz(tmp_path, "--corpus", corpus, *FAULTY)
    assert bad.exit_code == 1, bad.output
    assert "exact 50.0%" in bad.output
    assert "rejects valid 50.0%" in bad.output
    [command] = re.findall(r"again: structout (fuzz .*)", bad.output)
    assert CliRunner().invoke(app, [*shlex.split(command), "--faults", str(tmp_path / "again")]).exit_code == 1


def test_a_report_for_junit(tmp_path: Path, schema: Path) -> None:
    report = tmp_path / "report.xml"
    assert fuzz(tmp_path, schema, "--backend", "reference", *FAULTY, "--junit", report).exit_code == 1
    good, faulty = JUnitXml.fromfile(str(report))
    assert (good.name, good.tests, good.failures) == ("reference", len(Law), 0)
    assert (faulty.name, faulty.tests) == ("loses_the_last", len(Law))
    failed = {case.name: case.result for case in faulty if case.result}
    assert {"over_acceptance"} <= failed.keys()
    assert all(isinstance(each, Failure) for results in failed.values() for each in results)


def test_a_report_for_junit_holds_any_text_and_backends_that_did_not_start(tmp_path: Path) -> None:
    fault = Fault("trie", Violation(Law.CRASH, "it \x00 ended"), Case(Regex("a\x01\ufffe<")))
    write_junit(tmp_path / "x.xml", [BackendResult("trie", faults=(fault,)), BackendResult("other", problem="gone")])
    trie, other = JUnitXml.fromfile(str(tmp_path / "x.xml"))
    assert (trie.failures, trie.errors) == (1, 0)
    assert (other.failures, other.errors) == (0, len(Law))
    assert all(isinstance(case.result[0], Error) for case in other)


def test_what_does_not_show_is_printed_as_an_escape() -> None:
    fault = Fault("trie", Violation(Law.CRASH, "it ended"), Case(Regex("a\x7f\n[b]")))
    console = Console(file=io.StringIO(), width=20)
    print_result(console, BackendResult("trie", faults=(fault,)), lambda fault: f"structout fuzz {fault.name}")
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[2] == "    regex (regex): a\\x7f\\n[b]"
    assert lines[3].startswith("    again: structout fuzz trie-crash-")


def test_a_backend_that_does_not_start_is_told(tmp_path: Path, schema: Path) -> None:
    plugin = ("--backend", "cannot_start", "--plugin", "tests.fuzz.hazards:cannot_start")
    result = fuzz(tmp_path, schema, *plugin, "--json")
    assert result.exit_code == 1
    [backend] = json.loads(result.stdout)["backends"]
    assert "libgrammar.so is missing" in backend["problem"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a schema's file, or one of --generate, --corpus and --case"),
        (("a.json", "--generate"), "give a schema's file, or one of"),
        (("missing.json",), "missing.json"),
        (("--generate", "--backend", "nobody"), "there is no backend 'nobody'"),
        (("--generate", "--plugin", "no_colon"), "MODULE:ATTRIBUTE"),
        (("--generate", "--plugin", "tests.nowhere:x"), "tests.nowhere"),
        (("--generate", "--backend", "only_lark", "--plugin", "tests.fuzz.hazards:only_lark"), "takes lark only"),
        (("--corpus", "missing"), "is no corpus"),
        (("--case", "missing"), "missing"),
    ],
)
def test_what_cannot_begin_says_why(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    for form in ((), ("--json",)):
        result = fuzz(tmp_path, *arguments, *form)
        assert result.exit_code == 2, result.output
        said = json.loads(result.stdout)["error"]["message"] if form else " ".join(result.stderr.split())
        assert message in said


@pytest.mark.parametrize(
    ("content", "message"), [("{", "JSON"), ('{"type": "strin"}', "strin"), ('{"$ref": "#/a"}', "leads nowhere")]
)
def test_a_schema_that_is_none_says_where(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    result = fuzz(tmp_path, tmp_path / "bad.json", "--backend", "reference")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("invalid_spec")
    assert message in result.stderr


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_a_case_that_is_none_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad.json").write_text(content)
    result = fuzz(tmp_path, "--case", tmp_path / "bad.json", "--backend", "reference")
    assert result.exit_code == 2, result.output
    assert "is not what it should be" in " ".join(result.stderr.split())


def test_it_does_without_torch() -> None:
    code = "import sys, structout.cli.fuzz, structout.cli.check; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
