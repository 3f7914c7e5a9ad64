"""The command line: what it prints, and the codes that it exits with."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from typer.testing import CliRunner, Result

from engine_adapter.embedded.engine import Engine
from engine_adapter.embedded.local import Local, open_local
from structout.cli import demo, generate
from structout.cli.app import app

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def local() -> Iterator[Local]:
    """The packaged model, loaded once for all tests of the command line."""
    local = open_local("smollm2", max_rows=8, max_len=512)
    yield local
    local.close()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, local: Local) -> Run:
    """Runs a command on the model that is loaded already."""

    def opened(model: str, **options: object) -> Local:
        return Kept(**attrs.asdict(local, recurse=False) | {"engine": Engine(local.loaded.runner, local.service)})

    monkeypatch.setattr(generate, "open_local", opened)
    monkeypatch.setattr(demo, "open_local", opened)
    return lambda *arguments: CliRunner().invoke(app, [*map(str, arguments)])


class Kept(Local):
    """A command closes its engine; the model and the compile service stay for the next one."""

    def close(self) -> None:
        self.engine.close()


def object_of(result: Result) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(result.stdout)
    return value


pytestmark = pytest.mark.model


def test_a_schema_gives_valid_outputs_and_the_promised_object(run: Run, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}')
    options = ("--prompt", "Is it?", "--n", 2, "--seed", 3, "--max-tokens", 60, "--json")
    result = run("generate", "--schema", schema, *options)
    assert result.exit_code == 0, result.output
    report = object_of(result)
    assert set(report) == {"outputs", "backend", "usage", "timings"}
    assert len(report["outputs"]) == 2
    for output in report["outputs"]:
        assert set(output) == {"text", "finish_reason", "valid"}
        assert output["valid"] == (output["finish_reason"] == "stop")
    assert report["usage"]["completion_tokens"] > 0
    assert all(seconds >= 0 for seconds in report["timings"].values())


def test_a_seed_makes_it_repeatable(run: Run) -> None:
    command = ("generate", "--prompt", "Say something.", "--max-tokens", 8, "--seed", 5, "--json")
    assert object_of(run(*command))["outputs"] == object_of(run(*command))["outputs"]


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance", "outlines"])
def test_each_backend_can_be_named(run: Run, backend: str) -> None:
    result = run("generate", "--regex", "[ab]{3}", "--backend", backend, "--prompt", "x", "--json")
    report = object_of(result)
    assert report["backend"] == backend
    assert re.fullmatch("[ab]{3}", report["outputs"][0]["text"])
    assert report["outputs"][0]["valid"] is None


def test_grammars_come_from_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "g.gbnf").write_text('root ::= "left" | "right"\n')
    (tmp_path / "g.lark").write_text('start: "left" | "right"\n')
    for option, name in (("--ebnf", "g.gbnf"), ("--lark", "g.lark")):
        result = run("generate", option, tmp_path / name, "--prompt", "Where?")
        assert result.exit_code == 0, result.output
        assert result.stdout.strip() in ("left", "right")


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (("--regex", "(unclosed"), "invalid_spec", 2),
        (("--choice", ""), "invalid_spec", 2),
        (("--choice", "a,b", "--regex", "a"), "invalid_spec", 2),
        (("--schema", "/no/such/file"), "invalid_spec", 2),
        (("--choice", "a,b", "--backend", "nowhere"), "unavailable", 2),
        (("--choice", "a,b", "--n", "0"), "invalid_spec", 2),
        (("--choice", "a,b", "--temperature", "-1"), "invalid_spec", 2),
        (("--choice", "a,b", "--max-tokens", "0"), "invalid_spec", 2),
    ],
)
def test_the_callers_faults_exit_with_2_and_an_error_object(
    run: Run, arguments: tuple[str, ...], kind: str, code: int
) -> None:
    result = run("generate", *arguments, "--prompt", "x", "--json")
    error = object_of(result)["error"]
    assert set(error) == {"kind", "message", "pointer", "backend", "hint"}
    assert (error["kind"], result.exit_code) == (kind, code)
    plain = run("generate", *arguments, "--prompt", "x")
    assert plain.exit_code == code
    assert kind in plain.stderr
    assert plain.stdout == ""


def test_what_no_backend_enforces_is_refused_with_its_pointer(run: Run, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}}')
    error = object_of(run("generate", "--schema", schema, "--prompt", "x", "--json"))["error"]
    assert (error["kind"], error["pointer"]) == ("unsupported", "/properties/a")
    assert "uniqueItems" in error["message"]


def test_a_model_that_is_not_there_is_said_in_one_line() -> None:
    result = CliRunner().invoke(app, ["generate", "--prompt", "x", "--model", "/no/such/model", "--json"])
    assert result.exit_code == 1
    assert "/no/such/model" in object_of(result)["error"]["message"]


def test_backends_are_listed() -> None:
    report = object_of(CliRunner().invoke(app, ["backends", "--json"]))
    assert {backend["id"] for backend in report["backends"]} >= {"xgrammar", "llguidance", "outlines"}
    assert report["problems"] == []
    assert "llguidance" in CliRunner().invoke(app, ["backends"]).stdout


def test_the_demo_shows_valid_answers_and_the_cause_of_a_failure(run: Run) -> None:
    result = run("demo")
    assert result.exit_code == 0, result.output
    assert f"{len(demo.ITEMS)} of {len(demo.ITEMS)} requests ended as they should" in result.stdout
    assert "invalid_spec" in result.stdout


def test_it_is_a_command() -> None:
    command = [sys.executable, "-c", "from structout.cli import main; main()", "backends", "--json"]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(completed.stdout)["backends"]
