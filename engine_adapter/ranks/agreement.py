"""A rank's side of the agreement: what it reports, and what it hears."""

import time
from collections.abc import Callable, Sequence

from engine_adapter.ranks.leader import Leader
from engine_adapter.ranks.messages import Agreed, Report
from engine_adapter.ranks.transport import Transport
from structout.errors import GrammarError


class Agreement:
    """Belongs to the engine's thread of one rank; every rank has one.

    What all ranks have to do alike, as engines do that send each request to all ranks before the step: they `take` and
    `forget` the same requests between the same two exchanges, and fill for the same requests in the same step.

    Args:
        transport: to the other ranks.
        max_misses: in how many steps in a row a request's own row may miss the budget on some rank; in one more, and
            the request ends. The leader's counts.
        clock: seconds that only grow; the leader's counts. For tests.
    """

    def __init__(
        self, transport: Transport, *, max_misses: int = 8, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._transport = transport
        self._leader = Leader(transport.size, max_misses=max_misses, clock=clock) if transport.rank == 0 else None
        self._open: set[str] = set()
        self._ready: dict[str, None] = {}
        self._failed: dict[str, GrammarError] = {}

    def take(self, request_id: str, deadline_s: float) -> None:
        """A new request, which waits for its grammar.

        Args:
            request_id: of none that has not ended.
            deadline_s: seconds after which the leader ends it unless all ranks have it, for a rank that never does.

        Raises:
            ValueError: there is a request with this id already.
        """
        if request_id in self._open:
            raise ValueError(f"there is a request {request_id!r} already")
        self._open.add(request_id)
        if self._leader is not None:
            self._leader.take(request_id, deadline_s)

    def ready(self, request_id: str) -> None:
        """This rank has all that the request needs to run; it waits for the others to have it, too."""
        if request_id in self._open:
            self._ready[request_id] = None

    def failed(self, request_id: str, error: GrammarError) -> None:
        """The request cannot go on here, whether it waits or runs; so it ends everywhere. An abort is one of these.

        Does nothing for a request that has ended: another rank was first. The first error counts.
        """
        if request_id in self._open:
            self._failed.setdefault(request_id, error)

    def forget(self, request_id: str) -> None:
        """The request has ended without this: it is finished. Does nothing if it is not known."""
        self._open.discard(request_id)
        self._ready.pop(request_id, None)
        self._failed.pop(request_id, None)
        if self._leader is not None:
            self._leader.forget(request_id)

    def exchange(self, *, in_time: Sequence[str] = (), late: Sequence[str] = (), missed: Sequence[str] = ()) -> Agreed:
        """Tells the leader what this rank has come to, and returns what all ranks do. Blocks until all have called it:
        once a step, also when there is nothing to tell.

        Args:
            in_time: ids of the requests whose bitmask rows are there in this step.
            late: ids of those whose rows are not.
            missed: ids of those of them that are late by their own doing: `engine_adapter.filling.Filled.missed`.

        Returns:
            The same on every rank. Of its requests the ended ones are forgotten.
        """
        report = Report(tuple(self._ready), tuple(self._failed.items()), tuple(late), tuple(missed))
        reports = self._transport.gather(report.to_bytes())
        answer = None
        if self._leader is not None and reports is not None:
            answer = self._leader.decide([Report.from_bytes(each) for each in reports], in_time).to_bytes()
        agreed = Agreed.from_bytes(self._transport.broadcast(answer))
        self._ready.clear()
        for request_id, _ in agreed.ended:  # among them all that failed
            self.forget(request_id)
        return agreed
