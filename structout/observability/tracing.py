"""Spans around the parts of a request's way that take long.

The protocols are what is used of `opentelemetry.trace`: ``get_tracer("structout")`` from there is a `Tracer`. structout
does not depend on it.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol, TypeAlias

from structout.errors import GrammarError
from structout.observability.sources import outcome_of

Attributes: TypeAlias = Mapping[str, str | bool | int | float]


class Span(Protocol):
    """Something that takes time."""

    def set_attribute(self, key: str, value: str | bool | int | float) -> None: ...


class Tracer(Protocol):
    """Makes spans. Called from any thread."""

    def start_as_current_span(self, name: str, *, attributes: Attributes | None = None) -> AbstractContextManager[Span]:
        """A span that ends with the block, and is the parent of those that begin in it on the same thread."""
        ...


class _NoSpan:
    def set_attribute(self, key: str, value: str | bool | int | float) -> None:
        """Nobody wants to know."""


class _NoTracer:
    @contextmanager
    def start_as_current_span(self, name: str, *, attributes: Attributes | None = None) -> Iterator[Span]:
        yield _NO_SPAN


_NO_SPAN: Final[Span] = _NoSpan()
NO_TRACER: Final[Tracer] = _NoTracer()


def set_outcome(span: Span, error: GrammarError | None) -> None:
    """Says what came of it, as ``structout.outcome``."""
    span.set_attribute("structout.outcome", outcome_of(error))
