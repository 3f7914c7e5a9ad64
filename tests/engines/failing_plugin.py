"""Grammar backends that fail, each in its way, in a real engine: what becomes of their requests is the test."""

import sys
from collections.abc import Callable, Sequence
from typing import Final

from structout import BackendInfo, hookimpl
from structout.backend import Backend, BitmaskRow, Status
from structout.vocabulary import Vocabulary
from tests.compile.hazards import Hazards
from tests.fakes import TrieBackend, TrieMatcher

IS_SANDBOX: Final = any(argument.startswith("structout.") for argument in sys.orig_argv)
"""There everything is well, so that a grammar comes through."""


class FailsToFill(TrieMatcher):
    """Raises when it is asked for a row."""

    def fill(self, row: BitmaskRow) -> Status:
        if IS_SANDBOX:
            return super().fill(row)
        raise RuntimeError("secret internals")


class FailsToAccept(TrieMatcher):
    """Raises when it is to move on."""

    def accept(self, token: int) -> Status:
        if IS_SANDBOX:
            return super().accept(token)
        raise RuntimeError("secret internals")


class HasNothing(TrieMatcher):
    """Lets no token follow, and takes none."""

    def fill(self, row: BitmaskRow) -> Status:
        return super().fill(row) if IS_SANDBOX else Status.DEAD_END

    def accept(self, token: int) -> Status:
        return super().accept(token) if IS_SANDBOX else Status.REJECTED


def _with(matcher: type[TrieMatcher]) -> Callable[[Vocabulary], Backend]:
    return lambda vocabulary: TrieBackend(vocabulary, matcher)


@hookimpl
def structout_register_backends() -> Sequence[BackendInfo]:
    create: dict[str, Callable[[Vocabulary], Backend]] = {
        "fails_to_fill": _with(FailsToFill),
        "fails_to_accept": _with(FailsToAccept),
        "has_nothing": _with(HasNothing),
        "hazards": Hazards,
    }
    kinds = frozenset({"choice"})
    return [BackendInfo(id=id, create=create[id], spec_kinds=kinds, by_name_only=True) for id in create]
