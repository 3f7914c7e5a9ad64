"""The compile service's own errors: what is no verdict on the spec."""

from typing import Final

from structout.errors import ErrorKind, GrammarError, describe_exception

CANCELLED: Final = GrammarError(kind=ErrorKind.CANCELLED, message="the request was cancelled")
SHUT_DOWN: Final = GrammarError(kind=ErrorKind.CANCELLED, message="the service was shut down")


def timed_out(seconds: float) -> GrammarError:
    """For who has waited as long as it wanted to."""
    message = f"the grammar was not compiled within {seconds:g} s"
    return GrammarError(kind=ErrorKind.TIMED_OUT, message=message, hint="send it again, or make it simpler")


def overloaded() -> GrammarError:
    """For what finds no place in its lane."""
    message = "too many grammars are waiting to be compiled already"
    return GrammarError(kind=ErrorKind.OVERLOADED, message=message, hint="send it again later")


def own_failure(exc: BaseException) -> GrammarError:
    """For a fault of the service itself."""
    message = "the compile service failed; the operator's log says how"
    return GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=message, detail=describe_exception(exc))
