"""A table of recent bitmask rows on the sampler's device: a step sends only those that are not there.

Most rows are masks that some row was a moment ago. Whoever fills a row looks it up right away, beside the forward pass,
and writes what the table lacks to pinned memory, one row behind the other. So there is little to do between the last
row and the launch: one copy, and a row map. The table is the sampler's bitmask::

    table = MaskTable(rows, width, device)
    step = table.begin()
    step.place(bitmask, rows, indices)  # by the threads that fill, whenever rows are ready
    ...
    sample(logits, params, *step.send(indices))
    step.end()

What was sent lies behind the table's slots, in a part of each step's own, where its launch reads it. Behind the launch
it is copied to the slots that it was given, for the steps to come.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import torch

from engine_adapter.sampling.recent_masks import RecentMasks
from structout.backend import Bitmask, BitmaskRow

ENTRIES: Final = 256
"""Masks that a table keeps if nobody says otherwise."""

_SLOT_WORDS: Final = 2  # int32 words of a slot's number: torch wants int64


@attrs.frozen(eq=False)
class _Parcel:
    """What is sent of a stage with so many masks in it.

    Attributes:
        here: int32 [words], on the host.
        there: the same on the device.
        slots: int64 [masks], in ``there``.
        masks: int32 [masks, width], in ``there``.
    """

    here: torch.Tensor
    there: torch.Tensor
    slots: torch.Tensor
    masks: torch.Tensor


class _Stage:
    """Where a step collects what it sends, and the rows of the device's bitmask where that arrives.

    The numbers of slots are in front of the masks, so that one copy takes both.

    Args:
        bitmask: int32 [at least first + rows, width], on the device.
        first: the row where the first mask arrives; those before it, as many as `front_rows` says, are not used.
        rows: most masks.

    Attributes:
        first: see above.
        slots: int64 [rows], on the host.
        masks: int32 [rows, width], on the host.
        in_use: the slots that the step reads, or may read still: what is in them stays.
    """

    def __init__(self, bitmask: torch.Tensor, first: int, rows: int) -> None:
        device, width = bitmask.device, bitmask.shape[1]
        self.first = first
        self._bitmask = bitmask
        self._end = first * width  # of what is in front, counted in words
        self._front = _SLOT_WORDS * rows + self._end % _SLOT_WORDS
        words = torch.zeros(self._front + rows * width, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._here = words
        self._over = None if device.type == "cpu" else torch.Event(device)
        self.slots: npt.NDArray[np.int64] = words[: _SLOT_WORDS * rows].view(torch.int64).numpy()
        self.masks: Bitmask = words[self._front :].view(rows, width).numpy()
        self.in_use: set[int] = set()
        # Made ahead: to make one takes longer than to send it.
        self._parcels = [self._parcel(masks) for masks in range(rows + 1)]

    @staticmethod
    def front_rows(rows: int, width: int) -> int:
        """How many rows of a bitmask the slots take."""
        return -(-(_SLOT_WORDS * rows + 1) // width)

    def parcel(self, masks: int) -> _Parcel:
        """What to send if so many masks are in it."""
        return self._parcels[masks]

    def _parcel(self, masks: int) -> _Parcel:
        here = self._here[: self._front + masks * self._bitmask.shape[1]]
        there = self._bitmask.view(-1)[self._end - self._front :][: len(here)]
        return _Parcel(
            here=here,
            there=there,
            slots=there[: _SLOT_WORDS * masks].view(torch.int64),
            masks=self._bitmask[self.first : self.first + masks],
        )

    def note_end(self) -> None:
        """Whatever reads the stage, or the slots in use, is on its way to the device now."""
        if self._over is not None:
            self._over.record()

    def wait(self) -> None:
        """Blocks until it has read them."""
        if self._over is not None:
            self._over.synchronize()


class StepMasks:
    """The rows of one step; made by `MaskTable.begin`. Then `send`, launch the sampler, and `end`."""

    def __init__(self, table: "MaskTable", stage: _Stage, rows: int) -> None:
        self._table = table
        self._stage = stage
        self._row_map = np.full(rows + 1, -1, np.int64)  # the last is that of row -1
        self._staged: dict[int, int] = {}  # where what is new for a slot arrives
        self._parcel: _Parcel | None = None
        self._is_closed = self._has_ended = False

    def place(self, bitmask: Bitmask, rows: Sequence[int], indices: Sequence[int]) -> None:
        """Looks up rows that are filled. From any thread; once the step is closed, nothing happens.

        Args:
            bitmask: int32 [any number of rows, width]; not read any more when this has returned.
            rows: which of its rows.
            indices: the place of each in the step, below the number of rows that the table was made for, and each
                at most once.
        """
        for row, index in zip(rows, indices, strict=True):
            words = bitmask[row]
            mask = words.tobytes()
            hash(mask)  # bytes remember theirs: it takes longer than all that is done under the lock
            with self._table._lock:
                if self._is_closed:
                    return
                slot = self._table._find(mask)
                self._stage.in_use.add(slot)
                self._row_map[index] = slot if self._table._recent.is_written(slot) else self._staged_at(slot, words)

    def _staged_at(self, slot: int, words: BitmaskRow) -> int:
        """Where a mask arrives that its slot has not yet."""
        if (at := self._staged.get(slot)) is None:
            place = len(self._staged)
            self._stage.slots[place], self._stage.masks[place] = slot, words
            at = self._staged[slot] = self._stage.first + place
        return at

    def close(self, unused: Sequence[int] = ()) -> None:
        """Nothing is placed any more; what was placed of the rows ``unused`` is forgotten."""
        with self._table._lock:
            self._is_closed = True
        if unused:
            self._row_map[unused] = -1

    def send(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> tuple[torch.Tensor, npt.NDArray[np.int64]]:
        """Closes the step and sends what the table lacks; nobody waits for it.

        Args:
            indices: for each row of logits, the place of its bitmask row in the step, or -1 if it has none.

        Returns:
            The sampler's bitmask and row map, on the device and on the host. A row that was not placed has -1.
        """
        if not self._is_closed:
            self.close()
        if self._staged and self._parcel is None:
            self._parcel = self._stage.parcel(len(self._staged))
            self._parcel.there.copy_(self._parcel.here, non_blocking=True)
            self._table.bytes_sent += 4 * len(self._parcel.here)
        return self._table.bitmask, self._row_map[indices]

    def end(self) -> None:
        """The launch that reads the rows is on its way, or there will be none. What was sent goes to its slots."""
        if self._has_ended:
            raise RuntimeError("this step has ended already")
        self._has_ended = True
        self.close()
        self._table._take_back(self._stage, self._parcel, self._staged)


class MaskTable:
    """Belongs to one sampler: what is sent, and the launches that read it, have to be in one stream of the device.

    Args:
        rows: most rows of a step, those of drafts included.
        width: int32 words in a row: ``Vocabulary.bitmask_width``.
        device: the sampler's.
        entries: how many masks are kept, unless steps may have more of them at once: then as many.
        depth: most steps at once: one more than those in flight.

    Attributes:
        bitmask: int32 [rows of masks, width], on the device.
        rows: most rows of a step.
        slots: how many masks are kept.
        bytes_sent: how much was sent so far.
    """

    def __init__(
        self,
        rows: int,
        width: int,
        device: torch.device,
        *,
        entries: int = ENTRIES,
        depth: int = 2,
    ) -> None:
        # A step can always place all of its rows: what the others hold leaves room for them.
        self.slots = max(entries, depth * rows)
        part = _Stage.front_rows(rows, width) + rows
        self.bitmask = torch.zeros(self.slots + depth * part, width, dtype=torch.int32, device=device)
        self.bytes_sent = 0
        self._kept = self.bitmask[: self.slots]
        self.rows = rows
        firsts = range(self.slots + part - rows, len(self.bitmask), part)
        self._stages = [_Stage(self.bitmask, first, rows) for first in firsts]
        self._idle = deque(self._stages)
        self._lock = threading.Lock()  # guards what steps have in use or staged, and:
        self._recent = RecentMasks(self.slots)

    def begin(self) -> StepMasks:
        """One more step, once nothing reads any more what the step before it in its place had.

        Raises:
            RuntimeError: more steps are in flight than the table was made for.
        """
        if not self._idle:
            raise RuntimeError(f"the mask table has {len(self._stages)} steps: more are in flight than depth - 1")
        stage = self._idle[0]
        stage.wait()
        with self._lock:
            stage.in_use.clear()
        return StepMasks(self, self._idle.popleft(), self.rows)

    def _take_back(self, stage: _Stage, parcel: _Parcel | None, slots: Iterable[int]) -> None:
        try:
            if parcel is not None:
                self._kept.index_copy_(0, parcel.slots, parcel.masks)
                with self._lock:
                    self._recent.note_written(slots)
            stage.note_end()
        finally:
            self._idle.append(stage)

    def _find(self, mask: bytes) -> int:
        return self._recent.find(mask, lambda slot: any(slot in stage.in_use for stage in self._stages))
