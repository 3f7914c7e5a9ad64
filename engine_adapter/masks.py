"""Bitmask rows for a step: leased buffers, and filling many rows at once with a status for each.

The hot path of every engine: lease a buffer, `fill_rows`, copy it to the device, end the lease.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from structout.backend import Bitmask, Status
from structout.constraint import Constraint
from structout.errors import reraise_users_interrupt
from structout.grammar import BoundBackend

Statuses: TypeAlias = npt.NDArray[np.uint8]
"""A `Status` for each row, as uint8."""

_OF_ONE: Final[Sequence[Statuses]] = tuple(np.array([[status] for status in Status], np.uint8))
"""The statuses of one row, by its status: making an array costs more than many a fill."""


_ONE_OK: Final = _OF_ONE[Status.OK]


def are_ok(statuses: Statuses) -> bool:
    """Whether every row is OK."""
    # Beside a forward pass NumPy's ``any`` costs more than a fill.
    return statuses is _ONE_OK or not statuses.tobytes().strip(b"\0")


class MaskLease:
    """The right to write one buffer, until `end`.

    Attributes:
        bitmask: int32 [rows, width], C-contiguous. What it holds at first is undefined.
    """

    __slots__ = ("_buffers", "bitmask")

    def __init__(self, buffers: "MaskBuffers", bitmask: Bitmask) -> None:
        self._buffers = buffers
        self.bitmask = bitmask

    def end(self, after: Callable[[], None] | None = None) -> None:
        """Gives the buffer back.

        Args:
            after: blocks until nothing reads the buffer any more, such as ``event.synchronize`` of a CUDA event that
                was recorded behind the copy. Called before the buffer is leased again, and only if it has to be.
        """
        self._buffers._give_back(self.bitmask, after)

    def renew(self) -> None:
        """Goes on with a new buffer, and leaves the old one for good to a fill that does not end."""
        self.bitmask = self._buffers._new()


class MaskBuffers:
    """A ring of buffers, so that filling the next step never races with copying the last.

    Args:
        rows: rows of each buffer.
        width: int32 words in a row: ``Vocabulary.bitmask_width``.
        depth: how many buffers: one more than the steps in flight.
        allocate: makes the int32 array of a shape; for pinned memory.
    """

    def __init__(
        self,
        rows: int,
        width: int,
        *,
        depth: int = 2,
        allocate: Callable[[tuple[int, int]], Bitmask] = lambda shape: np.zeros(shape, np.int32),
    ) -> None:
        self.depth = depth
        self._new = partial(allocate, (rows, width))
        self._free: deque[tuple[Bitmask, Callable[[], None] | None]] = deque((self._new(), None) for _ in range(depth))

    def lease(self) -> MaskLease:
        """The buffer that was given back longest ago, once nothing reads it any more.

        Raises:
            RuntimeError: every buffer is leased: more steps are in flight than the ring was made for.
        """
        if not self._free:
            raise RuntimeError(f"all {self.depth} mask buffers are leased: more steps are in flight than depth - 1")
        bitmask, wait = self._free.popleft()
        if wait is not None:
            wait()
        return MaskLease(self, bitmask)

    def _give_back(self, bitmask: Bitmask, after: Callable[[], None] | None) -> None:
        for free, _ in self._free:
            if free is bitmask:
                raise RuntimeError("this lease has ended already")
        self._free.append((bitmask, after))


class RowPlaces(Protocol):
    """Where the rows of a step go once they are filled, such as `engine_adapter.sampling.mask_table.StepMasks`."""

    def place(self, bitmask: Bitmask, rows: Sequence[int], indices: Sequence[int]) -> None:
        """Takes rows of ``bitmask`` that are OK; ``indices`` are their places in the step. From any thread."""

    def close(self, unused: Sequence[int] = ()) -> None:
        """Takes nothing any more; what was placed of the rows ``unused`` is forgotten."""


def fill_rows(constraints: Sequence[Constraint], bitmask: Bitmask, rows: Sequence[int] | None = None) -> Statuses:
    """Fills a row for each constraint, natively in a batch where its backend can.

    Args:
        constraints: each at most once. With those of one backend next to each other, a backend sees its own rows only.
        bitmask: int32 [rows, ceil(padded vocabulary / 32)], C-contiguous and writable.
        rows: the row of each constraint; the first ``len(constraints)`` rows when not given.

    Returns:
        uint8 [len(constraints)], a `Status` each, with the meaning that it has in `Constraint.fill`. A row whose
        status is not OK is all ones. What a backend does wrong with one row fails that row alone.
    """
    rows = range(len(constraints)) if rows is None else rows
    if len(constraints) == 1:  # a batch of one costs twice as much
        return _OF_ONE[constraints[0].fill(bitmask[rows[0]])]
    statuses = np.zeros(len(constraints), np.uint8)
    for indices in batches(constraints):
        first = indices[0]
        if _joins_a_batch(constraints[first]):
            batch = [constraints[index] for index in indices]
            statuses[indices] = _fill_batch(batch, bitmask, [rows[index] for index in indices])
        else:
            statuses[first] = constraints[first].fill(bitmask[rows[first]])
    return statuses


def batches(constraints: Sequence[Constraint], indices: Sequence[int] | None = None) -> list[Sequence[int]]:
    """Which constraints, by index, one call fills: those of a backend that fills batches; any other alone.

    Args:
        constraints: each at most once.
        indices: of those to fill; all when not given.
    """
    indices = range(len(constraints)) if indices is None else indices
    if len(indices) == 1:
        return [indices]
    together: dict[BoundBackend, list[int]] = defaultdict(list)
    alone: list[list[int]] = []
    for index in indices:
        if _joins_a_batch(constraint := constraints[index]):
            together[constraint.grammar.backend].append(index)
        else:
            alone.append([index])
    # Batches first: a backend that writes rows that are not its own does the least harm there.
    return [*together.values(), *alone]


def _joins_a_batch(constraint: Constraint) -> bool:
    return constraint.grammar.backend.batch_filler is not None and constraint.idle_status() is None


def _fill_batch(constraints: Sequence[Constraint], bitmask: Bitmask, rows: Sequence[int]) -> list[Status]:
    """One native call; row by row if it fails, so that the row at fault is found."""
    backend = constraints[0].grammar.backend
    assert backend.batch_filler is not None, "only such backends get a batch"
    window, own_rows = _window(bitmask, rows)
    try:
        answers = list(backend.batch_filler.fill_batch([each.matcher for each in constraints], window, own_rows))
    except BaseException as exc:
        reraise_users_interrupt(exc)
        answers = []
    if len(answers) != len(constraints):
        return [constraint.fill(bitmask[row]) for constraint, row in zip(constraints, rows, strict=True)]
    return [
        _settle(constraint, answer, bitmask[row])
        for constraint, answer, row in zip(constraints, answers, rows, strict=True)
    ]


def _window(bitmask: Bitmask, rows: Sequence[int]) -> tuple[Bitmask, list[int]]:
    """What a backend is handed: its own rows alone where they lie next to each other, and never our own objects."""
    first, last = rows[0], rows[-1]
    if list(rows) == list(range(first, last + 1)):
        return bitmask[first : last + 1], list(range(len(rows)))
    return bitmask.view(), list(rows)


def _settle(constraint: Constraint, answer: object, row: npt.NDArray[np.int32]) -> Status:
    status = constraint.settle_fill(answer, row)
    if status is not Status.OK:
        row.fill(-1)
    return status


def accept_tokens(constraints: Sequence[Constraint], tokens: Sequence[int]) -> Statuses:
    """Moves each constraint on by its token. Returns uint8 [len(constraints)], a `Status` each."""
    return np.fromiter(
        (constraint.accept(token) for constraint, token in zip(constraints, tokens, strict=True)),
        np.uint8,
        len(constraints),
    )
