"""The rows of one step while they are filled, and what has become of them when the step cannot wait any longer."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from engine_adapter.filling.call import Call, FillRows
from engine_adapter.filling.crew import Crew
from engine_adapter.filling.ledger import Ledger, Standing
from engine_adapter.masks import MaskLease, RowPlaces
from structout.backend import Bitmask, Status
from structout.constraint import Constraint

_STATUSES: Final = tuple(Status)
"""By number, as many times faster than to make one of it."""
_SLICES: Final = 4
"""In how many parts the budget is waited for. Behind each of them a thread that is stuck is relieved."""
_GRACE: Final = 0.04
"""The share of the budget that a step which could go on waits for what is filled apart: 2 ms of 50."""


@attrs.frozen(eq=False)
class Filled:
    """What became of a step's rows.

    Attributes:
        statuses: of each row; one whose status is not OK is all ones.
        missed: the indices of the late rows that have had the budget once more, each in a call of its own. The others
            that are late are in a batch with one that is slow, or have begun only now.
        replaced: by index, the constraint to go on with in the stead of one that a call may keep for ever.
        bugs: by index, what was raised while the row was filled, which no backend can do; the status is FAILED.
    """

    statuses: list[Status]
    missed: set[int]
    replaced: dict[int, Constraint]
    bugs: dict[int, BaseException]


class _Lane:
    """Calls that wait for a thread: whoever has one takes the next, until there is none."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._waiting: deque[Call] = deque()

    def add(self, call: Call) -> None:
        self.calls.append(call)
        self._waiting.append(call)

    @property
    def is_waited_in(self) -> bool:
        return bool(self._waiting)

    def take(self) -> Call | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def clear(self) -> list[Call]:
        """Withdraws the calls that have not begun, and never do now."""
        withdrawn = []
        while self._waiting and (call := self.take()) is not None:
            self.calls.remove(call)
            withdrawn.append(call)
        return withdrawn


