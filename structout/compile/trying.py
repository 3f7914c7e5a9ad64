"""One spec, the backends that may take it, one after the other: the same in the compile service and in its sandbox."""

from collections.abc import Callable
from typing import TypeVar

from structout.discovery import RegisteredBackend, Registry
from structout.errors import GrammarError
from structout.result import Err, Ok, Result
from structout.schema import check_schema
from structout.selection import Ranking, nobody_may, nobody_takes, rank, refusal
from structout.spec import GrammarSpec, JsonSchema

T = TypeVar("T")


def try_candidates(
    spec: GrammarSpec,
    registry: Registry,
    backend: str | None,
    attempt: Callable[[RegisteredBackend], Result[T, GrammarError]],
) -> tuple[str | None, Result[T, GrammarError]]:
    """Makes ``attempt`` with one candidate after the other, until one succeeds or fails for good.

    Each is asked for its static refusal when its turn comes, and is not attempted if it has one.

    Args:
        spec: what is asked for; a schema is validated first.
        registry: what is installed.
        backend: the one that the request names; None to choose among all.
        attempt: what to do with a candidate; it need not ask for the static refusal again.

    Returns:
        Id of the backend that was tried last, None if none was; and what came of it.
    """
    if isinstance(spec, JsonSchema) and (invalid := check_schema(spec)):
        return None, Err(invalid)
    match rank(spec, registry, backend=backend):
        case Err(error):
            return backend, Err(error)
        case Ok(ranking):
            tried, result = _try_each(spec, ranking, attempt)
            if isinstance(result, Ok | Err):
                return tried, result
            failed = nobody_takes(spec, result) if tried else nobody_may(spec, registry, result, backend=backend)
            return tried or backend, Err(failed)


def _try_each(
    spec: GrammarSpec, ranking: Ranking, attempt: Callable[[RegisteredBackend], Result[T, GrammarError]]
) -> tuple[str | None, Result[T, GrammarError] | list[GrammarError]]:
    """The backend that was attempted last, and what came of it, or why each candidate refuses."""
    tried, refusals = None, list(ranking.refusals)
    for candidate in ranking.candidates:
        if error := refusal(candidate, spec):
            refusals.append(error)
            continue
        tried = candidate.info.id
        result = attempt(candidate)
        if isinstance(result, Ok) or not result.error.consequence.try_next:
            return tried, result
        refusals.append(result.error)
    return tried, refusals
