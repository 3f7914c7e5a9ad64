"""How ranks reach each other: two collective calls, as every library for ranks has them."""

from typing import Protocol


class Transport(Protocol):
    """One rank's connection to the others. Rank 0 leads.

    Both calls are collective: they return when all ranks have made them, and every rank makes them in the same order.
    With `torch.distributed` on a group of CPU processes (Gloo), an object of this protocol is::

        def gather(self, message):
            gathered = [None] * self.size if self.rank == 0 else None
            dist.gather_object(message, gathered, dst=0, group=self.group)
            return gathered

        def broadcast(self, message):
            box = [message]
            dist.broadcast_object_list(box, src=0, group=self.group)
            return box[0]

    What they raise when a rank is gone ends the engine: there is nobody left to agree with.
    """

    @property
    def rank(self) -> int:
        """This rank, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many ranks there are."""
        ...

    def gather(self, message: bytes) -> list[bytes] | None:
        """Everybody's message by rank, on rank 0; None on the others."""
        ...

    def broadcast(self, message: bytes | None) -> bytes:
        """What rank 0 gave; the others give None."""
        ...
