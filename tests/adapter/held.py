"""Matchers whose fills return when the test says so, and that notice when anybody touches them before."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from structout import BackendInfo, Choice, Status, Vocabulary
from structout.backend import Backend, Bitmask, BitmaskRow
from structout.constraint import Constraint
from structout.grammar import BoundBackend, Grammar
from tests.fakes import BYTES, TrieBackend, TrieMatcher

OPTIONS = ("ab", "abcd", "b", "éab")


class Gate:
    """Open, unless `hold` was called; who is held, by a fill that has begun, is let go by `release`."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.met = threading.Event()

    def hold(self) -> None:
        self.met.clear()
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def pass_through(self) -> None:
        self.met.set()
        self._open.wait()


@attrs.define(eq=False)
class HeldMatcher(TrieMatcher):
    """Fills behind its gate, and a part of the row before it: what a buffer's next user would see."""

    gate: Gate = attrs.field(factory=Gate)
    fills: int = 0
    touches: list[str] = attrs.field(factory=list)  # calls that came while another was running
    _running: str | None = None

    @contextmanager
    def _alone(self, call: str) -> Iterator[None]:
        if self._running is not None:
            self.touches.append(f"{call} during {self._running}")
        self._running = call
        yield
        self._running = None

    def fill(self, row: BitmaskRow) -> Status:
        with self._alone("fill"):
            self.fills += 1
            row[0] = 0
            self.gate.pass_through()
            return TrieMatcher.fill(self, row)

    def accept(self, token: int) -> Status:
        with self._alone("accept"):
            return TrieMatcher.accept(self, token)


class BatchBackend(TrieBackend):
    """Fills in batches, one row after the other."""

    def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
        return [matcher.fill(bitmask[row]) for matcher, row in zip(matchers, rows, strict=True)]


def held_grammar(backend: type[TrieBackend] = TrieBackend, *, is_risky: bool = False) -> Grammar:
    def create(vocabulary: Vocabulary) -> Backend:
        return backend(vocabulary, HeldMatcher)

    info = BackendInfo(id="held", create=create, spec_kinds=frozenset({"choice"}))
    grammar = BoundBackend.create(info, None, BYTES).unwrap().compile(Choice(OPTIONS)).unwrap()
    return attrs.evolve(grammar, is_risky=is_risky)


def started(grammar: Grammar, count: int) -> list[Constraint]:
    return [grammar.start().unwrap() for _ in range(count)]


def matcher(constraint: Constraint) -> HeldMatcher:
    assert isinstance(constraint.matcher, HeldMatcher)
    return constraint.matcher


def gate(constraint: Constraint) -> Gate:
    return matcher(constraint).gate
