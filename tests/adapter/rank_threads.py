"""Ranks that are threads of one process."""

import threading
from collections.abc import Callable
from typing import TypeVar

import attrs

T = TypeVar("T")

PATIENCE_S = 120.0
"""Far above what any rank takes: a rank that never comes is an error, not a hang."""


@attrs.define(eq=False)
class Meeting:
    """What the ranks share: a place for each message, and one for the answer."""

    size: int
    barrier: threading.Barrier = attrs.field(init=False)
    messages: list[bytes] = attrs.field(init=False)
    answer: bytes | None = None

    def __attrs_post_init__(self) -> None:
        self.barrier = threading.Barrier(self.size, timeout=PATIENCE_S)
        self.messages = [b""] * self.size


@attrs.frozen(eq=False)
class ThreadTransport:
    """See `engine_adapter.ranks.Transport`. Nobody passes the second barrier before the leader has read, or the first
    of the next step before all have heard the answer."""

    meeting: Meeting
    rank: int

    @property
    def size(self) -> int:
        return self.meeting.size

    def gather(self, message: bytes) -> list[bytes] | None:
        self.meeting.messages[self.rank] = message
        self.meeting.barrier.wait()
        return list(self.meeting.messages) if self.rank == 0 else None

    def broadcast(self, message: bytes | None) -> bytes:
        if self.rank == 0:
            self.meeting.answer = message
        self.meeting.barrier.wait()
        assert self.meeting.answer is not None
        return self.meeting.answer


def on_all_ranks(size: int, body: Callable[[ThreadTransport], T]) -> list[T]:
    """Runs ``body`` on a thread for each rank; what it returned, by rank. What a rank raises ends them all."""
    meeting = Meeting(size)
    results: dict[int, T] = {}
    raised: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = body(ThreadTransport(meeting, rank))
        except BaseException as exc:
            raised.append(exc)
            meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,), name=f"rank-{rank}") for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
    return [results[rank] for rank in range(size)]
