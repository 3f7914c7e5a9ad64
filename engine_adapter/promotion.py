"""Requests that wait for something, and what becomes of them: ready or failed, event driven.

An engine blocks a request on the resources that it needs (a grammar that is being compiled, an adapter's weights, a
remote cache). Each resource signals once when it has a result; nobody polls. Between two steps the engine asks for
what was decided, in order of arrival, moves each request, and only then settles it::

    for decision in promoter.decided():
        match decision.result:
            case Ok(values): ...    # back to the schedulable queue
            case Err(error): ...    # ends, with its cause
        promoter.settle(decision.key)

An exception anywhere in that loop loses nothing: what was not settled is decided again the same way. The cost of
`Promoter.decided` depends on how many requests were decided, not on how many are blocked. What a signal means is found
out on the thread that signals, where a request that nobody has touched for long is fetched from memory.
"""

import itertools
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs

from structout.errors import ErrorKind, GrammarError, describe_exception, reraise_users_interrupt
from structout.result import Err, Ok, Result

logger = logging.getLogger(__name__)

T_co = TypeVar("T_co", covariant=True)
K = TypeVar("K", bound=Hashable)


class PendingResource(Protocol[T_co]):
    """Something that will have a result; `structout.compile.Pending` is one."""

    def result(self) -> Result[T_co, GrammarError] | None:
        """The result; None while it is pending. A failure is an ``Err``, not an exception. It stays what it is.

        May be called from any thread, and inside of a done callback.
        """
        ...

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Calls ``callback`` once there is a result, from any thread; at once if there is one already."""
        ...

    def cancel(self) -> None:
        """Says that this waiter does not want the result any more."""
        ...


@attrs.frozen
class Decision(Generic[K]):
    """What became of a blocked request: the values of its resources, in their order, or the first failure."""

    key: K
    result: Result[tuple[Any, ...], GrammarError]


@attrs.define(eq=False)
class _Entry(Generic[K]):
    """A blocked request.

    Attributes:
        ticket: its place in the order of arrival.
        resources: what it waits for; nothing any more once it is ready.
        outcome: None until a signal decided it. Two threads may both write one, and both are right.
        decision: what the engine was told. It stays what it is.
    """

    ticket: int
    key: K
    resources: tuple[PendingResource[Any], ...]
    outcome: Result[tuple[Any, ...], GrammarError] | None = None
    decision: Decision[K] | None = None

    def decide(self) -> None:
        """Sets the outcome if it is known by now. From any thread."""
        resources = self.resources  # read before the outcome: they go once there is one
        if self.outcome is None:
            self.outcome = _outcome(resources)
        if isinstance(self.outcome, Ok):
            self.resources = ()


@attrs.frozen
class _Broken:
    """Stands for a resource that cannot be waited for."""

    detail: str

    def result(self) -> Err[GrammarError]:
        return Err(_broken(self.detail))

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        callback()

    def cancel(self) -> None:
        """There is nothing to give up."""


class Promoter(Generic[K]):
    """The requests that are blocked. Its methods are for the engine's thread; resources signal from any thread.

    Args:
        wake: called, from any thread, when there may be something to decide: for an engine that sleeps when idle.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self._tickets = itertools.count()
        self._entries: dict[K, _Entry[K]] = {}
        self._signals: deque[_Entry[K]] = deque()
        self._due: dict[int, _Entry[K]] = {}

    def __len__(self) -> int:
        """How many requests are blocked; decided ones count until they are settled."""
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    @property
    def has_signals(self) -> bool:
        """Whether `decided` has something to look at."""
        return bool(self._signals or self._due)

    def block(self, key: K, resources: Sequence[PendingResource[Any]]) -> None:
        """Blocks a request until all ``resources`` have a value or one has failed.

        Raises:
            ValueError: the request is blocked already.
        """
        if key in self._entries:
            raise ValueError(f"request {key!r} is blocked already")
        waited_for = tuple(resources)
        entry = self._entries[key] = _Entry(next(self._tickets), key, waited_for)
        try:
            for resource in waited_for:
                resource.add_done_callback(lambda: self._signal(entry))
        except BaseException as exc:
            reraise_users_interrupt(exc)
            broken = _Broken(f"{type(resource).__name__}: {describe_exception(exc)}")
            entry = self._entries[key] = _Entry(entry.ticket, key, (*waited_for, broken))
            self._signal(entry)
        if not waited_for:
            self._signal(entry)

    def _signal(self, entry: _Entry[K]) -> None:
        """Decides a request if that is possible now: of several resources the last to signal finds all results."""
        is_read = False
        try:
            if self._entries.get(entry.key) is entry:
                entry.decide()
            is_read = True
        finally:
            # Interrupted, it is left to `decided`.
            if entry.outcome is not None or not is_read:
                self._signals.append(entry)
                self._wake()

    def decided(self) -> list[Decision[K]]:
        """What became of the requests whose resources have signalled, in order of arrival. Changes nothing for them."""
        while self._signals:
            entry = self._signals[0]
            self._due[entry.ticket] = entry
            self._signals.popleft()
        decisions = []
        for ticket in sorted(self._due):
            decision = self._decision(self._due[ticket])
            if decision is None:
                del self._due[ticket]
            else:
                decisions.append(decision)
        return decisions

    def _decision(self, entry: _Entry[K]) -> Decision[K] | None:
        """None for a request that is not blocked any more, or whose signal decided nothing."""
        if self._entries.get(entry.key) is not entry:
            return None
        if entry.decision is None:
            entry.decide()
            entry.decision = None if entry.outcome is None else Decision(entry.key, entry.outcome)
        return entry.decision

    def settle(self, key: K) -> None:
        """Forgets a request that was moved according to its decision, and gives up resources it still waits for."""
        self.withdraw(key)

    def withdraw(self, key: K) -> bool:
        """Forgets a request, decided or not, and gives up its resources. Returns whether it was blocked."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        del self._entries[key]
        self._due.pop(entry.ticket, None)
        for resource in entry.resources:
            _give_up(resource)
        return True


def _outcome(resources: Sequence[PendingResource[Any]]) -> Result[tuple[Any, ...], GrammarError] | None:
    """All values, or the first failure, or None while neither is known."""
    results = [_result(resource) for resource in resources]
    for result in results:
        if isinstance(result, Err):
            return result
    values = tuple(result.value for result in results if isinstance(result, Ok))
    return Ok(values) if len(values) == len(results) else None


def _result(resource: PendingResource[Any]) -> Result[Any, GrammarError] | None:
    """The resource's result; one that raises or answers nonsense, against its contract, has failed."""
    try:
        result: object = resource.result()
    except BaseException as exc:
        reraise_users_interrupt(exc)
        return Err(_broken(f"{type(resource).__name__}: {describe_exception(exc)}"))
    match result:
        case None | Ok() | Err(GrammarError()):
            return result
    return Err(_broken(f"{type(resource).__name__}: result() returned {type(result).__name__}"))


def _give_up(resource: PendingResource[Any]) -> None:
    try:
        if resource.result() is None:
            resource.cancel()
    except BaseException as exc:
        reraise_users_interrupt(exc)
        logger.exception("a %s could not be given up", type(resource).__name__)


def _broken(detail: str) -> GrammarError:
    message = "something that the request waited for failed without saying why"
    return GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=message, detail=detail)
