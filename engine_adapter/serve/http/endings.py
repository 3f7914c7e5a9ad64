"""How a choice ends: ``finish_reason``, and the cause where it did not finish."""

from typing import Any

from engine_adapter.outcome import Finished, FinishReason, Terminal
from engine_adapter.serve.http.errors import error_object
from engine_adapter.serve.samples import failure_of


def ending(end: Terminal, *, when_stopped: str = "stop") -> dict[str, Any]:
    """The members of a choice that say its end. ``when_stopped``: the reason of one that came to its own end."""
    if (error := failure_of(end)) is not None:
        return {"finish_reason": error.consequence.finish_reason, "error": error_object(error)}
    assert isinstance(end, Finished), "what has not failed has finished"
    return {"finish_reason": when_stopped if end.reason is FinishReason.STOP else end.reason.value}
