"""What is remembered of constraints that were late: how they are filled from now on, and the call that has them."""

import threading
from collections.abc import Sequence
from typing import Final

import attrs

from engine_adapter.filling.call import Call
from structout.constraint import Constraint

_FORGET_AFTER: Final = 64
"""Steps without a constraint after which it is taken for ended."""


@attrs.define(eq=False)
class Standing:
    """One constraint that was late.

    Attributes:
        constraint: itself; held, so that its identity stays its own.
        is_slow: whether it was late all by itself, and not only a row of a late batch.
        call: the call that was late and has it, or has its row; None if there is none.
        tokens: the constraint's when ``call`` was noted: the state that its row is for.
        misses: how many steps did without ``call``.
        seen: the step that last had this constraint.
    """

    constraint: Constraint
    is_slow: bool = False
    call: Call | None = None
    tokens: tuple[int, ...] = ()
    misses: int = 0
    seen: int = 0

    @property
    def is_busy(self) -> bool:
        return self.call is not None and not self.call.is_over

    def wants_copy(self, patience: int) -> bool:
        """Whether a batch has kept the constraint from that many steps, so that it should go on as a copy."""
        return self.call is not None and not self.call.is_over and self.call.is_batch and self.misses >= patience

    @property
    def has_row(self) -> bool:
        """Whether the late call is over, and what it came to is for the state that the constraint is still in."""
        return self.call is not None and self.call.is_over and self.constraint.tokens == self.tokens


class Ledger:
    """The standings, by constraint. Belongs to the engine's thread.

    Attributes:
        late_returned: set by the threads that fill whenever a call returns that was late.
    """

    def __init__(self) -> None:
        self.late_returned = threading.Event()
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

    def note_late(self, call: Call) -> None:
        """A call has not returned: its constraints are its own until it does."""
        for constraint in call.constraints:
            standing = self._standings.setdefault(id(constraint), Standing(constraint))
            standing.is_slow |= not call.is_batch
            standing.call, standing.tokens = call, constraint.tokens
            standing.misses, standing.seen = 1, self._step

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
