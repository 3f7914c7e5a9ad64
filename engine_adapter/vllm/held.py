"""Requests that wait for their grammars, outside of vLLM's queues."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import attrs

from engine_adapter.promotion import Promoter
from structout.compile import Pending
from structout.errors import GrammarError
from structout.grammar import Grammar
from structout.result import Err, Ok

R = TypeVar("R")


@attrs.frozen
class Ready(Generic[R]):
    """Parts of a request, in the order in which they came, and its grammar."""

    request_id: str
    parts: list[R]
    grammar: Grammar


@attrs.frozen
class Failed(Generic[R]):
    """Parts of a request, and why there is no grammar."""

    request_id: str
    parts: list[R]
    error: GrammarError


class Held(Generic[R]):
    """For the engine's thread. What `ready` and `failed` return stays what it is until `release` forgets the request,
    so that an exception between them loses nothing.

    A request may come in parts, all under one id (vLLM's streaming sessions): the first has the grammar, and the others
    wait for it.
    """

    def __init__(self) -> None:
        self._promoter = Promoter[str]()
        self._parts: dict[str, list[R]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._parts

    def hold(self, request_id: str, part: R, pending: Pending[Grammar]) -> None:
        """Holds a request until its grammar is there or known not to come."""
        self._promoter.block(request_id, [pending])
        self._parts[request_id] = [part]

    def join(self, request_id: str, part: R) -> None:
        """Holds one more part of a request that is held."""
        self._parts[request_id].append(part)

    def ready(self) -> list[Ready[R]]:
        """What has its grammar, in order of arrival."""
        decided = [(each.key, each.result) for each in self._promoter.decided()]
        return [Ready(key, self._parts[key], result.value[0]) for key, result in decided if isinstance(result, Ok)]

    def failed(self) -> list[Failed[R]]:
        """What will never have one, in order of arrival."""
        decided = [(each.key, each.result) for each in self._promoter.decided()]
        return [Failed(key, self._parts[key], result.error) for key, result in decided if isinstance(result, Err)]

    def fail(self, request_id: str, error: GrammarError) -> None:
        """Makes one of the `failed` of a request that was ready: its grammar cannot be started."""
        pending = Pending[Any]()
        pending.settle(Err(error))
        self._promoter.withdraw(request_id)
        self._promoter.block(request_id, [pending])

    def release(self, request_id: str) -> None:
        """Forgets a request; if its grammar is still to come, nobody waits for it any more."""
        self._promoter.withdraw(request_id)
        self._parts.pop(request_id, None)

    def withdraw(self, request_ids: Iterable[str] | None) -> list[list[R]]:
        """Releases those of the requests that are held (None: all), and returns their parts."""
        found = [each for each in (list(self._parts) if request_ids is None else request_ids) if each in self._parts]
        parts = [self._parts[each] for each in found]
        for each in found:
            self.release(each)
        return parts
