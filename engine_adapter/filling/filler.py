"""Fills the rows of a step's constraints, and lets nobody wait for one row longer than the budget.

A step has two queues of calls. Those filled *together* are all that have not been late: a native batch a call, or one
constraint of a backend that has none; one thread works them off, and when a call keeps it, another takes over the rest.
Those filled *apart* are risky grammars and constraints that were late by themselves: a call each, on a bounded number
of other threads, into rows of their own.

What a native call works on is its own until it returns. Its constraints are late in every step until then; afterwards
their rows are used. Its buffer is left to it for good: the step goes on with a new one. Who was late in a batch is
filled alone once, which shows who it was. When a batch does not return at all, its constraints go on as copies, made by
replay, so that only the one at fault is lost.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from engine_adapter.filling.call import FillRows, scratch_row
from engine_adapter.filling.crew import Crew
from engine_adapter.filling.filling import Crews, Filling
from engine_adapter.filling.ledger import Ledger, Standing
from engine_adapter.masks import MaskBuffers, RowPlaces, batches, fill_rows
from structout.backend import Bitmask
from structout.constraint import Constraint

_PATIENCE: Final = 2
"""How many times the budget has to pass before the constraints of a batch that does not return go on as copies."""


class Filler:
    """Belongs to the engine's thread. `close` ends its threads.

    Args:
        rows: most constraints in a step.
        width: int32 words in a row: ``Vocabulary.bitmask_width``.
        budget_s: how long a step waits for its rows once it has nothing else to do, in seconds.
        depth: of the ring of buffers: one more than the steps in flight.
        max_apart: most threads for what is filled apart.
        allocate: makes the int32 array of a shape; for pinned memory.
    """

    def __init__(
        self,
        rows: int,
        width: int,
        *,
        budget_s: float = 0.05,
        depth: int = 2,
        max_apart: int = 16,
        allocate: Callable[[tuple[int, int]], Bitmask] = lambda shape: np.zeros(shape, np.int32),
    ) -> None:
        self._width = width
        self._budget_s = budget_s
        self._buffers = MaskBuffers(rows, width, depth=depth, allocate=allocate)
        self._ledger = Ledger()
        self._crews = Crews(Crew("structout-fill"), Crew("structout-fill-apart", max_apart))

    def begin(
        self, constraints: Sequence[Constraint], fill: FillRows = fill_rows, places: RowPlaces | None = None
    ) -> Filling:
        """Starts to fill a row for each constraint, and returns at once.

        Args:
            constraints: each at most once. Until `wait` has returned nobody else may touch them.
            fill: fills the rows of one call.
            places: where each row goes, by the thread that fills it. `wait` closes it.
        """
        known, lease = self._ledger.begin_step(constraints), self._buffers.lease()
        filling = Filling(constraints, known, lease, self._ledger, self._crews, fill, self._budget_s, places)
        try:
            fresh = [
                index
                for index, constraint in enumerate(constraints)
                if not ((known or constraint.grammar.is_risky) and self._place(filling, index, known.get(index)))
            ]
            for indices in batches(constraints, fresh):
                filling.add_together(indices)
            filling.start()
        except BaseException:
            filling.end()
            raise
        return filling

    def _place(self, filling: Filling, index: int, standing: Standing | None) -> bool:
        """Queues what a risky constraint needs, or one that was late; False for one that is like any other."""
        is_risky = filling.constraints[index].grammar.is_risky
        if standing is not None and standing.wants_copy(_PATIENCE):
            filling.add_together([index], restarts=True)
        elif standing is not None and (standing.is_busy or standing.has_row):
            filling.await_late(index, standing)
        elif is_risky or (standing is not None and standing.is_slow):
            filling.add_apart(index, scratch_row(self._width))
        elif standing is not None:
            filling.add_together([index])
        else:
            return False
        return True

    @property
    def misses(self) -> int:
        """How often a row has missed a budget so far: see `Filled.missed`."""
        return self._ledger.misses

    def is_busy(self, constraint: Constraint) -> bool:
        """Whether a call that was late still works on the constraint: nobody else may touch it until it does not."""
        standing = self._ledger.find(constraint)
        return standing is not None and standing.is_busy

    def close(self) -> None:
        """Ends the threads; one that is stuck in a native call ends when that returns."""
        self._crews.close()
