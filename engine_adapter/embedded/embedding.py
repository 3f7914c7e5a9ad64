"""How a request for an embedding ends."""

from engine_adapter.embedded.request import Sequence
from engine_adapter.outcome import Failed, Finished, FinishReason, Usage
from engine_adapter.terminal import TerminalRule, checked


def embedded(sequence: Sequence, rule: TerminalRule) -> Finished | Failed:
    """The end of a sequence whose prompt is pooled; a vector that is not one of numbers is no success."""
    assert sequence.pool is not None, "it asked for an embedding"
    finished = Finished(
        text="",
        token_ids=(),
        reason=FinishReason.STOP,
        usage=Usage(prompt_tokens=len(sequence.request.prompt), completion_tokens=0),
        vector=sequence.pool.vector(),
    )
    return checked(finished, complete=None, rule=rule)
