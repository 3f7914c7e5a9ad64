"""The terminal check: whether what a request ended with is a success. One rule, for every endpoint, and it can be
replaced: ``Engine(terminal_rule=)``; `engine_adapter.replies` applies it to the replies of any server."""

from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from engine_adapter.outcome import Failed, Finished, FinishReason
from structout.errors import ErrorKind, GrammarError

CODE: Final = "[UNUSABLE_BACKEND_RESPONSE]"
"""What the message of every reply begins with that ended and is no use."""

EMPTY: Final = f"{CODE} empty response payload"


@attrs.frozen(kw_only=True)
class Payload:
    """What a request ended with, whatever endpoint it is of.

    Attributes:
        text: what whoever asked gets to read.
        tokens: how many token ids it gets; those of a stop string alone are none.
        tool_calls: how many calls of tools.
        vector: how many numbers of an embedding.
        ran_out: whether it ended for want of room, which excuses an incomplete text.
        complete: whether its grammar accepts the text; None without a grammar.
    """

    text: str = ""
    tokens: int = 0
    tool_calls: int = 0
    vector: int = 0
    ran_out: bool = False
    complete: bool | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.text or self.tokens or self.tool_calls or self.vector)


TerminalRule: TypeAlias = Callable[[Payload], GrammarError | None]
"""Why a payload is no success; None if it is one."""


def usable(payload: Payload) -> GrammarError | None:
    """The rule unless another is given: a success is not empty, unless its grammar accepts the empty text; and its
    grammar is complete, or it ran out of room."""
    if payload.complete:
        return None
    if payload.is_empty:
        return unusable(EMPTY)
    if payload.complete is False and not payload.ran_out:
        return unusable(f"{CODE} the text ended before its grammar was complete")
    return None


def unusable(message: str) -> GrammarError:
    """The error of a request that ended with nothing that can be used."""
    hint = "the model ended its turn too early; send it again, or change the prompt"
    return GrammarError(kind=ErrorKind.UNUSABLE_RESPONSE, message=message, hint=hint)


def checked(finished: Finished, *, complete: bool | None, rule: TerminalRule = usable) -> Finished | Failed:
    """How a request ends that the engine would end with ``finished``.

    Args:
        finished: what it would say.
        complete: whether the grammar accepts its text; None without a grammar.
        rule: what decides.

    Raises:
        TypeError: the rule returned something else than it may.
    """
    cut_to_nothing = finished.stop_string is not None and not finished.text
    payload = Payload(
        text=finished.text,
        tokens=0 if cut_to_nothing else len(finished.token_ids),
        ran_out=finished.reason is FinishReason.LENGTH,
        complete=complete,
    )
    match verdict := rule(payload):
        case None:
            return finished
        case GrammarError():
            return Failed(verdict)
    raise TypeError(f"a terminal rule returns a GrammarError or None, not {type(verdict).__name__}")
