"""What sequences and grammars leave behind is found; what a good backend keeps for good reason is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from structout import Choice
from structout.backend import Backend
from structout.fuzz.case import Case
from structout.fuzz.examine import examine
from structout.fuzz.law import Law
from structout.processes.usage import open_descriptors, resident_bytes
from tests.fuzz import faulty
from tests.fuzz.faulty import GoodBackend, bound

ROOT = Path(__file__).resolve().parents[2]
CASE = Case(Choice(("ab",)))


@pytest.mark.parametrize(
    ("backend", "what"),
    [
        (faulty.KeepsMatchers, "each sequence leaves something behind"),
        (faulty.KeepsGrammars, "each compile leaves"),
        (faulty.KeepsFiles, "each compile leaves something behind: 1 open files"),
    ],
)
def test_what_is_kept_is_found(backend: type[Backend], what: str) -> None:
    [violation] = examine(bound(backend), CASE, {Law.LEAK}).violations
    assert violation.law is Law.LEAK
    assert what in violation.message


def test_threads_that_are_left_are_found() -> None:
    [violation] = examine(bound(faulty.KeepsThreads), CASE, {Law.LEAK}).violations
    faulty.KeepsThreads.over.set()
    assert violation.law is Law.LEAK
    assert "each compile leaves something behind" in violation.message


def test_a_good_backend_leaves_nothing_behind() -> None:
    assert examine(bound(GoodBackend), CASE, {Law.LEAK}).violations == ()


def test_memory_in_use_is_seen() -> None:
    before = resident_bytes()
    held = b"x" * (64 << 20)
    assert resident_bytes() - before > len(held) // 2


def test_open_files_are_counted(tmp_path: Path) -> None:
    before = open_descriptors()
    with (tmp_path / "file").open("w"):
        assert open_descriptors() == before + 1
    assert open_descriptors() == before


COUNTS = """
import threading
from structout.processes.usage import running_threads
counts, over = [running_threads()], threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
counts.append(running_threads())
over.set()
print(*counts)
"""


def test_threads_are_counted() -> None:
    """In a process in which nobody else has any that may end meanwhile."""
    counted = subprocess.run([sys.executable, "-c", COUNTS], cwd=ROOT, capture_output=True, text=True, check=True)
    before, after = map(int, counted.stdout.split())
    assert after == before + 1
