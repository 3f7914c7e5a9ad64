"""Which backend compiles which spec: data that can be printed, not a branch somewhere.

Where a request does not name a backend, the candidates are tried in `DEFAULT_ORDER`, then by id, after the weights of
the ``structout_prefer_backends`` hook; the first that takes the spec compiles it. Backends that are ``by_name_only``
are no candidates then. `rank` puts them in order, `refusal` asks one of them.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from structout.discovery import RegisteredBackend, Registry
from structout.errors import ErrorKind, Fault, GrammarError, describe_exception, reraise_users_interrupt
from structout.grammar import static_refusal
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec

DEFAULT_ORDER: Final = ("llguidance", "xgrammar", "outlines")
"""llguidance starts at once and refuses what it does not enforce; xgrammar has the most kinds and the fastest masks
once compiled; outlines compiles slowest. Backends that are not listed follow by id."""


@attrs.frozen
class Ranking:
    """Backends for a spec, best first: of `rank` those to ask, of `select` those that were asked and may take it.

    Attributes:
        candidates: see above.
        refusals: why others are not among them, although they are installed.
    """

    candidates: tuple[RegisteredBackend, ...]
    refusals: tuple[GrammarError, ...]


def select(spec: GrammarSpec, registry: Registry, *, backend: str | None = None) -> Result[Ranking, GrammarError]:
    """The backends that may take a spec, as far as that is known without compiling it.

    Who wants one backend only asks the candidates of `rank` one by one.

    Args:
        spec: what to compile.
        registry: what is installed.
        backend: the one that the request names; None to choose among all.

    Returns:
        At least one candidate; or the error to answer with: which keyword, at which pointer, and who could.
    """
    match rank(spec, registry, backend=backend):
        case Err(error):
            return Err(error)
        case Ok(ranking):
            asked = _asked(ranking, spec)
            if asked.candidates:
                return Ok(asked)
            return Err(nobody_may(spec, registry, asked.refusals, backend=backend))


def rank(spec: GrammarSpec, registry: Registry, *, backend: str | None = None) -> Result[Ranking, GrammarError]:
    """The backends to ask for a spec, in order; arguments as in `select`. The error says that the named one is not
    there."""
    if backend is None:
        return Ok(_rank(_unnamed(registry), spec, registry))
    return registry.find(backend).map(lambda named: _rank((named,), spec, registry))


def refusal(candidate: RegisteredBackend, spec: GrammarSpec) -> GrammarError | None:
    """Why a candidate refuses a spec, or fails to say, without compiling it; None if it may take it."""
    try:
        error = static_refusal(candidate.info, spec)
    except BaseException as exc:
        reraise_users_interrupt(exc)
        message = f"the {candidate.info.id} backend failed: it could not check this spec"
        error = GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=message, detail=describe_exception(exc))
    return _signed(error, candidate) if error else None


def nobody_may(
    spec: GrammarSpec, registry: Registry, refusals: Sequence[GrammarError], *, backend: str | None
) -> GrammarError:
    """The error for a spec that every candidate refused before it was compiled. If the request named one, all others
    are asked for the hint."""
    error = nobody_takes(spec, refusals)
    if backend is None:
        return error
    others = [each for each in _unnamed(registry) if each.info.id != backend]
    names = tuple(each.info.id for each in _asked(_rank(others, spec, registry), spec).candidates)
    hint = f"leave the backend out, or name {' or '.join(names)}" if names else error.hint
    return attrs.evolve(error, candidates=names, hint=hint)


def _unnamed(registry: Registry) -> Sequence[RegisteredBackend]:
    """The backends for requests that name none."""
    return [each for each in registry.backends.values() if not each.info.by_name_only]


def _rank(backends: Sequence[RegisteredBackend], spec: GrammarSpec, registry: Registry) -> Ranking:
    forbidden = registry.forbidden(spec, [each.info for each in backends])
    refusals = tuple(_forbidden(each, forbidden[each.info.id]) for each in backends if each.info.id in forbidden)
    allowed = [each for each in backends if each.info.id not in forbidden]
    weights = registry.preferences(spec, [each.info for each in allowed]) if len(allowed) > 1 else {}
    allowed.sort(key=lambda each: (-weights.get(each.info.id, 0.0), *_default_rank(each.info.id)))
    return Ranking(tuple(allowed), refusals)


def _asked(ranking: Ranking, spec: GrammarSpec) -> Ranking:
    asked = [(each, refusal(each, spec)) for each in ranking.candidates]
    able = tuple(each for each, error in asked if error is None)
    return Ranking(able, (*ranking.refusals, *(error for _, error in asked if error)))


def _forbidden(candidate: RegisteredBackend, reason: str) -> GrammarError:
    message = f"{candidate.info.id} is not allowed for this request: {reason}"
    return _signed(GrammarError(kind=ErrorKind.UNAVAILABLE, fault=Fault.CALLER, message=message), candidate)


def _signed(error: GrammarError, candidate: RegisteredBackend) -> GrammarError:
    return attrs.evolve(error, backend=candidate.info.id, distribution=candidate.distribution)


def _default_rank(backend: str) -> tuple[int, str]:
    return (DEFAULT_ORDER.index(backend) if backend in DEFAULT_ORDER else len(DEFAULT_ORDER), backend)


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
