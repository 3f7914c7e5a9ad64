"""A matcher that lives in another process and fills rows in shared memory under a budget, behind the same protocols.

What that asked of the waist: a row may lie in shared memory; a fill needs an answer for "not in time" that is neither a
failure nor a mask (`Status.LATE`), after which nothing has changed and the same fill may be asked for again; a process
that died is one failure of the sequences it held.
"""

import itertools
import json
import os
import selectors
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from structout import BackendInfo, Choice, ErrorKind, Finding, GrammarError, Ok, Result, Status, Vocabulary
from structout.backend import Backend, BitmaskRow, CompiledGrammar, Matcher
from structout.constraint import Constraint
from structout.drafts import fill_drafts
from structout.grammar import BoundBackend
from structout.spec import GrammarSpec
from tests.fakes import BYTES, EOS, allowed, trie_grammar
from tests.trials.remote_worker import map_rows

ROWS = 64
GENEROUS_S = 60.0


class Remote:
    """The worker's process, and the calls to it that have no answer yet."""

    def __init__(self, file: Path) -> None:
        file.write_bytes(bytes(4 * ROWS * BYTES.bitmask_width))
        self.rows = map_rows(str(file))
        command = [sys.executable, "-m", "tests.trials.remote_worker", str(file)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        self.answers: dict[int, Any] = {}
        self._calls = itertools.count()
        self._numbers = itertools.count()
        self._selector = selectors.DefaultSelector()
        assert self.process.stdout is not None
        self._selector.register(self.process.stdout, selectors.EVENT_READ)

    def send(self, **call: Any) -> int:
        number = next(self._calls)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({**call, "call": number}).encode() + b"\n")
        self.process.stdin.flush()
        return number

    def answered(self, call: int, budget_s: float) -> bool:
        """Whether the answer to ``call`` is there within the budget. Raises EOFError if the process is gone."""
        assert self.process.stdout is not None
        while call not in self.answers:
            if not self._selector.select(budget_s):
                return False
            line = self.process.stdout.readline()
            if not line:
                raise EOFError("the worker is gone")
            answer = json.loads(line)
            self.answers[answer["call"]] = answer["answer"]
        return True

    def ask(self, **call: Any) -> Any:
        number = self.send(**call)
        assert self.answered(number, GENEROUS_S)
        return self.answers.pop(number)

    def new_matcher(self) -> int:
        return next(self._numbers)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self._selector.close()


@attrs.define(eq=False)
class RemoteMatcher:
    """Matcher ``number`` of the worker."""

    remote: Remote
    number: int
    budget_s: float = GENEROUS_S
    slow_s: float = 0.0
    is_terminated: bool = False
    filling: int | None = None

    def fill(self, row: BitmaskRow) -> Status:
        if self.is_terminated:
            return Status.TERMINATED
        if self.filling is None:
            self.filling = self.remote.send(do="fill", matcher=self.number, slow=self.slow_s)
        if not self.remote.answered(self.filling, self.budget_s):
            return Status.LATE
        status = Status(self.remote.answers.pop(self.filling))
        self.filling = None
        row[:] = self.remote.rows[self.number]
        return status

    def accept(self, token: int) -> Status:
        status = Status(self.remote.ask(do="accept", matcher=self.number, token=token))
        self.is_terminated = self.is_terminated or (status is Status.OK and token == EOS)
        return status

    @property
    def is_accepting(self) -> bool:
        return bool(self.remote.ask(do="accepting", matcher=self.number))

    def fork(self) -> "RemoteMatcher":
        copy = self.remote.new_matcher()
        self.remote.ask(do="fork", matcher=self.number, copy=copy)
        return RemoteMatcher(self.remote, copy, self.budget_s, self.slow_s, self.is_terminated)


@attrs.frozen(eq=False)
class RemoteGrammar:
    remote: Remote
    options: tuple[str, ...]
    unenforced: Sequence[Finding] = ()
    narrowed: Sequence[Finding] = ()

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        number = self.remote.new_matcher()
        self.remote.ask(do="start", matcher=number, options=list(self.options), stops=list(stop_token_ids))
        return RemoteMatcher(self.remote, number)


@attrs.frozen(eq=False)
class RemoteBackend:
    remote: Remote

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        assert isinstance(spec, Choice)
        return Ok(RemoteGrammar(self.remote, spec.options))


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[Remote]:
    remote = Remote(tmp_path / "rows")
    yield remote
    remote.close()


OPTIONS = ("ab", "abcd", "b")


@pytest.fixture
def constraint(remote: Remote) -> Constraint:
    def create(vocabulary: Vocabulary) -> Backend:
        return RemoteBackend(remote)

    info = BackendInfo(id="remote", create=create, spec_kinds=frozenset({"choice"}))
    bound = BoundBackend.create(info, None, BYTES).unwrap()
    return bound.compile(Choice(OPTIONS)).unwrap().start(max_rollback=8).unwrap()


def new_row() -> BitmaskRow:
    return np.full(BYTES.bitmask_width, 77, np.int32)


def test_it_is_what_a_matcher_in_this_process_is(constraint: Constraint) -> None:
    local = trie_grammar(*OPTIONS).start(max_rollback=8).unwrap()
    for token in (*b"abc", *b"x", *b"d", EOS, *b"a"):
        row, expected = new_row(), new_row()
        assert constraint.fill(row) is local.fill(expected)
        assert (row == expected).all()
        assert constraint.is_accepting == local.is_accepting
        assert constraint.accept(token) is local.accept(token)
    assert constraint.rollback(3) is local.rollback(3) is Status.OK
    rows, expected_rows = np.zeros((4, BYTES.bitmask_width), np.int32), np.zeros((4, BYTES.bitmask_width), np.int32)
    assert fill_drafts(constraint, list(b"cdz"), rows) == fill_drafts(local, list(b"cdz"), expected_rows)
    assert (rows == expected_rows).all()


def test_a_row_that_misses_its_budget_is_late_and_nothing_has_changed(constraint: Constraint) -> None:
    matcher = constraint.matcher
    assert isinstance(matcher, RemoteMatcher)
    matcher.budget_s, matcher.slow_s = 0.05, 2.0
    row = new_row()
    assert constraint.fill(row) is Status.LATE
    assert (row == -1).all()
    assert constraint.error is None
    matcher.budget_s = GENEROUS_S
    assert constraint.fill(row) is Status.OK
    assert allowed(row, BYTES.padded_size) == {ord("a"), ord("b"), 257}
    assert constraint.accept(ord("b")) is Status.OK


def test_a_worker_that_was_killed_is_one_failure(remote: Remote, constraint: Constraint) -> None:
    remote.process.kill()
    remote.process.wait()
    row = new_row()
    assert constraint.fill(row) is Status.FAILED
    assert (row == -1).all()
    assert constraint.error is not None
    assert (constraint.error.kind, constraint.error.backend) == (ErrorKind.BACKEND_FAILURE, "remote")
