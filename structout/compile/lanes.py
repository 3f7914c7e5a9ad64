"""Who is served next: by turns between tenants, and nobody who asks for little behind those who ask for much."""

import enum
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from itertools import cycle
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SHARE: Final = 4
"""A tenant may take one in `SHARE` places of a lane, and one at least."""


class Lane(enum.Enum):
    """By estimated cost. QUICK: measured, and compiled in this process at once if it is plain. LONG: the same, but
    measured in another process. MODERATE and HEAVY: tried in the sandbox first; what is far over the bounds of plain
    specs is HEAVY."""

    QUICK = "quick"
    LONG = "long"
    MODERATE = "moderate"
    HEAVY = "heavy"


def sandbox_lanes(workers: int) -> Iterator[Iterator[Sequence[Lane]]]:
    """For each thread that has a worker of the sandbox: from which lanes it takes its jobs, one turn after the other.

    The first is reserved for MODERATE, so that HEAVY jobs never have all workers; unless it is the only one. The
    others begin with either lane by turns, so that neither starves the other.
    """
    both = (Lane.MODERATE, Lane.HEAVY)
    for number in range(workers):
        yield cycle([both[:1]]) if number == 0 and workers > 1 else cycle([both, both[::-1]])


class FairQueue(Generic[K]):
    """A bounded queue: first in, first out for each tenant, and by turns between them.

    A key takes a place from `put` until `done`, or until it is removed. The tenant "" may take every place. What
    belongs to no tenant (None) has its turn as well, but needs no place. Not safe to use from several threads.

    Args:
        places: how many keys may wait or be at work.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._waiting: OrderedDict[str | None, OrderedDict[K, None]] = OrderedDict()
        self._taken: Counter[str] = Counter()
        self._total = 0

    def __len__(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    def has_room(self, tenant: str | None) -> bool:
        """Whether one more of this tenant may come in."""
        if tenant is None:
            return True
        share = max(1, self._places // SHARE) if tenant else self._places
        return self._total < self._places and self._taken[tenant] < share

    def put(self, tenant: str | None, key: K) -> None:
        """Adds a key that is not in the queue; ask `has_room` first."""
        self._waiting.setdefault(tenant, OrderedDict())[key] = None
        if tenant is not None:
            self._taken[tenant] += 1
            self._total += 1

    def pop(self) -> K | None:
        """The next key, which keeps its place; None if there is none."""
        if not self._waiting:
            return None
        tenant, keys = self._waiting.popitem(last=False)
        key, _ = keys.popitem(last=False)
        if keys:
            self._waiting[tenant] = keys
        return key

    def done(self, tenant: str | None) -> None:
        """Gives back the place of a key that was popped."""
        if tenant is not None:
            self._total -= 1
            self._taken[tenant] -= 1
            if not self._taken[tenant]:
                del self._taken[tenant]

    def remove(self, tenant: str | None, key: K) -> bool:
        """Takes a key out that waits, wherever it stands. Returns whether it did wait."""
        keys = self._waiting.get(tenant)
        if keys is None or key not in keys:
            return False
        del keys[key]
        if not keys:
            del self._waiting[tenant]
        self.done(tenant)
        return True
