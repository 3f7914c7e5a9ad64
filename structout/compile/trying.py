"""One spec, the backends that may take it, one after the other: the same in the compile service and in its sandbox."""

from collections.abc import Callable
from typing import TypeVar

from structout.discovery import RegisteredBackend, Registry
from structout.errors import GrammarError
from structout.result import Err, Ok, Result
from structout.schema import check_schema
from structout.selection import Selection, nobody_takes, select
from structout.spec import GrammarSpec, JsonSchema

T = TypeVar("T")


def try_candidates(
    spec: GrammarSpec,
    registry: Registry,
    backend: str | None,
    attempt: Callable[[RegisteredBackend], Result[T, GrammarError]],
) -> tuple[str | None, Result[T, GrammarError]]:
    """Makes ``attempt`` with one candidate after the other, until one succeeds or fails for good.

    Args:
        spec: what is asked for; a schema is validated first.
        registry: what is installed.
        backend: the one that the request names; None to choose among all.
        attempt: what to do with a candidate.

    Returns:
        Id of the backend that was tried last, None if none was; and what came of it.
    """
    if isinstance(spec, JsonSchema) and (invalid := check_schema(spec)):
        return None, Err(invalid)
    match select(spec, registry, backend=backend):
        case Err(error):
            return backend, Err(error)
        case Ok(selection):
            return _try_each(spec, selection, attempt)


def _try_each(
    spec: GrammarSpec, selection: Selection, attempt: Callable[[RegisteredBackend], Result[T, GrammarError]]
) -> tuple[str | None, Result[T, GrammarError]]:
    tried, refusals = None, list(selection.refusals)
    for candidate in selection.candidates:
        tried = candidate.info.id
        result = attempt(candidate)
        if isinstance(result, Ok) or not result.error.consequence.try_next:
            return tried, result
        refusals.append(result.error)
    return tried, Err(nobody_takes(spec, refusals))
