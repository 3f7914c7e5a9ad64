"""The rows of one step while they are filled, and what has become of them when the step cannot wait any longer."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
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
_OK: Final = Status.OK
_SLICES: Final = 4
"""In how many parts the budget is waited for. Behind each of them a thread that is stuck is relieved."""
_GRACE: Final = 0.04
"""The share of the budget that a step which could go on waits for what is filled apart: 2 ms of 50."""


@attrs.define(eq=False)
class Filled:
    """What became of a step's rows.

    Attributes:
        statuses: of each row; one whose status is not OK is all ones.
        missed: the indices of the late rows that have had the budget once more, each in a call of its own. The others
            that are late are in a batch with one that is slow, or have begun only now.
        replaced: by index, the constraint to go on with in the stead of one that a call may keep for ever.
        bugs: by index, what was raised while the row was filled, which no backend can do; the status is FAILED.
        is_plain: whether every row is OK and nothing else is to be said, as in nearly every step.
    """

    statuses: list[Status]
    missed: set[int] = attrs.field(factory=set)
    replaced: dict[int, Constraint] = attrs.field(factory=dict)
    bugs: dict[int, BaseException] = attrs.field(factory=dict)
    is_plain: bool = False


class Crews:
    """The threads of a filler, and how they and the engine's thread meet.

    Attributes:
        together: for what is filled together.
        apart: for what is filled apart.
        lock: guards the lanes of every step; never held for long. A lock of its own for each step would cost more.
        progress: of ``lock``; notified when nothing is filled together in a step that waits.
    """

    __slots__ = ("apart", "lock", "progress", "together")

    def __init__(self, together: Crew, apart: Crew) -> None:
        self.together = together
        self.apart = apart
        self.lock = threading.Lock()
        self.progress = threading.Condition(self.lock)

    def close(self) -> None:
        """Ends the threads, each once its call has returned."""
        self.together.close()
        self.apart.close()


class _Lane:
    """Calls that wait for a thread of a crew: whoever has one takes the next, until there is none.

    Attributes:
        crew: whose threads.
        calls: in the order in which they begin.
        left: how many of them have not returned.
    """

    __slots__ = ("_begun", "calls", "crew", "left")

    def __init__(self, crew: Crew) -> None:
        self.crew = crew
        self.calls: list[Call] = []
        self.left = 0
        self._begun = 0

    def add(self, call: Call) -> None:
        self.calls.append(call)
        self.left += 1

    @property
    def is_waited_in(self) -> bool:
        return self._begun < len(self.calls)

    def take(self) -> Call | None:
        if self._begun == len(self.calls):
            return None
        self._begun += 1
        return self.calls[self._begun - 1]

    def clear(self) -> list[Call]:
        """Withdraws the calls that have not begun, and never do now."""
        withdrawn = self.calls[self._begun :]
        del self.calls[self._begun :]
        return withdrawn


class Filling:
    """One step's rows; made by `Filler.begin`. Then `wait`, read the rows, and `end`.

    Attributes:
        constraints: whose rows; constraint ``i`` has row ``i``.
        budget_s: how long `wait` waits, in seconds.
    """

    __slots__ = (
        "_apart",
        "_awaited",
        "_began",
        "_crews",
        "_fill",
        "_filled",
        "_is_settled",
        "_is_waited_for",
        "_known",
        "_lease",
        "_ledger",
        "_places",
        "_together",
        "budget_s",
        "constraints",
    )

    def __init__(
        self,
        constraints: Sequence[Constraint],
        known: Mapping[int, Standing],
        lease: MaskLease,
        ledger: Ledger,
        crews: Crews,
        fill: FillRows,
        budget_s: float,
        places: RowPlaces | None = None,
    ) -> None:
        self.constraints = constraints
        self._known = known
        self._lease = lease
        self._ledger = ledger
        self._crews = crews
        self._fill = fill
        self.budget_s = budget_s
        self._places = places
        self._together, self._apart = _Lane(crews.together), _Lane(crews.apart)
        self._awaited: dict[int, Standing] = {}
        self._began = 0.0
        self._is_waited_for = self._is_settled = False
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

    def start(self) -> None:
        """Puts threads to work on what was added."""
        if self._together.calls:
            self._enlist(self._together)
        if self._apart.calls:
            self._began = time.monotonic()
            for _ in self._apart.calls:
                self._enlist(self._apart)

    def _enlist(self, lane: _Lane) -> None:
        lane.crew.submit(partial(self._work, lane))

    def _work(self, lane: _Lane) -> None:
        lock = self._crews.lock
        with lock:
            call = lane.take()
        while call is not None:
            call.run(self._fill)
            with lock:
                lane.left -= 1
                if self._is_waited_for and not self._together.left:
                    self._crews.progress.notify_all()  # also past a waiter that an interrupt has left behind
                call = lane.take()
            if self._is_settled:
                self._ledger.late_returned.set()

    @property
    def is_over(self) -> bool:
        """Whether every call has returned, and none of an earlier step is awaited."""
        return not (self._together.left or self._apart.left or self._awaited)

    def can_go_on_within(self, seconds: float, others_go_on: bool) -> bool:
        """Blocks until nothing is filled together any more and there is a row, or ``others_go_on`` without one, at most
        ``seconds``. Returns whether it is so."""
        apart = self._apart
        others_go_on |= bool(self._together.calls) or any(late.has_row for late in self._awaited.values())
        return self._progresses_to(
            lambda: not self._together.left and (not apart.left or apart.left < len(apart.calls) or others_go_on),
            seconds,
        )

    def wait_for_rest(self, seconds: float) -> None:
        """Blocks until every call has returned, at most ``seconds``."""
        self._progresses_to(lambda: not self._apart.left, seconds)

    def _progresses_to(self, is_there: Callable[[], bool], seconds: float) -> bool:
        with self._crews.lock:
            self._is_waited_for = True
            return self._crews.progress.wait_for(is_there, seconds)

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
        unused: list[int] = []
        if self._is_plain():
            filled = Filled([_OK] * len(self.constraints), is_plain=True)
        else:
            filled = self._sort_out()
            unused = [index for index, status in enumerate(filled.statuses) if status is not Status.OK]
            self._ledger.misses += len(filled.missed)
        if self._places is not None:
            self._places.close(unused)
        if self._known:
            self._note_filled(filled)
        self._filled = filled
        return filled

    def _is_plain(self) -> bool:
        """Whether every row is OK and where it belongs, as in nearly every step."""
        return self.is_over and not self._apart.calls and all(call.is_plain for call in self._together.calls)

    def _sort_out(self) -> Filled:
        with self._crews.lock:
            self._together.clear()
            unbegun = self._apart.clear()
        over: list[Call] = []
        running: list[Call] = []
        for call in (*self._together.calls, *self._apart.calls):
            (running if call.outcome is None else over).append(call)
        filled = Filled([Status.LATE] * len(self.constraints))
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
    if not filling.is_over:  # in nearly every step the model takes longer
        due = time.monotonic() + filling.budget_s
        for _ in range(_SLICES):
            if filling.can_go_on_within(filling.budget_s / _SLICES, others_go_on):
                filling.wait_for_rest(min(_GRACE * filling.budget_s, due - time.monotonic()))
                break
            filling.relieve()
        if not others_go_on:
            filling.wait_for_late()
    return filling.settle()
