"""What an operator sees: `metrics` (Prometheus), `logs` (with the request's id) and `tracing` (OpenTelemetry's calls).

The parts that do the work know none of these: they offer what `sources` describes, and call an `Observer` and a
`Tracer` that do nothing unless somebody passes others.
"""

from structout.observability.sources import NO_OBSERVER, Observer, ServiceStats
from structout.observability.tracing import NO_TRACER, Tracer

__all__ = ["NO_OBSERVER", "NO_TRACER", "Observer", "ServiceStats", "Tracer"]
