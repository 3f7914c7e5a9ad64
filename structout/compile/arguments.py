"""What callers that were not type-checked may hand to the compile service."""

import math
import numbers

from structout.errors import ErrorKind, GrammarError
from structout.spec import SPEC_TYPES


def wrong_argument(spec: object, backend: object, deadline_s: object, tenant: object) -> GrammarError | None:
    """What is wrong with the arguments of a request; None if nothing is."""
    if not isinstance(spec, SPEC_TYPES):
        return _invalid("spec", f"the spec is not a grammar spec but a {type(spec).__name__}")
    if backend is not None and not isinstance(backend, str):
        return _invalid("backend", f"the backend is not named by a text but by a {type(backend).__name__}")
    if not isinstance(tenant, str):
        return _invalid("tenant", f"the tenant is not named by a text but by a {type(tenant).__name__}")
    if not is_duration(deadline_s):
        return _invalid("deadline_s", "the deadline is not a finite number of seconds above 0")
    return None


def is_duration(seconds: object) -> bool:
    """Whether it is a finite number above 0."""
    try:
        is_number = isinstance(seconds, numbers.Real) and not isinstance(seconds, bool)
        return is_number and 0 < float(seconds) < math.inf  # type: ignore[arg-type]
    except OverflowError:
        return False


def _invalid(argument: str, message: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, keyword=argument)
