"""A tracer that keeps what it is told."""

from collections.abc import Iterator
from contextlib import contextmanager

from structout.observability.tracing import Attributes, Span


class RecordedSpan:
    def __init__(self, name: str, attributes: Attributes | None) -> None:
        self.name = name
        self.attributes = dict(attributes or {})
        self.is_ended = False

    def set_attribute(self, key: str, value: str | bool | int | float) -> None:
        self.attributes[key] = value


class RecordingTracer:
    """With the parameters of `opentelemetry.trace.Tracer.start_as_current_span`, in their order."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    @contextmanager
    def start_as_current_span(
        self,
        name: str,
        context: object = None,
        kind: object = None,
        attributes: Attributes | None = None,
        links: object = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> Iterator[Span]:
        self.spans.append(span := RecordedSpan(name, attributes))
        try:
            yield span
        finally:
            span.is_ended = end_on_exit
