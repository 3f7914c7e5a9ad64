"""Which masks a table holds, and where: the one that was asked for longest ago gives way to a new one."""

from collections import OrderedDict
from collections.abc import Callable, Iterable


class RecentMasks:
    """The slots of a table, by the words that are in them. Not thread-safe.

    Args:
        slots: how many there are.
    """

    def __init__(self, slots: int) -> None:
        self._slots: OrderedDict[bytes, int] = OrderedDict()  # what was asked for last is last
        self._free = list(range(slots - 1, -1, -1))
        self._written: set[int] = set()

    def find(self, mask: bytes, is_in_use: Callable[[int], bool]) -> int:
        """The slot of a mask; if it had none, it has one now.

        Args:
            mask: its words.
            is_in_use: whether what is in a slot has to stay; of one slot at least it has to be False.
        """
        slot = self._slots.get(mask)
        if slot is None:
            slot = self._slots[mask] = self._free.pop() if self._free else self._vacated(is_in_use)
        else:
            self._slots.move_to_end(mask)
        return slot

    def _vacated(self, is_in_use: Callable[[int], bool]) -> int:
        mask, slot = next(item for item in self._slots.items() if not is_in_use(item[1]))
        del self._slots[mask]
        self._written.discard(slot)
        return slot

    def is_written(self, slot: int) -> bool:
        """Whether the table has the mask that the slot was given to."""
        return slot in self._written

    def note_written(self, slots: Iterable[int]) -> None:
        self._written.update(slots)
