"""What a request asks for, read from vLLM's ``SamplingParams``."""

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

import attrs

from structout.errors import GrammarError
from structout.parsing import parse_structured_outputs, requested_backend
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec

BACKEND: Final = "structout_backend"
ENFORCEMENT: Final = "structout_enforcement"
"""The ``extra_args`` that say what vLLM's own parameters have no place for; over HTTP they are ``vllm_xargs``, or
``backend`` and ``enforcement`` in ``structured_outputs``."""

_POINTER: Final = "/structured_outputs"
_CONSTRAINTS: Final = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
_JSON: Final = ("json", "json_object")
_FLAGS: Final = ("disable_any_whitespace", "disable_additional_properties")

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_beside: ContextVar[Mapping[str, str]] = ContextVar("structout_beside", default=_NOTHING)


@attrs.frozen
class Asked:
    """A request's constraint, and the backend that it names."""

    spec: GrammarSpec
    backend: str | None


def asked(params: Any, *, compact: bool = False) -> Result[Asked | None, GrammarError]:
    """What sampling parameters ask for; None if for free text.

    Args:
        params: vLLM's ``SamplingParams``.
        compact: whether JSON is to be without white space, whatever the request says.
    """
    constraint = getattr(params, "structured_outputs", None)
    if constraint is None or constraint.all_constraints_none():
        return Ok(None)
    extra = params.extra_args or {}
    given = _as_object(constraint) | {"backend": extra.get(BACKEND), "enforcement": extra.get(ENFORCEMENT)}
    if compact and any(name in given for name in _JSON):
        given["disable_any_whitespace"] = True
    match requested_backend({"structured_outputs": given}):
        case Err() as failed:
            return failed
        case Ok(backend):
            spec = parse_structured_outputs(given, pointer=_POINTER)
            return spec.map(lambda spec: None if spec is None else Asked(spec, backend))


def _as_object(constraint: Any) -> dict[str, Any]:
    """The fields of vLLM's ``StructuredOutputsParams`` as the client wrote them."""
    given = {name: getattr(constraint, name) for name in (*_CONSTRAINTS, "whitespace_pattern")}
    given = {name: value for name, value in given.items() if value is not None}
    return given | {name: True for name in _FLAGS if getattr(constraint, name)}


@contextlib.contextmanager
def beside(options: Mapping[str, str]) -> Iterator[None]:
    """While it lasts, `complete` adds these ``extra_args`` to what this task asks for."""
    token = _beside.set(options)
    try:
        yield
    finally:
        _beside.reset(token)


def complete(params: Any) -> None:
    """Adds to sampling parameters what the request has said in fields that vLLM does not read."""
    if options := _beside.get():
        params.extra_args = {**options, **(params.extra_args or {})}
