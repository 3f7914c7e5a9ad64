"""The leader: what all ranks do, from what each of them reports. A step costs what is reported in it."""

import heapq
import itertools
import time
from collections.abc import Callable, Iterable, Sequence

import attrs

from engine_adapter.outcome import too_slow
from engine_adapter.ranks.messages import Agreed, Failures, Report
from structout.errors import ErrorKind, GrammarError


@attrs.define(eq=False)
class _Request:
    """A request that has not ended.

    Attributes:
        ticket: its place in the order of arrival.
        ready: the ranks that have all for it; None once all have.
        misses: how often in a row its own row has missed the budget, on whichever ranks.
    """

    id: str
    ticket: int
    seconds: float
    ready: set[int] | None = attrs.field(factory=set)
    misses: int = 0


class Leader:
    """Decides for all ranks. Belongs to the engine's thread of rank 0.

    A request is ready when all ranks have it. It fails with the first rank that does, of several in one step the
    lowest. It times out when its deadline passes before it is ready, and when its row missed the budget too often.

    Args:
        ranks: how many there are.
        max_misses: in how many steps in a row a request's own row may miss the budget on some rank; in one more, and
            the request ends.
        clock: seconds that only grow; for tests.
    """

    def __init__(self, ranks: int, *, max_misses: int = 8, clock: Callable[[], float] = time.monotonic) -> None:
        self._ranks = ranks
        self._max_misses = max_misses
        self._clock = clock
        self._tickets = itertools.count()
        self._requests: dict[str, _Request] = {}
        self._deadlines: list[tuple[float, int, _Request]] = []
        self._missing: dict[str, _Request] = {}

    def take(self, request_id: str, deadline_s: float) -> None:
        request = self._requests[request_id] = _Request(request_id, next(self._tickets), deadline_s)
        heapq.heappush(self._deadlines, (self._clock() + deadline_s, request.ticket, request))

    def forget(self, request_id: str) -> None:
        self._requests.pop(request_id, None)
        self._missing.pop(request_id, None)

    def decide(self, reports: Sequence[Report], in_time: Iterable[str]) -> Agreed:
        """What all ranks do in this step.

        Args:
            reports: by rank.
            in_time: ids of the requests whose rows this step has in time on the leader's rank.
        """
        ended: dict[str, GrammarError] = {}
        for report in reports:
            for request_id, error in report.failed:
                ended.setdefault(request_id, error)
        ready = self._new_ready(reports, ended)
        self._time_out(ended)
        late = dict.fromkeys(request_id for report in reports for request_id in report.late)
        self._count_misses(reports, [each for each in in_time if each not in late] if self._missing else [], ended)
        agreed = Agreed(
            self._by_arrival(ready - ended.keys()), self._ends(ended), tuple(each for each in late if each not in ended)
        )
        for request_id in ended:
            self.forget(request_id)
        return agreed

    def _new_ready(self, reports: Sequence[Report], ended: dict[str, GrammarError]) -> set[str]:
        """Takes down who has what; returns the requests that all have now."""
        complete = set()
        for rank, report in enumerate(reports):
            for request_id in report.ready:
                request = self._requests.get(request_id)
                if request is None:
                    ended.setdefault(request_id, _UNKNOWN)
                elif request.ready is not None:
                    request.ready.add(rank)
                    if len(request.ready) == self._ranks:
                        request.ready = None
                        complete.add(request_id)
        return complete

    def _time_out(self, ended: dict[str, GrammarError]) -> None:
        now = self._clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            request = heapq.heappop(self._deadlines)[2]
            if request.ready is not None and self._requests.get(request.id) is request:
                ended.setdefault(request.id, _timed_out(request.seconds))

    def _count_misses(self, reports: Sequence[Report], in_time: Iterable[str], ended: dict[str, GrammarError]) -> None:
        """Takes down who missed the budget, once a step, and who did not any more; who did it too often ends."""
        for request_id in in_time:
            if (request := self._missing.pop(request_id, None)) is not None:
                request.misses = 0
        for request_id in {request_id for report in reports for request_id in report.missed}:
            if (request := self._requests.get(request_id)) is not None:
                self._missing[request_id] = request
                request.misses += 1
                if request.misses > self._max_misses:
                    ended.setdefault(request_id, too_slow(request.misses))

    def _by_arrival(self, request_ids: Iterable[str]) -> tuple[str, ...]:
        def ticket(request_id: str) -> int:
            request = self._requests.get(request_id)
            return -1 if request is None else request.ticket

        return tuple(sorted(request_ids, key=ticket))

    def _ends(self, ended: dict[str, GrammarError]) -> Failures:
        return tuple((request_id, ended[request_id]) for request_id in self._by_arrival(ended))


_UNKNOWN = GrammarError(
    kind=ErrorKind.ENGINE_FAILURE, message="the engine's ranks do not agree on which requests there are"
)


def _timed_out(seconds: float) -> GrammarError:
    message = f"the grammar was not ready on all ranks within {seconds:g} s"
    return GrammarError(kind=ErrorKind.TIMED_OUT, message=message, hint="send it again, or make it simpler")
