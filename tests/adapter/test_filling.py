"""Filling under a budget: who is late sits the step out, and nobody else notices."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from engine_adapter.filling import Filled, Filler, Filling, wait
from engine_adapter.masks import Statuses, fill_rows
from structout import Status
from structout.backend import Bitmask
from structout.constraint import AtOffset, Constraint
from tests.adapter.held import BatchBackend, gate, held_grammar, matcher, started
from tests.fakes import BYTES, TrieMatcher

WIDTH = BYTES.bitmask_width
OK, LATE = Status.OK, Status.LATE
FOREVER_S = 3600.0
"""A budget that no test waits for: it is there where nobody may have to be waited for."""

MakeFiller = Callable[..., Filler]


@pytest.fixture
def make_filler() -> Iterator[MakeFiller]:
    made: list[Filler] = []

    def make(budget_s: float = 0.5, max_apart: int = 4) -> Filler:
        made.append(Filler(8, WIDTH, budget_s=budget_s, max_apart=max_apart))
        return made[-1]

    yield make
    for filler in made:
        filler.close()


@pytest.fixture
def held() -> Iterator[Callable[[Constraint], None]]:
    """Holds a constraint's fills until the test is over, or releases them."""
    gates = []

    def hold(constraint: Constraint) -> None:
        gates.append(gate(constraint))
        gates[-1].hold()

    yield hold
    for each in gates:
        each.release()


def step(filler: Filler, constraints: Sequence[Constraint], *, budget_s: float | None = None) -> Filled:
    """One step; its rows are checked against what they have to be."""
    filling = filler.begin(constraints)
    filling.budget_s = filling.budget_s if budget_s is None else budget_s
    filled = wait(filling)
    check_rows(filling, filled)
    filling.end()
    return filled


def check_rows(filling: Filling, filled: Filled) -> None:
    for index, constraint in enumerate(filling.constraints):
        expected = np.full(WIDTH, -1, np.int32)
        if filled.statuses[index] is OK:
            TrieMatcher.fill(matcher(constraint), expected)
        assert (filling.bitmask[index] == expected).all()


def until_idle(filler: Filler, constraint: Constraint) -> None:
    """Blocks until no late call has the constraint any more."""
    pause = threading.Event()
    while filler.is_busy(constraint):
        pause.wait(0.001)


def test_rows_in_time_are_what_fill_rows_gives(make_filler: MakeFiller) -> None:
    filler = make_filler(FOREVER_S)
    batched, alone = started(held_grammar(BatchBackend), 3), started(held_grammar(), 3)
    free = held_grammar().start(activation=AtOffset(3)).unwrap()
    ended = held_grammar().start().unwrap()
    for token in (98, 256):
        assert ended.accept(token) is OK
    constraints = [batched[0], alone[0], free, batched[1], ended, *alone[1:], batched[2]]
    filling = filler.begin(constraints)
    filled = wait(filling)
    expected = np.zeros((8, WIDTH), np.int32)
    assert filled.statuses == fill_rows(constraints, expected).tolist()
    assert (filling.bitmask == expected).all()
    assert not filled.replaced
    assert not filled.bugs
    filling.end()


def test_a_step_without_constraints_waits_for_nothing(make_filler: MakeFiller) -> None:
    assert step(make_filler(FOREVER_S), []).statuses == []


@pytest.mark.parametrize("is_risky", [False, True])
def test_one_that_is_held_is_late_and_nobody_else(
    make_filler: MakeFiller, held: Callable[[Constraint], None], is_risky: bool
) -> None:
    filler = make_filler()
    constraints = [*started(held_grammar(), 2), held_grammar(is_risky=is_risky).start().unwrap()]
    constraints[1:1] = [constraints.pop()]
    held(constraints[1])
    assert step(filler, constraints).statuses == [OK, LATE, OK]
    assert filler.is_busy(constraints[1])
    # Nothing in this step is worth waiting for.
    assert step(filler, constraints, budget_s=FOREVER_S).statuses == [OK, LATE, OK]
    gate(constraints[1]).release()
    until_idle(filler, constraints[1])
    assert step(filler, constraints, budget_s=FOREVER_S).statuses == [OK, OK, OK]
    assert [matcher(each).fills for each in constraints] == [3, 1, 3], "the late row is used, and not filled again"
    assert [matcher(each).touches for each in constraints] == [[], [], []]


