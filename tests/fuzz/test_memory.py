"""What sequences and grammars leave behind is found; what a good backend keeps for good reason is not."""

import pytest

from structout import Choice
from structout.backend import Backend
from structout.fuzz.case import Case
from structout.fuzz.examine import examine
from structout.fuzz.law import Law
from structout.processes.usage import resident_bytes
from tests.fuzz import faulty
from tests.fuzz.faulty import GoodBackend, bound

CASE = Case(Choice(("ab",)))


@pytest.mark.parametrize(
    ("backend", "what"),
    [(faulty.KeepsMatchers, "each sequence leaves something behind"), (faulty.KeepsGrammars, "each compile leaves")],
)
def test_what_is_kept_is_found(backend: type[Backend], what: str) -> None:
    [violation] = examine(bound(backend), CASE, {Law.LEAK}).violations
    assert violation.law is Law.LEAK
    assert what in violation.message


def test_a_good_backend_leaves_nothing_behind() -> None:
    assert examine(bound(GoodBackend), CASE, {Law.LEAK}).violations == ()


def test_memory_in_use_is_seen() -> None:
    before = resident_bytes()
    held = b"x" * (64 << 20)
    assert resident_bytes() - before > len(held) // 2
