"""Every hook of structout. A plugin implements the ones it needs with ``structout.hookimpl``.

Hooks are found through the entry-point group ``structout``; the object there (a module, usually) carries the
implementations::

    from structout import BackendInfo, hookimpl

    @hookimpl
    def structout_register_backends():
        return [BackendInfo(id="mine", create=create_backend, spec_kinds={"regex"})]
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import pluggy

from structout.backend import BackendInfo
from structout.errors import GrammarError
from structout.spec import GrammarSpec

PROJECT: Final = "structout"
"""Name of the pluggy project and of the entry-point group."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@attrs.frozen(kw_only=True)
class CompileEvent:
    """One compile that has ended, for observers.

    Attributes:
        spec: what was compiled.
        backend: id of the backend that took it, or that refused it last; None if none was tried.
        seconds: wall time from submission to result.
        error: why it failed; None if it did not.
        risk: the spec's class for that backend, by name: "plain", "risky" or "over"
            (`structout.compile.risk.RiskClass`); None if it was not measured, as without a sandbox.
    """

    spec: GrammarSpec
    backend: str | None
    seconds: float
    error: GrammarError | None
    risk: str | None = None


@hookspec
def structout_register_backends() -> Iterable[BackendInfo]:  # type: ignore[empty-body]
    """Describes the backends that a plugin brings. Called once, while plugins are loaded.

    Must not import the backends themselves: that belongs into ``BackendInfo.create``. Two backends with the same id
    are reported with both distributions, and neither is used.

    .. versionadded:: 0.1
    """


@hookspec
def structout_prefer_backends(spec: GrammarSpec, candidates: Sequence[BackendInfo]) -> Mapping[str, float] | None:
    """Moves candidates for a spec forward or back where the request does not name one.

    Returns weights by backend id, or None. The weights of all plugins are added up; candidates are tried by falling
    sum, and in the documented default order where it is equal. Called on a compile thread before a compile: be quick.
    The candidates were not asked yet whether they refuse the spec (``BackendInfo.refusal``). Not called where there is
    a single one.

    .. versionadded:: 0.1
    """


@hookspec
def structout_forbid_backends(spec: GrammarSpec, candidates: Sequence[BackendInfo]) -> Mapping[str, str] | None:
    """Takes candidates for a spec away, also from requests that name them.

    Returns reasons by backend id, or None. What one plugin forbids no other can allow. Called on a compile thread
    before a compile, and not for a spec whose grammar is cached: a grammar that was compiled before stays in use, so
    let the answer depend on the arguments alone.

    .. versionadded:: 0.1
    """


@hookspec
def structout_compile_finished(event: CompileEvent) -> None:
    """Observes the end of every compile, failures too. Called one plugin after the other, off the engine's thread;
    what it raises is logged with the plugin's name and changes nothing.

    .. versionadded:: 0.1
    """
