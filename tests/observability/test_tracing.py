"""The tracing hook: no tracer costs nothing, and one with OpenTelemetry's signature fits."""

from structout import ErrorKind, GrammarError
from structout.observability.tracing import NO_TRACER, Tracer, set_outcome
from tests.observability.tracers import RecordingTracer


def work(tracer: Tracer, error: GrammarError | None) -> None:
    with tracer.start_as_current_span("structout.compile", attributes={"structout.backend": "trie"}) as span:
        set_outcome(span, error)


def test_a_span_says_what_came_of_it() -> None:
    tracer = RecordingTracer()
    work(tracer, None)
    work(tracer, GrammarError(kind=ErrorKind.TIMED_OUT, message="not for a trace"))
    assert all(span.is_ended for span in tracer.spans)
    assert [span.attributes for span in tracer.spans] == [
        {"structout.backend": "trie", "structout.outcome": "ok"},
        {"structout.backend": "trie", "structout.outcome": "timed_out"},
    ]


def test_without_a_tracer_nothing_happens() -> None:
    work(NO_TRACER, None)
