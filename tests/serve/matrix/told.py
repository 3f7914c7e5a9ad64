"""What a client was told, whatever the protocol: requests ask in one way, and answers are compared in one way."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import attrs

from structout.errors import ErrorKind, Fault


@attrs.frozen
class Ask:
    """What is asked of an endpoint: the same text of all.

    Attributes:
        mark: goes into the prompt.
        choice: the options of the constraint.
    """

    is_stream: bool
    n: int
    mark: str
    choice: tuple[str, ...]
    top_p: float = 1.0


@attrs.frozen
class Cause:
    """Why something failed, as far as the client is told."""

    kind: ErrorKind
    fault: Fault
    pointer: str | None


@attrs.frozen
class Said:
    """What came of one sample.

    Attributes:
        reason: its finish reason; None if none came.
    """

    text: str
    reason: str | None = None
    cause: Cause | None = None


@attrs.frozen
class Told:
    """An answer.

    Attributes:
        status: an HTTP status, or the name of a gRPC code.
        cause: why the request as a whole failed, or what else the protocol says of a failure once for all samples.
        samples: by index; none if nothing came but a failure.
        everything: all that came, as text, to look for what may not be in it.
        may_retry: whether the client is told to try again later; None where the protocol does not say.
    """

    status: str
    cause: Cause | None
    samples: Mapping[int, Said]
    everything: str = attrs.field(eq=False)
    may_retry: bool | None = None


Wait = Callable[[], Awaitable[Any]]


class Door(Protocol):
    """One endpoint, from outside."""

    async def ask(self, ask: Ask) -> Told:
        """The whole answer."""
        ...

    async def leave(self, ask: Ask, when: Wait, *, is_late: bool) -> None:
        """Asks, and goes away once ``when`` returns; behind the first token if the answer streams and is late."""
        ...
