"""A table of recent bitmask rows on the sampler's device: a step sends only those that are not there.

Most rows are masks that some row was a moment ago. Whoever fills a row looks it up right away, beside the forward pass,
and writes what the table lacks to pinned memory, one row behind the other. So there is little to do between the last
row and the launch: one copy, and the slots of the rows. The table is the sampler's bitmask, and the slots are its row
map::

    table = MaskTable(rows, width, device)
    step = table.begin()
    step.place(bitmask, rows, indices)  # by the threads that fill, whenever rows are ready
    ...
    sample(logits, params, *step.send(indices))
    step.end()
"""

import threading
from collections import deque
from collections.abc import Sequence
from functools import cache
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
    """What is sent of a stage with some masks in it.

    Attributes:
        here: int32 [words], on the host.
        there: the same on the device; ``here`` itself if that is the host.
        slots: int64 [masks], the slots in ``there``.
        masks: int32 [masks, width], the masks in ``there``.
        size: of ``here``, in bytes.
    """

    here: torch.Tensor
    there: torch.Tensor
    slots: torch.Tensor
    masks: torch.Tensor
    size: int

    def deliver(self, bitmask: torch.Tensor) -> int:
        """Has the masks written to their slots of ``bitmask``, which nobody waits for. Returns how much was sent."""
        if self.there is not self.here:
            self.there.copy_(self.here, non_blocking=True)
        bitmask.index_copy_(0, self.slots, self.masks)
        return self.size


class _Stage:
    """Where a step collects what is to be sent: slots in front, masks behind, so that one copy takes both.

    Attributes:
        slots: int64 [rows], on the host.
        masks: int32 [rows, width], on the host.
        in_use: the slots that the step reads, or may read still: what is in them stays.
        parcel: what to send if so many masks are in it.
    """

    def __init__(self, rows: int, width: int, device: torch.device) -> None:
        self._front, self._width = _SLOT_WORDS * rows, width
        words = self._front + rows * width
        self._here = torch.zeros(words, dtype=torch.int32, pin_memory=device.type == "cuda")
        self._there = self._here if device.type == "cpu" else torch.zeros(words, dtype=torch.int32, device=device)
        self._over = None if device.type == "cpu" else torch.Event(device)
        self.slots: npt.NDArray[np.int64] = self._here[: self._front].view(torch.int64).numpy()
        self.masks: Bitmask = self._here[self._front :].view(rows, width).numpy()
        self.in_use: set[int] = set()
        self.parcel = cache(self._parcel)

    def _parcel(self, masks: int) -> _Parcel:
        words = self._front + masks * self._width
        here = self._here[:words]
        there = here if self._there is self._here else self._there[:words]
        return _Parcel(
            here=here,
            there=there,
            slots=there[: _SLOT_WORDS * masks].view(torch.int64),
            masks=there[self._front :].view(masks, self._width),
            size=here.nbytes,
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
        self._slots = np.full(rows + 1, -1, np.int64)  # the last is that of row -1
        self._staged: set[int] = set()
        self._is_closed = False

    def place(self, bitmask: Bitmask, rows: Sequence[int], indices: Sequence[int]) -> None:
        """Gives rows that are filled their slots. From any thread; once the step is closed, nothing happens.

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
                self._slots[index] = slot
                if slot not in self._staged and not self._table._recent.is_written(slot):
                    self._put(slot, words)

    def _put(self, slot: int, words: BitmaskRow) -> None:
        place = len(self._staged)
        self._stage.slots[place], self._stage.masks[place] = slot, words
        self._staged.add(slot)

    def close(self, unused: npt.NDArray[np.int64] | None = None) -> None:
        """Nothing is placed any more; what was placed of the rows ``unused`` is forgotten."""
        with self._table._lock:
            self._is_closed = True
        if unused is not None:
            self._slots[unused] = -1

    def send(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> tuple[torch.Tensor, npt.NDArray[np.int64]]:
        """Closes the step and sends what the table lacks; nobody waits for it.

        Args:
            indices: for each row of logits, the place of its bitmask row in the step, or -1 if it has none.

        Returns:
            The sampler's bitmask and row map, on the device and on the host. A row that was not placed has -1.
        """
        self.close()
        if self._staged:
            self._table._deliver(self._stage.parcel(len(self._staged)), self._staged)
            self._staged.clear()
        return self._table.bitmask, self._slots[indices]

    def end(self) -> None:
        """The launch that reads the rows is on its way, or there will be none."""
        self.close()
        self._table._take_back(self._stage)


class MaskTable:
    """Belongs to one sampler: what is sent, and the launches that read it, have to be in one stream of the device.

    Args:
        rows: most rows of a step, those of drafts included.
        width: int32 words in a row: ``Vocabulary.bitmask_width``.
        device: the sampler's.
        entries: how many masks are kept, unless steps may have more of them at once: then as many.
        depth: most steps at once: one more than those in flight.

    Attributes:
        bitmask: int32 [slots, width], on the device.
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
        slots = max(entries, depth * rows)
        self.bitmask = torch.zeros(slots, width, dtype=torch.int32, device=device)
        self.bytes_sent = 0
        self._rows = rows
        self._stages = [_Stage(rows, width, device) for _ in range(depth)]
        self._idle = deque(self._stages)
        self._lock = threading.Lock()  # guards what steps have in use or staged, and:
        self._recent = RecentMasks(slots)

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
        return StepMasks(self, self._idle.popleft(), self._rows)

    def _take_back(self, stage: _Stage) -> None:
        if stage in self._idle:
            raise RuntimeError("this step has ended already")
        stage.note_end()
        self._idle.append(stage)

    def _find(self, mask: bytes) -> int:
        return self._recent.find(mask, lambda slot: any(slot in stage.in_use for stage in self._stages))

    def _deliver(self, parcel: _Parcel, slots: set[int]) -> None:
        self.bytes_sent += parcel.deliver(self.bitmask)
        with self._lock:
            self._recent.note_written(slots)
