"""The conformance kit: green on a good backend, red on faulty ones, and exact about what is known of them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from typer.testing import CliRunner

from structout import Choice
from structout.cli.app import app
from structout.fuzz import Case, Child, Fault, FaultFolder, Law, Text, Violation
from structout.fuzz.difference import process_difference
from structout.testing import (
    LAWS,
    PROTECTS,
    Check,
    ConformanceError,
    KnownFault,
    KnownFaultCheck,
    KnownFaults,
    Level,
    conformance_checks,
    inputs,
)
from tests.fuzz.hazards import faulty_choices, good_choices, hash_choices, target
from tests.mutants import MUTANTS
from tests.mutants.wrapping import Mutant

ROOT = Path(__file__).resolve().parents[2]
REJECTION = Fault(
    "faulty_choices",
    Violation(Law.WRONG_REJECTION, "it is lost", {"written": "plain", "refuses": "a letter"}),
    Case(Choice(("", "a")), members=(Text("a", "plain"),)),
)


@pytest.fixture(autouse=True)
def _small_and_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kit keeps what it finds in the current folder; a part of its cases is enough here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(inputs, "CASES", 10)


def failures(checks: list[Check | KnownFaultCheck]) -> dict[str, str]:
    """What the checks that fail say, by name."""
    found: dict[str, str] = {}
    for check in checks:
        try:
            check.run()
        except ConformanceError as exc:
            found[str(check)] = str(exc)
    return found


def checks_of(mutant: Mutant, *levels: Level, known: Path | None = None) -> list[Check | KnownFaultCheck]:
    info = attrs.evolve(mutant.info, known_faults=known)
    return conformance_checks(info, levels=levels or tuple(Level), target=target(mutant))


def test_a_good_backend_passes_every_check() -> None:
    checks = checks_of(good_choices)
    assert {str(check) for check in checks} == {f"{level}-{law}-choice" for level in Level for law in LAWS[level]}
    assert failures(checks) == {}


def test_a_faulty_one_fails_the_check_of_its_law_and_says_all_there_is_to_know() -> None:
    found = failures(checks_of(faulty_choices, Level.CORE, Level.LANGUAGE))
    assert found.keys() == {"language-wrong_rejection-choice"}
    [message] = found.values()
    assert message.startswith("a text of the language (plain) cannot go on with")
    assert Law.WRONG_REJECTION.meaning in message
    assert f"It protects from {PROTECTS[Law.WRONG_REJECTION]}." in message
    assert "spec: Choice(" in message
    [command] = re.findall(r"this one again: structout (.*)", message)
    assert CliRunner().invoke(app, shlex.split(command)).exit_code == 1


@pytest.mark.parametrize(
    ("name", "law"),
    [("refuses_long_tokens", "tokenization"), ("sets_padding", "row"), ("never_terminated", "after_end")],
)
def test_mutants_fail(name: str, law: str) -> None:
    mutant = MUTANTS[name]
    info = attrs.evolve(mutant.info, spec_kinds={"choice"})
    assert f"core-{law}-choice" in failures(conformance_checks(info, levels=[Level.CORE]))


def test_a_backend_that_refuses_everything_fails() -> None:
    info = attrs.evolve(MUTANTS["refuses_everything"].info, spec_kinds={"choice"}, known_faults=None)
    [message] = failures(conformance_checks(info, levels=[Level.CORE])).values()
    assert "it refuses the plainest spec of a kind that it registers" in message


def test_after_a_crash_nothing_more_is_looked_at() -> None:
    """What comes up in every case would cost a new process for each."""
    info = attrs.evolve(MUTANTS["aborts"].info, spec_kinds={"choice"}, known_faults=None)
    checks = conformance_checks(info)
    assert failures(checks).keys() == {"resources-crash-choice"}
    [bench] = {check.bench for check in checks}
    assert len(bench.seen("choice")) <= len(bench.children)


def test_the_first_breach_ends_it_on_demand() -> None:
    checks = conformance_checks(faulty_choices.info, target=target(faulty_choices), stop_at_first=True)
    assert failures(checks)
    [bench] = {check.bench for check in checks}
    assert len(bench.seen("choice")) <= len(bench.children)


def test_levels_are_chosen_and_kinds_are_the_backends() -> None:
    info = attrs.evolve(good_choices.info, spec_kinds={"choice", "regex", "lark"})
    checks = conformance_checks(info, levels=[Level.ROLLBACK])
    assert {str(check) for check in checks} == {
        f"rollback-{law}-{kind}"
        for law in ("rollback", "fork", "drafts", "forced_text")
        for kind in ("choice", "regex", "lark")
    }


def test_every_law_that_one_backend_can_break_is_checked_and_protects_from_something() -> None:
    checked = [law for level in Level for law in LAWS[level]]
    assert sorted(checked) == sorted(set(Law) - {Law.MASK_DIFFERENCE})
    assert PROTECTS.keys() == set(checked)


def known_file(folder: Path, fault: Fault) -> Path:
    file = folder / "known.json"
    KnownFaults((KnownFault(fault, "the example of the tests"),)).write(file)
    return file


def test_a_known_fault_is_no_alarm(tmp_path: Path) -> None:
    checks = checks_of(faulty_choices, Level.LANGUAGE, known=known_file(tmp_path, REJECTION))
    assert [str(check) for check in checks][-1] == "known-0-wrong_rejection"
    found = failures(checks)
    assert "known-0-wrong_rejection" not in found
    # Of the same kind of spec, and refused in the same way: another way to fail is another fault.
    assert all("refuses: a letter\n" not in message for message in found.values())


def test_a_known_fault_between_two_processes_is_seen(tmp_path: Path) -> None:
    case = Case(Choice(("a", "b")))
    with Child(target(hash_choices)) as child, child.twin() as other:
        violation = process_difference(child, other, case)
    assert violation is not None
    known = known_file(tmp_path, Fault("hash_choices", violation, case))
    check = checks_of(hash_choices, Level.LANGUAGE, known=known)[-1]
    assert isinstance(check, KnownFaultCheck)
    check.run()


def test_a_known_fault_that_is_gone_fails(tmp_path: Path) -> None:
    gone = attrs.evolve(REJECTION, backend="good_choices")
    found = failures(checks_of(good_choices, Level.LANGUAGE, known=known_file(tmp_path, gone)))
    assert found.keys() == {"known-0-wrong_rejection"}
    assert "a known fault is gone: it is lost (the example of the tests)" in found["known-0-wrong_rejection"]
    assert "strike it off" in found["known-0-wrong_rejection"]


def test_known_faults_are_kept_as_they_are(tmp_path: Path) -> None:
    file = known_file(tmp_path, REJECTION)
    known = KnownFaults.read(file)
    assert known.faults == (KnownFault(REJECTION, "the example of the tests"),)
    assert KnownFaults.read(None) == KnownFaults()
    other = attrs.evolve(REJECTION.violation, law=Law.LIVENESS)
    assert known.new([REJECTION.violation, other], REJECTION.case) == [other]


@pytest.mark.parametrize("content", ["{", "[1]", "{}", "null", '[{"reason": "x"}]', '[{"reason": "", "fault": {}}]'])
def test_a_broken_file_of_known_faults_is_an_error(tmp_path: Path, content: str) -> None:
    file = tmp_path / "known.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=r"known\.json"):
        conformance_checks(attrs.evolve(good_choices.info, known_faults=file))


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest in a folder, with the kit's plugin and no other."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "plugins")]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-m", "pytest", "-v", "-p", "structout.pytest_plugin", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_pytest_runs_the_kit_without_a_test_file(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text("def test_that_is_not_meant(): assert False\n")
    options = ("--structout-plugin=tests.fuzz.hazards:faulty_choices", "--structout-backend=faulty_choices")
    done = run_pytest(tmp_path, *options, "-k", "language or batch")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "faulty_choices::language-wrong_rejection-choice FAILED" in done.stdout
    assert "faulty_choices::batch-batch_fill-choice PASSED" in done.stdout
    assert "::core-" not in done.stdout
    assert "test_that_is_not_meant" not in done.stdout
    assert "this one again: structout fuzz --case" in done.stdout
    assert "Traceback" not in done.stdout
    assert [*FaultFolder(tmp_path / ".structout" / "faults").of("faulty_choices")]


def test_pytest_says_which_backends_there_are(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--structout-backend=nobody")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "there is no backend 'nobody'" in done.stderr + done.stdout


def test_without_the_option_the_plugin_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