class Filling:
    """One step's rows; made by `Filler.begin`. Then `wait`, read the rows, and `end`.

    Attributes:
        constraints: whose rows; constraint ``i`` has row ``i``.
        budget_s: how long `wait` waits, in seconds.
    """

    def __init__(
        self,
        constraints: Sequence[Constraint],
        known: Mapping[int, Standing],
        lease: MaskLease,
        ledger: Ledger,
        fill: FillRows,
        budget_s: float,
        places: RowPlaces | None = None,
    ) -> None:
        self.constraints = constraints
        self._known = known
        self._lease = lease
        self._ledger = ledger
        self._fill = fill
        self.budget_s = budget_s
        self._places = places
        self._together, self._apart = _Lane(), _Lane()
        self._awaited: dict[int, Standing] = {}
        self._enlist: Callable[[_Lane], bool] = lambda _: False
        self._began = 0.0
        self._left_together = self._left_apart = 0
        self._some_go_on = False
        self._progress = threading.Condition()  # guards these three
        self._is_settled = False
        self._filled: Filled | None = None

    @property
    def bitmask(self) -> Bitmask:
        """int32 [rows, width]: to be read between `wait` and `end`, and not before."""
        return self._lease.bitmask

    def add_together(self, indices: Sequence[int], *, restarts: bool = False) -> None:
        constraints = [self.constraints[index] for index in indices]
        self._together.add(Call(constraints, indices, self.bitmask, indices, self._places, restarts))

    def add_apart(self, index: int, scratch: Bitmask) -> None:
        self._apart.add(Call([self.constraints[index]], [index], scratch, [0], self._places))

    def await_late(self, index: int, standing: Standing) -> None:
        """The row is that of the call that was late, if it is over when this step ends."""
        self._awaited[index] = standing

    def start(self, together: Crew, apart: Crew) -> None:
        """Puts threads to work on what was added."""
        self._began = time.monotonic()
        self._left_together, self._left_apart = len(self._together.calls), len(self._apart.calls)
        self._some_go_on = bool(self._together.calls) or any(late.has_row for late in self._awaited.values())
        self._enlist = lambda lane: (together if lane is self._together else apart).submit(lambda: self._work(lane))
        if self._together.calls:
            self._enlist(self._together)
        for _ in self._apart.calls:
            self._enlist(self._apart)

    def _work(self, lane: _Lane) -> None:
        while (call := lane.take()) is not None:
            call.run(self._fill)
            with self._progress:
                if lane is self._together:
                    self._left_together -= 1
                else:
                    self._left_apart -= 1
                    self._some_go_on = True
                if not self._left_together:
                    self._progress.notify()
            if self._is_settled:
                self._ledger.late_returned.set()

    def can_go_on_within(self, seconds: float, others_go_on: bool) -> bool:
        """Blocks until nothing is filled together any more and there is a row, or ``others_go_on`` without one, at most
        ``seconds``. Returns whether it is so."""
        if not (self._left_together or self._left_apart):
            return True
        with self._progress:
            return self._progress.wait_for(
                lambda: not self._left_together and (not self._left_apart or self._some_go_on or others_go_on),
                seconds,
            )

    def wait_for_rest(self, seconds: float) -> None:
        """Blocks until every call has returned, at most ``seconds``."""
        if self._left_apart:
            with self._progress:
                self._progress.wait_for(lambda: not self._left_apart, seconds)

    def relieve(self) -> None:
        """Puts one more thread to work where calls wait for one that is stuck, or for one that was busy elsewhere."""
        for lane in (self._together, self._apart):
            if lane.is_waited_in:
                self._enlist(lane)

    def wait_for_late(self) -> None:
        """Blocks until a call of an earlier step returns, for the budget at most, if nothing else is waited for here:
        as often as a step is computed in vain, the fill has had the budget once more."""
        if not self._awaited:
            return
        self._ledger.late_returned.clear()
        busy = sum(standing.is_busy for standing in self._awaited.values())
        if busy and busy == len(self.constraints):
            self._ledger.late_returned.wait(self.budget_s)

    def end(self, after: Callable[[], None] | None = None) -> None:
        """Gives the buffer back; see `MaskLease.end`."""
        if self._filled is None:  # whoever began it was interrupted, and calls may be running
            self.settle()
        self._lease.end(after)

    def settle(self) -> Filled:
        """Sorts out what is over and what is late, without waiting. What is running keeps all that it has."""
        self._is_settled = True
        withdrawn, unbegun = self._together.clear(), self._apart.clear()
        over: list[Call] = []
        running: list[Call] = []
        for call in (*self._together.calls, *self._apart.calls):
            (running if call.outcome is None else over).append(call)
        has_late = bool(withdrawn or unbegun or running or self._awaited)
        unused: list[int] = []
        if not has_late and all(call.is_plain and call.bitmask is self.bitmask for call in over):
            filled = Filled([Status.OK] * len(self.constraints), set(), {}, {})  # nearly every step
        else:
            filled = self._sort_out(over, running, unbegun)
            unused = [index for index, status in enumerate(filled.statuses) if status is not Status.OK]
        if self._places is not None:
            self._places.close(unused)
        self._note_filled(filled)
        self._ledger.misses += len(filled.missed)
        self._filled = filled
        return filled

    def _sort_out(self, over: Sequence[Call], running: Sequence[Call], unbegun: Sequence[Call]) -> Filled:
        filled = Filled([Status.LATE] * len(self.constraints), set(), {}, {})
        if running:
            self._leave_to(running, filled)
        # All threads for what is filled apart are in use, and may be for ever: that is to end, too.
        for call in unbegun:
            standings = self._ledger.note_unbegun(call, self._began, self.budget_s)
            filled.missed.update(
                index
                for index, standing in zip(call.indices, standings, strict=True)
                if standing.note_wait(self.budget_s)
            )
        for call in over:
            self._take(call, filled)
        for index, standing in self._awaited.items():
            self._take_late(index, standing, filled)
        if Status.LATE in filled.statuses:
            self.bitmask[[index for index, status in enumerate(filled.statuses) if status is Status.LATE]] = -1
        return filled

    def _leave_to(self, running: Sequence[Call], filled: Filled) -> None:
        for call in running:
            for index, standing in zip(call.indices, self._ledger.note_late(call, self.budget_s), strict=True):
                self._note_wait(index, standing, filled)
        if any(call.bitmask is self.bitmask for call in running):
            self._lease.renew()

    def _take(self, call: Call, filled: Filled) -> None:
        """Uses what a call of this step came to."""
        outcome, indices = call.outcome, call.indices
        assert outcome is not None, "it has returned"
        if isinstance(outcome, BaseException):
            return self._fail(indices, outcome, filled)
        for index, status in zip(indices, outcome.tolist(), strict=True):
            filled.statuses[index] = _STATUSES[status]
            if status == Status.LATE:  # by the matcher's own account
                filled.missed.add(index)
        if call.bitmask is not self.bitmask:
            self.bitmask[indices] = call.bitmask[call.rows]
        if call.restarts:
            filled.replaced.update(zip(indices, call.filled, strict=True))
        return None

    def _take_late(self, index: int, standing: Standing, filled: Filled) -> None:
        """Uses the row of a call of an earlier step, if that is over now."""
        call = standing.call
        if call is None or call.outcome is None or not standing.has_row:
            return self._note_wait(index, standing, filled)
        if isinstance(call.outcome, BaseException):
            return self._fail([index], call.outcome, filled)
        at = call.position(standing.constraint)
        filled.statuses[index] = _STATUSES[call.outcome[at]]
        self.bitmask[index] = call.bitmask[call.rows[at]]
        if self._places is not None and filled.statuses[index] is Status.OK:
            self._places.place(self.bitmask, [index], [index])
        if call.restarts:
            filled.replaced[index] = call.filled[at]
        return None

    def _note_wait(self, index: int, standing: Standing, filled: Filled) -> None:
        """A row is late. That is held against its constraint if it was filled alone and had the budget once more."""
        if standing.note_wait(self.budget_s) and standing.call is not None and not standing.call.is_batch:
            filled.missed.add(index)

    def _fail(self, indices: Sequence[int], bug: BaseException, filled: Filled) -> None:
        for index in indices:
            filled.statuses[index], filled.bugs[index], self.bitmask[index] = Status.FAILED, bug, -1

    def _note_filled(self, filled: Filled) -> None:
        for index in self._known:
            if filled.statuses[index] is not Status.LATE:
                before = self.constraints[index]
                after = filled.replaced.get(index, before)
                self._ledger.note_filled(before, after, in_time=index not in self._awaited)


def wait(filling: Filling, others_go_on: bool = False) -> Filled:
    """Waits for a step's rows, as long as the budget at most, and says what became of each.

    What is filled apart is waited for only while nobody can go on without it, and for a little of the budget beyond
    that: it takes long by nature, and each step would.

    Args:
        filling: what `Filler.begin` began.
        others_go_on: whether the step has sequences without a constraint, too. A step that has not waits even if all
            its rows are late from earlier steps; any other waits only for what began in it.
    """
    due = time.monotonic() + filling.budget_s
    for _ in range(_SLICES):
        if filling.can_go_on_within(filling.budget_s / _SLICES, others_go_on):
            filling.wait_for_rest(min(_GRACE * filling.budget_s, due - time.monotonic()))
            break
        filling.relieve()
    if not others_go_on:
        filling.wait_for_late()
    return filling.settle()
