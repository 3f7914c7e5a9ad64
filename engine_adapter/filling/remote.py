"""Matchers of risky grammars in processes that can be killed, behind the same protocols as any other.

A token is accepted here, by the bit that it has in the last row: the process hears of it with the next fill. So an
engine's own thread waits for the process in two cases only: to accept a token for which there was no row, and to ask
whether the text is complete behind a token for which there was none.

A process that takes too long is killed, and one may crash: that ends the sequence that was being served. All others go
on in a fresh process, where their tokens are replayed.
"""

import itertools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from engine_adapter.filling.host import Host
from structout.backend import BitmaskRow, Finding, Matcher, Status


class RemoteMatcher:
    """A sequence whose matcher lives in a host; see `structout.backend.Matcher`, `SupportsRollback`, `SupportsFork`."""

    def __init__(
        self,
        host: Host,
        numbers: Iterator[int],
        *,
        stop_token_ids: Sequence[int],
        max_rollback: int,
        width: int,
        tokens: Sequence[int] = (),
    ) -> None:
        self._host = host
        self._numbers = numbers
        self._number = next(numbers)
        self._start: Mapping[str, Any] = {"stop_token_ids": list(stop_token_ids), "max_rollback": max_rollback}
        self._tokens = list(tokens)
        self._process = 0  # the number of the one that holds the matcher
        self._held = 0  # how many tokens it has of this sequence
        self._kept = 0  # how many of these still count
        self._row: BitmaskRow = np.empty(width, np.int32)
        self._has_row = False
        self._status = Status.OK
        self._is_accepting = False
        weakref.finalize(self, host.drop, self._number)

    def fill(self, row: BitmaskRow) -> Status:
        if self.is_terminated:
            return Status.TERMINATED
        self._bring_row()
        np.copyto(row, self._row)
        return self._status

    def accept(self, token: int) -> Status:
        if self.is_terminated:
            return Status.TERMINATED
        self._bring_row()
        if self._status is not Status.OK or not self._row[token >> 5] >> (token & 31) & 1:
            return Status.REJECTED
        self._tokens.append(token)
        self._has_row = False
        return Status.OK

    @property
    def is_accepting(self) -> bool:
        if self.is_terminated:
            return True
        self._bring_row()
        return self._is_accepting

    @property
    def is_terminated(self) -> bool:
        return bool(self._tokens) and self._tokens[-1] in self._start["stop_token_ids"]

    def rollback(self, tokens: int) -> Status:
        if tokens:
            del self._tokens[-tokens:]
            self._kept = min(self._kept, len(self._tokens))
            self._has_row = False
        return Status.OK

    def fork(self) -> "RemoteMatcher":
        """A copy; its process makes it by replay, with its first fill."""
        copy = RemoteMatcher(self._host, self._numbers, **self._start, width=len(self._row), tokens=self._tokens)
        np.copyto(copy._row, self._row)
        copy._has_row, copy._status, copy._is_accepting = self._has_row, self._status, self._is_accepting
        return copy

    def _bring_row(self) -> None:
        """Makes the row that of the present state. Raises `Overdue`, `Lost` or `GrammarFailure`."""
        if self._has_row:
            return
        self._process, filled = self._host.fill(self._question, self._row)
        self._held = self._kept = len(self._tokens)
        self._status, self._is_accepting = filled.status, filled.is_accepting
        self._has_row = filled.status is not Status.LATE

    def _question(self, process: int) -> Mapping[str, Any]:
        """What brings the matcher in the process of that number from what it holds to the present state."""
        undo = self._held - self._kept
        if process != self._process or undo > self._start["max_rollback"]:
            return {"matcher": self._number, "start": self._start, "undo": 0, "tokens": self._tokens}
        return {"matcher": self._number, "start": None, "undo": undo, "tokens": self._tokens[self._kept :]}


@attrs.frozen(eq=False)
class RemoteGrammar:
    """See `structout.backend.CompiledGrammar`. When it goes, its process goes."""

    host: Host
    width: int
    unenforced: Sequence[Finding]
    narrowed: Sequence[Finding]
    numbers: Iterator[int] = attrs.field(factory=itertools.count)

    def __attrs_post_init__(self) -> None:
        weakref.finalize(self, self.host.close)

    def start(self, *, stop_token_ids: Sequence[int], max_rollback: int) -> Matcher:
        return RemoteMatcher(
            self.host, self.numbers, stop_token_ids=stop_token_ids, max_rollback=max_rollback, width=self.width
        )
