"""One call that fills rows: what it works on belongs to it until it returns."""

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import numpy as np

from engine_adapter.masks import RowPlaces, Statuses, are_ok
from structout.backend import Bitmask, Status
from structout.constraint import Constraint
from structout.errors import ErrorKind, GrammarError

FillRows: TypeAlias = Callable[[Sequence[Constraint], Bitmask, Sequence[int]], Statuses]
"""`engine_adapter.masks.fill_rows`, or what has its meaning."""


@attrs.define(eq=False)
class Call:
    """Rows that one thread fills in one go: those of a native batch, or one.

    Once it has begun, its constraints are touched by nobody else until it is over, and its rows for as long as it
    lives: a step that does not wait for it goes on with another buffer.

    Attributes:
        constraints: whose rows.
        indices: their places in the step that began it.
        bitmask: where the rows are written.
        rows: the row of each in ``bitmask``.
        places: where the rows that are OK go, if anywhere.
        restarts: whether ``constraints`` are in use by another call, and copies of them are filled in their stead.
        began: when it was begun, by `time.monotonic`; in the future if it was not.
        filled: the constraints that were filled: ``constraints``, or their copies.
        is_plain: whether every row is OK, which is 0, and ``filled`` are ``constraints``; set before ``outcome`` is.
        outcome: None until it has returned; then a `Status` each, or what was raised, which no backend can do.
    """

    constraints: Sequence[Constraint]
    indices: Sequence[int]
    bitmask: Bitmask
    rows: Sequence[int]
    places: RowPlaces | None = None
    restarts: bool = False
    began: float = math.inf
    filled: Sequence[Constraint] = ()
    is_plain: bool = False
    outcome: Statuses | BaseException | None = None

    def run(self, fill: FillRows) -> None:
        """Fills the rows. Never raises."""
        self.began = time.monotonic()
        try:
            self.filled = list(map(restarted, self.constraints)) if self.restarts else self.constraints
            statuses = fill(self.filled, self.bitmask, self.rows)
            if self.places is not None:
                self._place(self.places, statuses)
            self.is_plain = not self.restarts and are_ok(statuses)
            self.outcome = statuses
        except BaseException as exc:
            # Also a KeyboardInterrupt: the user's own comes to the main thread alone.
            self.outcome = exc

    def _place(self, places: RowPlaces, statuses: Statuses) -> None:
        rows, indices = self.rows, self.indices
        if not are_ok(statuses):
            good = np.flatnonzero(statuses == Status.OK).tolist()
            rows, indices = [rows[at] for at in good], [indices[at] for at in good]
        places.place(self.bitmask, rows, indices)

    @property
    def is_over(self) -> bool:
        return self.outcome is not None

    @property
    def is_batch(self) -> bool:
        return len(self.constraints) > 1

    def position(self, constraint: Constraint) -> int:
        """Where one of ``constraints`` is among them."""
        return next(at for at, each in enumerate(self.constraints) if each is constraint)


_IN_USE = GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="its matcher is in use by a call that does not return")


def restarted(constraint: Constraint) -> Constraint:
    """A constraint in the same state whose matcher was made anew, by replay. The old matcher is not touched.

    If the backend fails in that, the copy has failed, as its ``error`` says.
    """
    # A failure that happens in a trial is undone by replay, and nothing else of the matcher is used for that.
    copy = constraint.failed_copy(_IN_USE)
    copy.try_and_undo(lambda: None)
    return copy


def scratch_row(width: int) -> Bitmask:
    """A row that no step's buffer shares: int32 [1, width]."""
    return np.empty((1, width), np.int32)
