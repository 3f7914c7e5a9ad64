"""``structout check``: what each backend makes of a schema, as text and as JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from structout.cli import check as check_command
from structout.cli.app import app

PLUGINS = ("hazards", "loses_the_last", "cannot_start", "crashes", "drops", "narrows", "raises")


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "array", "items": {"type": "integer"}}')
    return path


def check(schema: Path, *backends: str, options: tuple[str, ...] = ()) -> Result:
    named = [part for backend in backends for part in ("--backend", backend)]
    plugins = [
        part for backend in backends if backend in PLUGINS for part in ("--plugin", f"tests.fuzz.hazards:{backend}")
    ]
    return CliRunner().invoke(app, ["check", str(schema), *named, *plugins, *options])


def verdicts(result: Result) -> dict[str, Any]:
    return {verdict["backend"]: verdict for verdict in json.loads(result.stdout)["verdicts"]}


def test_each_backend_has_its_verdict(schema: Path) -> None:
    result = check(schema, "reference", "drops", "narrows", "crashes", options=("--json",))
    assert result.exit_code == 1, result.output
    found = verdicts(result)
    assert {name: verdict["verdict"] for name, verdict in found.items()} == {
        "reference": "exact",
        "drops": "drops",
        "narrows": "sound",
        "crashes": "crashes",
    }
    assert found["drops"]["findings"] == [{"pointer": "/items", "keyword": "type", "reason": "is ignored"}]
    assert found["narrows"]["findings"] == [{"pointer": "", "keyword": "items", "reason": "has one item only"}]
    assert [violation["law"] for violation in found["crashes"]["violations"]] == ["crash"]
    assert {verdict["measured"] for verdict in found.values()} == {0}


def test_the_same_as_text(schema: Path) -> None:
    result = check(schema, "drops", "narrows", "cannot_start")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines == [
        "drops: refuses it by default; with best_effort it drops:",
        "  /items: type is ignored",
        "narrows: sound; lets through less than the schema allows:",
        "  the root: items has one item only",
        lines[-1],
    ]
    assert "libgrammar.so is missing" in lines[-1]


def test_a_plugin_that_raises_has_not_refused(schema: Path) -> None:
    result = check(schema, "raises", options=("--json",))
    assert result.exit_code == 1, result.output
    verdict = verdicts(result)["raises"]
    assert verdict["verdict"] == "fails"
    assert [violation["law"] for violation in verdict["violations"]] == ["result_discipline"]
    assert "raises: fails\n  result_discipline: it failed: KeyError" in check(schema, "raises").output


def test_what_is_refused_says_where_and_why(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"properties": {"a": {"format": "idn-email"}}}')
    result = check(path, "reference", options=("--json",))
    assert result.exit_code == 0, result.output
    verdict = verdicts(result)["reference"]
    assert verdict["verdict"] == "refuses"
    assert verdict["error"]["keyword"] == "format"
    assert verdict["error"]["pointer"].startswith("/properties/a")
    assert "reference: refuses it at /properties/a" in check(path, "reference").output


def test_measuring_finds_what_a_backend_does_not_say(schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_command, "MEASURED_CASES", 2)
    result = check(schema, "reference", "loses_the_last", options=("--measure", "--json"))
    assert result.exit_code == 1, result.output
    good, faulty = verdicts(result).values()
    assert (good["verdict"], good["violations"], good["measured"]) == ("exact", [], 2)
    assert faulty["verdict"] == "exact"
    assert "over_acceptance" in {violation["law"] for violation in faulty["violations"]}


def test_all_that_take_schemas_are_asked(schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTOUT_DISABLE", "xgrammar,outlines")
    result = CliRunner().invoke(app, ["check", str(schema), "--json", "--plugin", "tests.fuzz.hazards:good_choices"])
    assert verdicts(result).keys() == {"llguidance", "reference"}


def test_where_nobody_takes_schemas_nothing_is_said_to_hold(schema: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRUCTOUT_DISABLE", "xgrammar,outlines,llguidance,reference")
    result = CliRunner().invoke(app, ["check", str(schema)])
    assert result.exit_code == 2
    assert "no backend is installed" in result.stderr
    result = CliRunner().invoke(app, ["fuzz", "--generate"])
    assert result.exit_code == 2
    assert "no backend is installed" in result.stderr


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (None, (), "schema.json"),
        ("{", (), "JSON"),
        ('{"type": 1}', (), "type"),
        ("{}", ("--backend", "nobody"), "there is no backend 'nobody'"),
        ("{}", ("--plugin", "no_colon"), "MODULE:ATTRIBUTE"),
        ("{}", ("--plugin", "tests.nowhere:x"), "tests.nowhere"),
        ("{}", ("--plugin", "tests.fuzz:nothing"), "nothing"),
    ],
)
def test_what_cannot_begin_says_why(
    tmp_path: Path, content: str | None, options: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "schema.json"
    if content is not None:
        path.write_text(content)
    result = CliRunner().invoke(app, ["check", str(path), *options])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.stderr.split())
    as_json = CliRunner().invoke(app, ["check", str(path), *options, "--json"])
    assert as_json.exit_code == 2
    assert message in json.loads(as_json.stdout)["error"]["message"]