@pytest.mark.parametrize(
    ("plain", "risky", "others_go_on"), [(1, 1, False), (0, 2, False), (0, 1, True), (1, 3, False)]
)
def test_who_is_slow_by_nature_is_not_waited_for_while_somebody_can_go_on(
    make_filler: MakeFiller, held: Callable[[Constraint], None], plain: int, risky: int, others_go_on: bool
) -> None:
    """Also where there is no thread for it. That the budget was not waited for shows in that nobody has missed it."""
    filler = make_filler(20.0, max_apart=2)
    constraints = [*started(held_grammar(), plain), *started(held_grammar(is_risky=True), risky)]
    slow = constraints[-1:] if plain + risky == 2 else constraints[plain:]
    for each in slow:
        held(each)
    filling = filler.begin(constraints)
    filled = wait(filling, others_go_on)
    assert filled.statuses == [LATE if each in slow else OK for each in constraints]
    assert filled.missed == set()
    filling.end()


def test_only_who_is_slow_by_itself_misses_the_budget(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler()
    alone, batch = started(held_grammar(), 1), started(held_grammar(BatchBackend), 2)
    constraints = [*batch, *alone]
    held(batch[0])
    held(alone[0])
    filled = step(filler, constraints)
    assert (filled.statuses, filled.missed) == ([LATE, LATE, LATE], {2}), "of a batch nobody knows who it is"
    assert filler.misses == 1
    while not (filled := step(filler, constraints)).replaced:
        assert filled.missed <= {2}
    assert filled.statuses == [OK, OK, LATE]


def test_a_budget_is_missed_once_for_each_time_that_it_passes(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler(0.01)
    constraints = started(held_grammar(), 2)
    held(constraints[0])
    assert step(filler, constraints).missed == {0}
    began, misses = time.monotonic(), 0
    while misses < 3:  # steps may take far less time
        misses += step(filler, constraints).missed == {0}
    assert time.monotonic() - began >= 2 * 0.01


def test_two_that_are_held_in_one_step_hold_up_nobody(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler()
    constraints = started(held_grammar(), 4)
    held(constraints[0])
    held(constraints[1])
    assert step(filler, constraints).statuses == [LATE, LATE, OK, OK]


def test_who_was_late_is_filled_apart_ever_after(make_filler: MakeFiller, held: Callable[[Constraint], None]) -> None:
    filler = make_filler(max_apart=1)
    constraints = started(held_grammar(), 3)
    for constraint in constraints[:2]:
        held(constraint)
    assert step(filler, constraints).statuses == [LATE, LATE, OK]
    for constraint in constraints[:2]:
        gate(constraint).release()
        until_idle(filler, constraint)
    assert step(filler, constraints).statuses == [OK, OK, OK]
    held(constraints[0])
    # One thread fills apart, and it is held: who waits behind it is late, and has not been begun.
    assert step(filler, constraints).statuses == [LATE, LATE, OK]
    assert [filler.is_busy(each) for each in constraints] == [True, False, False]


def test_a_step_of_late_rows_alone_waits_for_the_first_that_returns(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler()
    constraints = started(held_grammar(), 2)
    for constraint in constraints:
        held(constraint)
    assert step(filler, constraints).statuses == [LATE, LATE]
    filling = filler.begin(constraints)
    filling.budget_s = FOREVER_S
    releasing = threading.Timer(0.05, gate(constraints[1]).release)
    releasing.start()
    filled = wait(filling)
    assert filled.statuses == [LATE, OK]
    filling.end()
    filling = filler.begin(constraints[:1])
    filling.budget_s = FOREVER_S
    assert wait(filling, others_go_on=True).statuses == [LATE], "it holds up nobody who goes on"
    filling.end()
    releasing.join()


def test_a_row_is_not_used_for_a_state_that_it_was_not_filled_for(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler()
    [constraint] = started(held_grammar(), 1)
    held(constraint)
    assert step(filler, [constraint]).statuses == [LATE]
    gate(constraint).release()
    until_idle(filler, constraint)
    assert constraint.accept(97) is OK
    assert step(filler, [constraint], budget_s=FOREVER_S).statuses == [OK]
    assert matcher(constraint).fills == 2


def test_a_batch_that_was_late_shows_who_it_was(make_filler: MakeFiller, held: Callable[[Constraint], None]) -> None:
    filler = make_filler()
    constraints = started(held_grammar(BatchBackend), 3)
    held(constraints[1])
    assert step(filler, constraints).statuses == [LATE, LATE, LATE]
    gate(constraints[1]).release()
    until_idle(filler, constraints[1])
    assert step(filler, constraints, budget_s=FOREVER_S).statuses == [OK, OK, OK]
    held(constraints[1])
    assert step(filler, constraints).statuses == [OK, LATE, OK], "each alone"
    assert step(filler, constraints, budget_s=FOREVER_S).statuses == [OK, LATE, OK]


def test_a_batch_that_never_returns_costs_one_constraint(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler()
    constraints = started(held_grammar(BatchBackend), 3)
    for constraint in constraints:
        assert constraint.accept(97) is OK
    held(constraints[1])
    assert step(filler, constraints).statuses == [LATE, LATE, LATE]
    assert step(filler, constraints).statuses == [LATE, LATE, LATE]
    filled = step(filler, constraints)
    assert filled.statuses == [OK, OK, OK], "a fresh matcher of the same grammar is not held"
    copies = [filled.replaced[index] for index in range(3)]
    assert [copy.tokens for copy in copies] == [(97,), (97,), (97,)]
    assert not any(map(filler.is_busy, copies))
    for copy in copies:
        assert copy.accept(98) is OK
    assert step(filler, copies, budget_s=FOREVER_S).statuses == [OK, OK, OK]
    assert matcher(constraints[1]).touches == []


def test_a_late_fill_writes_no_buffer_that_anybody_reads(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler()
    constraints = started(held_grammar(), 2)
    held(constraints[0])
    filling = filler.begin(constraints)
    wait(filling)
    late = filling.bitmask.copy()
    gate(constraints[0]).release()
    until_idle(filler, constraints[0])
    assert (filling.bitmask == late).all()
    filling.end()


def test_a_step_that_is_given_up_leaves_its_buffer_to_who_writes_in_it(
    make_filler: MakeFiller, held: Callable[[Constraint], None]
) -> None:
    filler = make_filler()
    constraints = started(held_grammar(), 1)
    held(constraints[0])
    given_up = filler.begin(constraints)
    written = given_up.bitmask
    assert gate(constraints[0]).met.wait(60)
    given_up.end()
    assert filler.is_busy(constraints[0])
    for _ in range(3):
        filling = filler.begin([])
        assert filling.bitmask is not written
        wait(filling)
        filling.end()


class Bug(BaseException):
    pass


def test_a_bug_fails_the_rows_of_its_call(make_filler: MakeFiller) -> None:
    filler = make_filler(FOREVER_S)
    constraints = started(held_grammar(), 3)

    def fill(of: Sequence[Constraint], bitmask: Bitmask, rows: Sequence[int]) -> Statuses:
        if constraints[1] in of:
            raise Bug
        return fill_rows(of, bitmask, rows)

    filling = filler.begin(constraints, fill)
    filled = wait(filling)
    assert filled.statuses == [OK, Status.FAILED, OK]
    assert isinstance(filled.bugs[1], Bug)
    check_rows(filling, filled)
    filling.end()


def test_a_thread_that_cannot_be_started_leaves_the_filler_usable(
    make_filler: MakeFiller, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = make_filler(FOREVER_S)
    constraints = started(held_grammar(), 1)

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            with pytest.raises(RuntimeError, match="can't start"):
                filler.begin(constraints)
    assert step(filler, constraints).statuses == [OK]
