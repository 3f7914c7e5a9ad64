"""How an error looks in a reply. Its status comes from the one table, `structout.errors.CONSEQUENCES`."""

import logging
from typing import Any, Final

from starlette.responses import JSONResponse

from structout.errors import Fault, GrammarError
from structout.observability.logs import RequestLogger

logger = logging.getLogger(__name__)

RETRY_AFTER_S: Final = 1
"""What ``Retry-After`` says, in seconds: a step or a compile later, things may look different."""

_TYPES: Final = {
    Fault.CALLER: "invalid_request_error",
    Fault.SERVICE: "server_error",
    Fault.NOBODY: "cancelled",
}


def error_object(error: GrammarError) -> dict[str, Any]:
    """The error as clients of OpenAI's API read it; ``param`` is the pointer. Nothing of the inside is in it."""
    hint = f" ({error.hint})" if error.hint else ""
    return {
        "message": error.message + hint,
        "type": _TYPES[error.fault],
        "code": error.kind.value,
        "param": error.pointer,
    }


def error_body(error: GrammarError) -> dict[str, Any]:
    return {"error": error_object(error)}


def error_response(error: GrammarError) -> JSONResponse:
    """A reply that is nothing but the error."""
    consequence = error.consequence
    headers = {"Retry-After": str(RETRY_AFTER_S)} if consequence.retry else None
    return JSONResponse(error_body(error), status_code=consequence.http_status, headers=headers)


def log_error(error: GrammarError, request_id: str) -> None:
    """Tells the operator all of it, by the request's id."""
    RequestLogger(logger, request_id).failed(error)
