"""What the compile service, its sandbox and the filler tell of themselves, for whoever collects it."""

from collections.abc import Mapping
from typing import Final, Protocol

import attrs

from structout.errors import GrammarError


class Observer(Protocol):
    """Is told what happens to each request. Called from any thread; must be quick and must not raise."""

    def waited(self, seconds: float, error: GrammarError | None) -> None:
        """A request for a grammar has its result.

        Args:
            seconds: wall time since it was submitted; 0 from the cache.
            error: why there is no grammar; None if there is one.
        """
        ...


class _NoObserver:
    def waited(self, seconds: float, error: GrammarError | None) -> None:
        """Nobody wants to know."""


NO_OBSERVER: Final[Observer] = _NoObserver()


def outcome_of(error: GrammarError | None) -> str:
    """How metrics and spans say what came of something: ``ok``, or the error's kind. No text of a client is in it."""
    return "ok" if error is None else error.kind.value


class CompileEnd(Protocol):
    """What is read of a `structout.hookspecs.CompileEvent`; see there.

    Attributes:
        risk: the spec's risk class; None if it was not measured.
    """

    @property
    def backend(self) -> str | None: ...

    @property
    def error(self) -> GrammarError | None: ...

    @property
    def risk(self) -> str | None: ...


@attrs.frozen(kw_only=True)
class ServiceStats:
    """A compile service at one moment.

    Attributes:
        waiting: by lane, how many jobs wait.
        cache_hits: how many requests were answered from the cache so far.
        cache_misses: how many were not.
        cache_bytes: what the cache holds now.
        store_hits: how many grammars were read from disk so far.
    """

    waiting: Mapping[str, int]
    cache_hits: int
    cache_misses: int
    cache_bytes: int
    store_hits: int = 0


class HasBackends(Protocol):
    """A `structout.discovery.Registry`, of which only the ids are read."""

    @property
    def backends(self) -> Mapping[str, object]: ...


class ServiceSource(Protocol):
    """A compile service."""

    @property
    def registry(self) -> HasBackends: ...

    def stats(self) -> ServiceStats: ...


class SandboxSource(Protocol):
    """A `structout.compile.sandbox.Sandbox`."""

    @property
    def lost(self) -> int:
        """How many workers have ended so far."""
        ...


class EndsSource(Protocol):
    """Whatever counts how requests have ended, such as `engine_adapter.serve.ends.Ends`."""

    def outcomes(self) -> Mapping[str, int]:
        """How many have ended so far with which outcome (`outcome_of`)."""
        ...


class FillerSource(Protocol):
    """Whatever fills bitmask rows under a budget."""

    @property
    def misses(self) -> int:
        """How often a row has missed a budget so far."""
        ...
