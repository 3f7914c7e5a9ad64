"""Who is served next: by turns between tenants, and nobody who asks for little behind those who ask for much."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SHARE: Final = 4
"""A tenant may take one in `SHARE` places of a queue, and one at least."""


class FairQueue(Generic[K]):
    """A bounded queue: first in, first out for each tenant, and by turns between them.

    What has no tenant ("") is one of them, which may take every place. Not safe to use from several threads.

    Args:
        places: how many keys may wait.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._tenants: OrderedDict[str, OrderedDict[K, None]] = OrderedDict()
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def has_room(self, tenant: str) -> bool:
        """Whether one more of this tenant may wait."""
        share = max(1, self._places // SHARE) if tenant else self._places
        return self._waiting < self._places and len(self._tenants.get(tenant, ())) < share

    def put(self, tenant: str, key: K) -> None:
        """Adds a key that is not in the queue; ask `has_room` first."""
        self._tenants.setdefault(tenant, OrderedDict())[key] = None
        self._waiting += 1

    def pop(self) -> K | None:
        """The next key; None if there is none."""
        if not self._tenants:
            return None
        tenant, keys = self._tenants.popitem(last=False)
        key, _ = keys.popitem(last=False)
        self._waiting -= 1
        if keys:
            self._tenants[tenant] = keys
        return key

    def remove(self, tenant: str, key: K) -> bool:
        """Takes a key out, wherever it stands. Returns whether it was in the queue."""
        keys = self._tenants.get(tenant)
        if keys is None or key not in keys:
            return False
        del keys[key]
        self._waiting -= 1
        if not keys:
            del self._tenants[tenant]
        return True
