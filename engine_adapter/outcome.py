"""What an engine says of a request: some `Delta`, then exactly one `Finished`, `Failed` or `Aborted`."""

import enum
from typing import TypeAlias

import attrs

from structout.errors import ErrorKind, Fault, GrammarError, describe_exception


class FinishReason(enum.StrEnum):
    """Why a request finished. STOP: a stop token or string, its grammar complete. LENGTH: no room for more tokens."""

    STOP = "stop"
    LENGTH = "length"


@attrs.frozen(kw_only=True)
class TokenLogprob:
    """Log-probabilities at one generated token.

    Attributes:
        token_id: the token that was sampled.
        logprob: its natural log-probability.
        top: the most likely tokens and theirs, most likely first; empty unless asked for.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@attrs.frozen(kw_only=True)
class Usage:
    """Counts of tokens: the prompt's, and those generated, the stop token included."""

    prompt_tokens: int
    completion_tokens: int


@attrs.frozen(kw_only=True)
class Delta:
    """What was added since the last event.

    ``token_ids`` come in the step in which they are accepted. ``text`` lags behind them while a UTF-8 character is
    incomplete, or while it may be the beginning of a stop string; what was delivered is never taken back.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] = ()


@attrs.frozen(kw_only=True)
class Finished:
    """The request is done.

    Attributes:
        text: all of it: the deltas' texts together. It ends before the stop string, or behind it if that was asked for.
        token_ids: all tokens that were accepted, without the stop token: the deltas' together. Where a stop string
            ended the text, the last of them may be in it or reach beyond it.
        reason: why it ended.
        usage: how many tokens it took.
        stop_token_id: the stop token that ended it, if one did.
        stop_string: the stop string that ended it, if one did.
    """

    text: str
    token_ids: tuple[int, ...]
    reason: FinishReason
    usage: Usage
    stop_token_id: int | None = None
    stop_string: str | None = None


@attrs.frozen
class Failed:
    """The request ended for a cause. Tokens that were delivered before stay valid."""

    error: GrammarError


@attrs.frozen
class Aborted:
    """Whoever asked did not want it any more."""


Terminal: TypeAlias = Finished | Failed | Aborted
Outcome: TypeAlias = Delta | Terminal


def internal_error(exc: BaseException) -> GrammarError:
    """The error of a request that met a bug: the exception's text is for the operator's log, not for the client."""
    message = "the engine failed on this request; the operator's log says how"
    return GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=message, detail=describe_exception(exc))


def too_slow(misses: int) -> GrammarError:
    """For a request whose row was late once too often."""
    message = f"the grammar's bitmask was not ready in time {misses} times in a row"
    return GrammarError(kind=ErrorKind.TIMED_OUT, fault=Fault.CALLER, message=message, hint="make the grammar simpler")
