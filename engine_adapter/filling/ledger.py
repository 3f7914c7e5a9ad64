"""What is remembered of constraints that were late: how they are filled from now on, and the call that has them."""

import threading
import time
from collections.abc import Sequence
from typing import Final

import attrs

from engine_adapter.filling.call import Call
from structout.constraint import Constraint

_FORGET_AFTER: Final = 64
"""Steps without a constraint after which it is taken for ended."""
_FIRST: Final = 0.7
"""The share of the budget that has to pass the first time: a call may have begun after the wait for it. One that waited
for a call that is stuck begins when a quarter has passed, and a little later if its thread has to be started."""


@attrs.define(eq=False)
class Standing:
    """One constraint that was late.

    Attributes:
        constraint: itself; held, so that its identity stays its own.
        is_slow: whether it was late all by itself, and not only a row of a late batch.
        call: the call that was late and has it, or has its row; None if there is none.
        tokens: the constraint's when ``call`` was noted: the state that its row is for.
        misses: how many times the budget has passed since ``call`` was waited for.
        next_miss: by `time.monotonic`, when it has passed once more.
        seen: the step that last had this constraint.
    """

    constraint: Constraint
    is_slow: bool = False
    call: Call | None = None
    tokens: tuple[int, ...] = ()
    misses: int = 0
    next_miss: float = 0.0
    seen: int = 0

    @property
    def is_busy(self) -> bool:
        return self.call is not None and not self.call.is_over

    def wants_copy(self, patience: int) -> bool:
        """Whether a batch has kept the constraint that many times the budget, so that it should go on as a copy."""
        return self.call is not None and not self.call.is_over and self.call.is_batch and self.misses >= patience

    def note_wait(self, budget_s: float) -> bool:
        """A step goes on without ``call``; whether the budget has passed once more. Steps may be far shorter."""
        if (now := time.monotonic()) < self.next_miss:
            return False
        self.misses += 1
        self.next_miss = now + budget_s
        return True

    @property
    def has_row(self) -> bool:
        """Whether the late call is over, and what it came to is for the state that the constraint is still in."""
        return self.call is not None and self.call.is_over and self.constraint.tokens == self.tokens


class Ledger:
    """The standings, by constraint. Belongs to the engine's thread.

    Attributes:
        late_returned: set by the threads that fill whenever a call returns that was late.
        misses: how often a row has missed a budget so far, by its own doing.
    """

    def __init__(self) -> None:
        self.late_returned = threading.Event()
        self.misses = 0
        self._standings: dict[int, Standing] = {}
        self._step = 0

    def begin_step(self, constraints: Sequence[Constraint]) -> dict[int, Standing]:
        """The standings among a new step's constraints, by index. Forgets who has not been seen for long."""
        self._step += 1
        if not self._standings:
            return {}
        known = {}
        for index, constraint in enumerate(constraints):
            if (standing := self._standings.get(id(constraint))) is not None:
                standing.seen = self._step
                known[index] = standing
        self._forget_unseen()
        return known

    def find(self, constraint: Constraint) -> Standing | None:
        return self._standings.get(id(constraint))

    def note_late(self, call: Call, budget_s: float) -> list[Standing]:
        """A call has not returned: its constraints are its own until it does. Returns their standings."""
        standings, began = [], min(call.began, time.monotonic())
        for constraint in call.constraints:
            standing = self._standings.setdefault(id(constraint), Standing(constraint))
            standing.is_slow |= not call.is_batch
            standing.call, standing.tokens = call, constraint.tokens
            standing.misses, standing.next_miss = 0, began + _FIRST * budget_s
            standing.seen = self._step
            standings.append(standing)
        return standings

    def note_unbegun(self, call: Call, since: float, budget_s: float) -> list[Standing]:
        """There was no thread for a call. Returns its constraints' standings."""
        standings = []
        for constraint in call.constraints:
            standing = self._standings.get(id(constraint))
            if standing is None:
                standing = self._standings[id(constraint)] = Standing(constraint, next_miss=since + _FIRST * budget_s)
            standing.seen = self._step
            standings.append(standing)
        return standings

    def note_filled(self, before: Constraint, after: Constraint, *, in_time: bool) -> None:
        """A constraint has its row. One that was only in a late batch and was in time by itself is like any other."""
        standing = self._standings.pop(id(before), None)
        if standing is None or (in_time and not standing.is_slow):
            return
        self._standings[id(after)] = attrs.evolve(standing, constraint=after, call=None)

    def _forget_unseen(self) -> None:
        old = [
            key
            for key, standing in self._standings.items()
            if not standing.is_busy and self._step - standing.seen > _FORGET_AFTER
        ]
        for key in old:
            del self._standings[key]
