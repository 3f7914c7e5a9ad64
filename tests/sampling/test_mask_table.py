"""The table of recent masks: whatever it keeps, drops and sends, a step's rows are what was placed for them."""

import threading
from collections import OrderedDict

import attrs
import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine_adapter.sampling.mask_table import ENTRIES, MaskTable, StepMasks
from structout.backend import Bitmask

CPU = torch.device("cpu")
WIDTH = 3
POOL: Bitmask = np.random.default_rng(0).integers(-(2**31), 2**31, (8, WIDTH)).astype(np.int32)
MASKS = st.integers(0, len(POOL) - 1)


@attrs.define
class Step:
    """A step that has not ended.

    Attributes:
        expected: which mask was placed for each row.
        slots: the row map that the sampler has, once it was launched.
    """

    masks: StepMasks
    expected: dict[int, int] = attrs.field(factory=dict)
    slots: list[int] | None = None


class TableMachine(RuleBasedStateMachine):
    """Steps that overlap, fill their rows in parts, are given up before they are sent, and end in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[Step] = []
        self.ended: list[StepMasks] = []

    @initialize(rows=st.integers(1, 3), entries=st.integers(1, 6), depth=st.integers(1, 3))
    def start(self, rows: int, entries: int, depth: int) -> None:
        self.rows, self.depth = rows, depth
        self.table = MaskTable(rows, WIDTH, CPU, entries=entries, depth=depth)

    @precondition(lambda self: len(self.running) < self.depth)
    @rule()
    def begin(self) -> None:
        self.running.append(Step(self.table.begin()))

    @precondition(lambda self: len(self.running) < self.depth)
    @rule(masks=st.lists(MASKS, min_size=3, max_size=3))
    def a_step_passes_by(self, masks: list[int]) -> None:
        step = Step(self.table.begin(), dict(enumerate(masks[: self.rows])))
        step.masks.place(POOL, masks[: self.rows], range(self.rows))
        self.send(step, [*range(self.rows)])
        step.masks.end()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def place(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(self.running))
        if step.slots is None and (missing := sorted(set(range(self.rows)) - step.expected.keys())):
            indices = data.draw(st.lists(st.sampled_from(missing), unique=True))
            filled = [data.draw(MASKS) for _ in indices]
            bitmask = POOL.copy()
            step.masks.place(bitmask, filled, indices)
            bitmask[:] = 7  # it is the caller's again
            step.expected.update(zip(indices, filled, strict=True))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def close_without_some(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(self.running))
        if step.slots is None:
            unused = data.draw(st.lists(st.integers(0, self.rows - 1), unique=True))
            step.masks.close(unused)
            step.masks.place(POOL, [0], [0])
            step.expected = {index: mask for index, mask in step.expected.items() if index not in unused}
            self.send(step, [*range(self.rows), -1])

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def launch(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(self.running))
        self.send(step, data.draw(st.lists(st.integers(-1, self.rows - 1), min_size=1)))

    def send(self, step: Step, indices: list[int]) -> None:
        bitmask, row_map = step.masks.send(indices)
        for index, slot in zip(indices, row_map.tolist(), strict=True):
            if index in step.expected:
                assert (bitmask[slot].numpy() == POOL[step.expected[index]]).all()
            else:
                assert slot == -1
        step.slots = step.masks.send(range(self.rows))[1].tolist()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(self.running))
        self.running.remove(step)
        step.masks.end()
        self.ended.append(step.masks)

    @precondition(lambda self: self.ended)
    @rule(data=st.data(), mask=MASKS)
    def a_call_returns_late(self, data: st.DataObject, mask: int) -> None:
        data.draw(st.sampled_from(self.ended)).place(POOL, [mask], [0])

    @invariant()
    def what_a_launch_reads_stays(self) -> None:
        for step in self.running:
            for index, mask in step.expected.items() if step.slots else ():
                assert step.slots is not None
                assert (self.table.bitmask[step.slots[index]].numpy() == POOL[mask]).all()


TestTable = TableMachine.TestCase
TestTable.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


def one_step(table: MaskTable, masks: list[int]) -> int:
    """Has a step with these masks. Returns how many of them it sent."""
    before, step = table.bytes_sent, table.begin()
    step.place(POOL, masks, range(len(masks)))
    bitmask, row_map = step.send(range(len(masks)))
    assert (bitmask.cpu().numpy()[row_map] == POOL[masks]).all()
    step.end()
    sent = table.bytes_sent - before
    return (sent - 8 * table.rows) // (4 * WIDTH) if sent else 0


@given(st.integers(1, 4), st.integers(0, 6), st.lists(st.lists(MASKS, max_size=4)))
def test_what_was_asked_for_longest_ago_gives_way_and_nothing_else_is_sent_again(
    rows: int, entries: int, steps: list[list[int]]
) -> None:
    table = MaskTable(rows, WIDTH, CPU, entries=entries, depth=1)
    recent: OrderedDict[int, None] = OrderedDict()
    for step in steps:
        masks, sent = step[:rows], 0
        for at, mask in enumerate(masks):
            if mask not in recent:
                sent += 1
                if len(recent) == table.slots:
                    recent.pop(next(old for old in recent if old not in masks[:at]))
            recent[mask] = None
            recent.move_to_end(mask)
        assert one_step(table, masks) == sent


def test_a_repeat_costs_nothing_and_one_copy_takes_all_others() -> None:
    table = MaskTable(4, WIDTH, CPU)
    assert table.slots == ENTRIES
    assert one_step(table, [0, 1, 0, 2]) == 3
    assert one_step(table, [2, 2, 1, 0]) == 0
    assert table.bytes_sent < 4 * WIDTH * 3 + 8 * (4 + 1), "the masks, and where each of four rows belongs"
    assert one_step(table, [3]) == 1
    assert one_step(table, []) == 0


def test_steps_may_have_more_masks_at_once_than_are_to_be_kept() -> None:
    table = MaskTable(4, WIDTH, CPU, entries=1, depth=2)
    steps = [table.begin(), table.begin()]
    for at, step in enumerate(steps):
        step.place(POOL[4 * at :], range(4), range(4))
    maps = [step.send(range(4))[1] for step in steps]
    assert (table.bitmask.numpy()[np.concatenate(maps)] == POOL[:8]).all()


def test_what_a_launch_may_still_read_is_not_overwritten() -> None:
    table = MaskTable(1, WIDTH, CPU, entries=1, depth=2)
    assert one_step(table, [0]) == 1
    flying = table.begin()
    flying.place(POOL, [0], [0])
    bitmask, row_map = flying.send([0])
    for mask in range(1, len(POOL)):
        assert one_step(table, [mask]) == 1
        assert (bitmask[row_map[0]].numpy() == POOL[0]).all()
    flying.end()
    assert one_step(table, [0]) == 0


def test_a_mask_that_another_step_was_to_send_does_not_depend_on_it() -> None:
    table = MaskTable(1, WIDTH, CPU)
    given_up, step = table.begin(), table.begin()
    for each in (given_up, step):
        each.place(POOL, [5], [0])
    given_up.end()
    bitmask, row_map = step.send([0])
    assert (bitmask[row_map[0]].numpy() == POOL[5]).all()


def test_more_steps_than_there_is_room_for_are_refused() -> None:
    table = MaskTable(1, WIDTH, CPU, depth=1)
    step = table.begin()
    with pytest.raises(RuntimeError, match="1 steps"):
        table.begin()
    step.end()
    with pytest.raises(RuntimeError, match="ended already"):
        step.end()


@pytest.mark.cuda
def test_a_cuda_device_has_what_was_placed() -> None:
    table, draw = MaskTable(3, WIDTH, torch.device("cuda"), entries=1), np.random.default_rng(2)
    for _ in range(200):
        one_step(table, draw.integers(0, len(POOL), 3).tolist())


def test_threads_place_beside_each_other() -> None:
    rows, rounds = 8, 50
    table = MaskTable(rows, WIDTH, CPU, entries=1, depth=1)
    draw = np.random.default_rng(1)
    for _ in range(rounds):
        masks, step = draw.integers(0, len(POOL), rows).tolist(), table.begin()
        start = threading.Barrier(4)

        def work(part: int, masks: list[int] = masks, step: StepMasks = step, start: threading.Barrier = start) -> None:
            start.wait()
            step.place(POOL, masks[part::4], range(part, rows, 4))

        threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bitmask, row_map = step.send(range(rows))
        assert (bitmask.numpy()[row_map] == POOL[masks]).all()
        step.end()
