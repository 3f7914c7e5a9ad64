"""A grammar backend that compiles every choice and whose matchers then fail: what vLLM makes of that is the test."""

from collections.abc import Sequence

from structout import BackendInfo, hookimpl
from structout.backend import Backend, BitmaskRow, Status
from structout.vocabulary import Vocabulary
from tests.fakes import TrieBackend, TrieMatcher


class FailsToFill(TrieMatcher):
    """Raises when it is asked for a row."""

    def fill(self, row: BitmaskRow) -> Status:
        raise RuntimeError("secret internals")


class HasNothing(TrieMatcher):
    """Lets no token follow."""

    def fill(self, row: BitmaskRow) -> Status:
        row.fill(0)
        return Status.OK


def fails_to_fill(vocabulary: Vocabulary) -> Backend:
    return TrieBackend(vocabulary, FailsToFill)


def has_nothing(vocabulary: Vocabulary) -> Backend:
    return TrieBackend(vocabulary, HasNothing)


@hookimpl
def structout_register_backends() -> Sequence[BackendInfo]:
    kinds = frozenset({"choice"})
    return [
        BackendInfo(id="failing", create=fails_to_fill, spec_kinds=kinds, by_name_only=True),
        BackendInfo(id="empty", create=has_nothing, spec_kinds=kinds, by_name_only=True),
    ]
