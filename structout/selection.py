"""Which backend compiles which spec: data that can be printed, not a branch somewhere.

Where a request does not name a backend, the candidates are tried in `DEFAULT_ORDER`, then by id, after the weights of
the ``structout_prefer_backends`` hook; the first that takes the spec compiles it. Backends that are ``by_name_only``
are no candidates then.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from structout.discovery import RegisteredBackend, Registry
from structout.errors import ErrorKind, Fault, GrammarError, describe_exception, is_users_interrupt
from structout.grammar import static_refusal
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec

DEFAULT_ORDER: Final = ("llguidance", "xgrammar", "outlines")
"""llguidance starts at once and refuses what it does not enforce; xgrammar has the most kinds and the fastest masks
once compiled; outlines compiles slowest. Backends that are not listed follow by id."""


@attrs.frozen
class Selection:
    """The backends to try for a spec, best first, and why each of the others is not among them."""

    candidates: tuple[RegisteredBackend, ...]
    refusals: tuple[GrammarError, ...]


def select(spec: GrammarSpec, registry: Registry, *, backend: str | None = None) -> Result[Selection, GrammarError]:
    """The backends that may take a spec, as far as that is known without compiling it.

    Args:
        spec: what to compile.
        registry: what is installed.
        backend: the one that the request names; None to choose among all.

    Returns:
        At least one candidate; or the error to answer with: which keyword, at which pointer, and who could.
    """
    if backend is None:
        return _select_among(_unnamed(registry), spec, registry)
    match registry.find(backend):
        case Err(error):
            return Err(error)
        case Ok(named):
            return _select_named(named, spec, registry)


def _unnamed(registry: Registry) -> Sequence[RegisteredBackend]:
    """The backends for requests that name none."""
    return [each for each in registry.backends.values() if not each.info.by_name_only]


def _select_named(named: RegisteredBackend, spec: GrammarSpec, registry: Registry) -> Result[Selection, GrammarError]:
    match _select_among((named,), spec, registry):
        case Ok() as selected:
            return selected
        case Err(error):
            others = [each for each in _unnamed(registry) if each is not named]
            able = _select_among(others, spec, registry)
            names = tuple(each.info.id for each in able.value.candidates) if isinstance(able, Ok) else ()
            hint = f"leave the backend out, or name {' or '.join(names)}" if names else error.hint
            return Err(attrs.evolve(error, candidates=names, hint=hint))


def _select_among(
    backends: Sequence[RegisteredBackend], spec: GrammarSpec, registry: Registry
) -> Result[Selection, GrammarError]:
    infos = [each.info for each in backends]
    forbidden = registry.forbidden(spec, infos)
    refusals: list[GrammarError] = []
    able: list[RegisteredBackend] = []
    for each in backends:
        if error := _refusal(each, spec, forbidden):
            refusals.append(attrs.evolve(error, backend=each.info.id, distribution=each.distribution))
        else:
            able.append(each)
    if not able:
        return Err(nobody_takes(spec, refusals))
    weights = registry.preferences(spec, [each.info for each in able])
    able.sort(key=lambda each: (-weights.get(each.info.id, 0.0), *_default_rank(each.info.id)))
    return Ok(Selection(tuple(able), tuple(refusals)))


def _default_rank(backend: str) -> tuple[int, str]:
    return (DEFAULT_ORDER.index(backend) if backend in DEFAULT_ORDER else len(DEFAULT_ORDER), backend)


def _refusal(registered: RegisteredBackend, spec: GrammarSpec, forbidden: dict[str, str]) -> GrammarError | None:
    info = registered.info
    if info.id in forbidden:
        message = f"{info.id} is not allowed for this request: {forbidden[info.id]}"
        return GrammarError(kind=ErrorKind.UNAVAILABLE, fault=Fault.CALLER, message=message)
    try:
        return static_refusal(info, spec)
    except BaseException as exc:
        if is_users_interrupt(exc):
            raise
        message = f"the {info.id} backend failed: it could not check this spec"
        return GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=message, detail=describe_exception(exc))


def nobody_takes(spec: GrammarSpec, refusals: Sequence[GrammarError]) -> GrammarError:
    """One error for the refusals of every backend that was asked.

    It is a verdict on the spec, which caches keep, only if every refusal is one: with a backend that failed, or that is
    forbidden at the moment, the next request may fare better.
    """
    if not refusals:
        return GrammarError(
            kind=ErrorKind.UNAVAILABLE,
            fault=Fault.SERVICE,
            message="no grammar backend is installed",
            hint="pip install 'structout[llguidance]' or another backend; see `structout backends`",
        )
    if len(refusals) == 1:
        return refusals[0]
    kind, fault = _common_verdict(refusals)
    first = next((error for error in refusals if error.pointer is not None), refusals[0])
    reasons = "; ".join(f"{error.backend}: {error.message}" for error in refusals)
    return GrammarError(
        kind=kind,
        fault=fault,
        message=f"no backend takes this {spec.kind}: {reasons}",
        pointer=first.pointer,
        keyword=first.keyword,
        hint=first.hint,
        detail="; ".join(f"{error.backend}: {error.detail}" for error in refusals if error.detail) or None,
    )


def _common_verdict(refusals: Sequence[GrammarError]) -> tuple[ErrorKind, Fault]:
    for error in refusals:
        if not error.consequence.cacheable:
            return error.kind, error.fault
    kinds = {error.kind for error in refusals}
    return kinds.pop() if len(kinds) == 1 else ErrorKind.UNSUPPORTED, Fault.CALLER
