"""Filling under a budget as a state machine: fills are held and let go in any order, between any two moments of a step.

However that goes: a row that is OK is right; a row that is not is all ones; what a step reads does not change while it
reads; the table of recent masks says the same; and nobody touches a matcher while a call works on it, but the call.
"""

import threading

import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from engine_adapter.filling import Filler, wait
from engine_adapter.sampling.mask_table import MaskTable
from structout import Status
from structout.backend import Bitmask
from structout.constraint import Constraint
from tests.adapter.held import BatchBackend, Gate, gate, held_grammar, matcher
from tests.fakes import BYTES, TrieBackend, TrieMatcher, allowed

WIDTH = BYTES.bitmask_width
MOST = 6
GRAMMARS = st.lists(
    st.tuples(st.sampled_from((TrieBackend, BatchBackend)), st.sampled_from((False, False, True))),
    min_size=1,
    max_size=MOST,
)
CHOICES = st.integers(0, 999)
"""Of the tokens that are allowed, which."""


class FillingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.filler = Filler(MOST, WIDTH, budget_s=0.02, max_apart=2)
        self.table = MaskTable(MOST, WIDTH, torch.device("cpu"), entries=1)
        self.constraints: list[Constraint] = []
        self.gates: list[Gate] = []

    @initialize(kinds=GRAMMARS)
    def start(self, kinds: list[tuple[type[TrieBackend], bool]]) -> None:
        grammars = {kind: held_grammar(kind[0], is_risky=kind[1]) for kind in kinds}
        self.constraints = [grammars[kind].start(max_rollback=2).unwrap() for kind in kinds]

    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        self.gates.append(gate(data.draw(st.sampled_from(self.constraints))))
        self.gates[-1].hold()

    @precondition(lambda self: self.gates)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.gates)).release()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        # Whoever is late may be so by chance, so nothing that is drawn depends on it.
        indices = data.draw(st.lists(st.integers(0, len(self.constraints) - 1), unique=True))
        moves = [data.draw(st.none() | CHOICES, label="accept") for _ in indices]
        before = [self.constraints[index] for index in indices]
        places = self.table.begin()
        filling = self.filler.begin(before, places=places)
        self._release_one(data, "a fill returns while the step waits")
        filled = wait(filling)
        after = [filled.replaced.get(place, each) for place, each in enumerate(before)]
        assert [each.tokens for each in after] == [each.tokens for each in before]
        read = filling.bitmask.copy()
        masks, row_map = places.send(range(len(before)))
        sent = np.where(row_map[:, None] < 0, -1, masks.numpy()[row_map])
        assert (sent == read[: len(before)]).all(), "the sampler would see something else"
        self._release_one(data, "a fill returns while the step reads")
        for place, constraint in enumerate(after):
            self._check(constraint, filled.statuses[place], read[place : place + 1])
            if filled.statuses[place] is Status.OK and (choice := moves[place]) is not None:
                self._move(constraint, choice)
        assert (filling.bitmask == read).all(), "what the step reads has changed"
        assert (np.where(row_map[:, None] < 0, -1, masks.numpy()[row_map]) == sent).all()
        filling.end()
        places.end()
        for index, constraint in zip(indices, after, strict=True):
            self.constraints[index] = constraint
        assert all(not matcher(each).touches for each in before)

    def _release_one(self, data: st.DataObject, label: str) -> None:
        gates: list[Gate | None] = [None, *self.gates]
        if released := data.draw(st.sampled_from(gates), label=label):
            released.release()

    def _check(self, constraint: Constraint, status: Status, row: Bitmask) -> None:
        assert status in (Status.OK, Status.LATE, Status.TERMINATED)
        expected = np.full(WIDTH, -1, np.int32)
        if status is Status.OK:
            assert not self.filler.is_busy(constraint)
            assert TrieMatcher.fill(matcher(constraint), expected) is Status.OK
        assert (row[0] == expected).all()

    def _move(self, constraint: Constraint, choice: int) -> None:
        row = np.zeros(WIDTH, np.int32)
        TrieMatcher.fill(matcher(constraint), row)
        tokens = sorted(allowed(row, BYTES.padded_size))
        assert constraint.accept(tokens[choice % len(tokens)]) is Status.OK

    @rule(data=st.data(), choice=CHOICES, undoes=st.booleans())
    def a_bridge_moves_one_that_is_not_busy(self, data: st.DataObject, choice: int, undoes: bool) -> None:
        constraint = data.draw(st.sampled_from(self.constraints))
        if not self.filler.is_busy(constraint) and not constraint.is_terminated:
            self._move(constraint, choice)
            if undoes:
                assert constraint.rollback(1) is Status.OK

    def teardown(self) -> None:
        """Once nobody is held any more, everybody gets a row."""
        for each in self.gates:
            each.release()
        pause = threading.Event()
        for constraint in self.constraints:
            while self.filler.is_busy(constraint):
                pause.wait(0.001)
        statuses = {Status.LATE}
        while Status.LATE in statuses:
            filling = self.filler.begin(self.constraints)
            filling.budget_s = 60.0
            statuses = set(wait(filling).statuses)
            filling.end()
        assert statuses <= {Status.OK, Status.TERMINATED}
        self.filler.close()


TestFillingMachine = FillingMachine.TestCase
TestFillingMachine.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
