"""Draft tokens of speculative decoding, verified against a constraint without leaving a trace on it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from structout.backend import Bitmask, Status
from structout.constraint import Constraint
from structout.result import Err, Ok

T = TypeVar("T")


class Drafts(NamedTuple):
    """What became of a sequence's draft tokens.

    Attributes:
        accepted: length of the longest prefix of the drafts that the constraint takes.
        status: of row 0, the row whose token certainly counts.
        last: of row ``accepted``, the row of the token after the prefix: a taken draft may lead into a dead end.
    """

    accepted: int
    status: Status
    last: Status


def fill_drafts(constraint: Constraint, drafts: Sequence[int], rows: Bitmask) -> Drafts:
    """Fills the rows that verify a sequence's draft tokens, and leaves the constraint's state as it was.

    Args:
        constraint: the sequence.
        drafts: proposed next tokens; -1 is padding and ends them.
        rows: int32 [len(drafts) + 1, ceil(padded vocabulary / 32)]; row ``i`` is for the token after ``drafts[:i]``.

    Returns:
        How many drafts the constraint takes, and the statuses of the first and the last row that count. Rows behind
        the first draft that is not taken, and behind the end of the sequence, are all ones: their tokens are discarded.

    Works on a fork. Where the matcher has rollback but no fork, it works on the matcher and rolls it back.
    """
    rows.fill(-1)
    status = constraint.fill(rows[0])
    if status not in (Status.OK, Status.FREE) or not drafts:
        return Drafts(0, status, status)
    accepted, last = _on_trial(constraint, len(drafts), lambda trial: _fill_ahead(trial, drafts, rows))
    return Drafts(accepted, status, last or status)


def accepted_prefix(constraint: Constraint, drafts: Sequence[int]) -> int:
    """How many of the draft tokens the constraint takes, without filling rows; its state is as before."""
    if constraint.idle_status() not in (None, Status.FREE):
        return 0
    return _on_trial(constraint, len(drafts), lambda trial: _accept_ahead(trial, drafts))


def _on_trial(constraint: Constraint, tokens: int, trial: Callable[[Constraint], T]) -> T:
    """What ``trial``, which accepts up to ``tokens`` tokens, makes of a constraint that it leaves no trace on."""
    if constraint.rolls_back_cheaper(tokens):
        return constraint.try_and_undo(lambda: trial(constraint))
    match constraint.fork():
        case Ok(fork):
            return trial(fork)
        case Err(error):
            return trial(constraint.failed_copy(error))


def _fill_ahead(trial: Constraint, drafts: Sequence[int], rows: Bitmask) -> tuple[int, Status | None]:
    """The accepted prefix, and the status of the row behind it; None for that of row 0."""
    status = None
    for accepted, token in enumerate(drafts):
        if token < 0 or trial.accept(int(token)) is not Status.OK:
            return accepted, status
        status = trial.fill(rows[accepted + 1])
        if status not in (Status.OK, Status.FREE):
            return accepted + 1, status
    return len(drafts), status


def _accept_ahead(trial: Constraint, drafts: Sequence[int]) -> int:
    for accepted, token in enumerate(drafts):
        if token < 0 or trial.accept(int(token)) is not Status.OK:
            return accepted
    return len(drafts)
