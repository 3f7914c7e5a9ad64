"""How a request's cause gets from the engine core to the client: as the ``stop_reason`` of an output that ended with
an error, and from there as the exception that vLLM's endpoints turn into a reply."""

import json
from http import HTTPStatus
from typing import Any, Final

from structout.errors import GrammarError

_MARK: Final = "structout:"


def stop_reason(error: GrammarError) -> str:
    """A cause as a stop reason, without what is for the operator's log only."""
    return _MARK + json.dumps(error.to_json())


def cause(stop_reason: object) -> GrammarError | None:
    """The inverse; None for a stop reason that is no cause of ours."""
    if not isinstance(stop_reason, str) or not stop_reason.startswith(_MARK):
        return None
    try:
        return GrammarError.from_json(json.loads(stop_reason.removeprefix(_MARK)))
    except (ValueError, TypeError, LookupError):
        return None  # a user's own stop string, of all things


def cause_of(output: Any) -> GrammarError | None:
    """Why a ``RequestOutput`` failed, if a grammar is the reason: the first cause among its completions."""
    for completion in output.outputs:
        if completion.finish_reason == "error" and (error := cause(completion.stop_reason)):
            return error
    return None


def exception(error: GrammarError) -> Exception:
    """What to raise in vLLM's front end, so that the client gets the status of the table and the error's text."""
    from vllm.exceptions import GracefulHTTPError, VLLMValidationError

    status = error.consequence.http_status
    if status == HTTPStatus.BAD_REQUEST:
        return VLLMValidationError(str(error))  # type: ignore[no-any-return]  # vLLM is not in the environment of mypy
    return GracefulHTTPError(str(error), HTTPStatus(status))  # type: ignore[no-any-return]  # likewise
