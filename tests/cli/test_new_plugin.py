"""``structout new-plugin``: what it writes is a plugin whose backend works, and is as clean as this project."""

import importlib
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from typer.testing import CliRunner

from structout import Choice, Err, Status
from structout.backend import API_VERSION, BitmaskRow, Matcher
from structout.cli import new_plugin
from structout.cli.app import app
from structout.discovery import Registry, discover
from structout.grammar import BoundBackend, Grammar
from tests.fakes import BYTES, EOS, TrieBackend, allowed

NAME = "my_own2"
PACKAGE = "structout_my_own2"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("plugins")
    result = CliRunner().invoke(app, ["new-plugin", NAME, "--into", str(into)])
    assert result.exit_code == 0, result.output
    folder = into / "structout-my-own2"
    assert f"cd {folder}" in result.stdout
    return folder


@pytest.fixture(scope="module")
def package(project: Path) -> Iterator[ModuleType]:
    sys.path.insert(0, str(project / "src"))
    try:
        yield importlib.import_module(PACKAGE)
    finally:
        sys.path.remove(str(project / "src"))
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


@pytest.fixture(scope="module")
def registry(package: ModuleType) -> Registry:
    return discover(plugins={NAME: package}, entry_points=())


def grammar(registry: Registry, *options: str) -> Grammar:
    registered = registry.find(NAME).unwrap()
    return BoundBackend.create(registered.info, None, BYTES).unwrap().compile(Choice(options)).unwrap()


def filled_row(matcher: Matcher) -> BitmaskRow:
    row = np.full(BYTES.bitmask_width, 12345, np.int32)
    assert matcher.fill(row) is Status.OK
    return row


def test_its_metadata_makes_it_a_plugin(project: Path) -> None:
    metadata = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    assert metadata["project"]["name"] == "structout-my-own2"
    assert metadata["project"]["entry-points"] == {"structout": {NAME: PACKAGE}}
    [folder] = metadata["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert (project / folder / "py.typed").is_file()


def test_nothing_of_the_templates_is_left(project: Path) -> None:
    files = [path for path in project.rglob("*") if path.is_file()]
    assert {"README.md", "LICENSE", ".gitignore", "ci.yml", "test_conformance.py"} <= {path.name for path in files}
    for path in files:
        assert path.suffix != ".tmpl"
        text = path.read_text(encoding="utf-8")
        assert "PACKAGE" not in text
        assert "$" not in text.replace("${{ matrix.python }}", ""), path
        assert not text or text.endswith("\n")


def test_its_backend_is_registered(registry: Registry) -> None:
    assert registry.problems == ()
    info = registry.find(NAME).unwrap().info
    assert info.spec_kinds == {"choice"}
    assert info.api_version == API_VERSION


@given(options=st.lists(st.text("abé", max_size=4), min_size=1, max_size=4), walk=st.lists(st.integers(0, 2**16)))
def test_its_backend_agrees_with_an_independent_one(registry: Registry, options: list[str], walk: list[int]) -> None:
    sequence = grammar(registry, *options).start(max_rollback=8).unwrap()
    other = TrieBackend(BYTES).compile(Choice(tuple(options))).unwrap().start(stop_token_ids=[EOS], max_rollback=0)
    for step in walk:
        row = filled_row(other)
        assert (filled_row(sequence.matcher) == row).all()
        choices = sorted(allowed(row, BYTES.size))
        token = choices[step % len(choices)]
        assert sequence.accept(token) is other.accept(token) is Status.OK
        assert sequence.is_accepting == other.is_accepting
        if sequence.is_terminated:
            break


def test_its_matcher_rolls_back_and_forks(registry: Registry) -> None:
    sequence = grammar(registry, "ab").start(max_rollback=3).unwrap()
    fork = sequence.fork().unwrap()
    for token in (ord("a"), ord("b"), EOS):
        assert sequence.accept(token) is Status.OK
    assert sequence.rollback(2) is Status.OK
    assert not sequence.is_terminated
    assert not sequence.is_accepting
    assert sequence.accept(ord("b")) is fork.accept(ord("a")) is Status.OK
    assert sequence.replayed == 0


def test_what_it_refuses_names_the_cause(package: ModuleType) -> None:
    match package.INFO.create(BYTES).compile(Choice(())):
        case Err(error):
            assert "no option" in error.message
        case other:
            pytest.fail(f"it compiled: {other}")


def test_its_code_passes_the_checks_that_it_comes_with(project: Path) -> None:
    for command in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["", "My", "2nd", "with-dash", "a b", "../up", "ä"])
def test_a_name_that_is_no_id_is_refused(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["new-plugin", "--into", str(tmp_path), "--", name])
    assert result.exit_code == 2
    assert "lower-case" in result.stderr
    assert not list(tmp_path.iterdir())


def test_the_id_of_an_installed_backend_is_refused(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["new-plugin", "llguidance", "--into", str(tmp_path)])
    assert result.exit_code == 2
    assert "there is a backend llguidance already, of structout" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "structout-mine").mkdir()
    result = CliRunner().invoke(app, ["new-plugin", "mine", "--into", str(tmp_path)])
    assert result.exit_code == 2
    assert "exists already" in result.stderr
    assert not list((tmp_path / "structout-mine").iterdir())


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    match new_plugin.create("mine", tmp_path / "file"):
        case Err(error):
            assert "structout-mine: Not a directory" in error.message
        case other:
            pytest.fail(f"written: {other}")


def test_the_command_needs_no_torch() -> None:
    code = "import sys, structout.cli.app; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
