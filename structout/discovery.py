"""Finds plugins and loads them one by one; the only module that talks to pluggy.

A plugin that fails to load costs itself and nobody else. What is not there, what is broken, what is registered twice
and what was switched off are told apart, each with the distribution it comes from::

    registry = discover()
    registry.backends      # id -> RegisteredBackend
    registry.problems      # why others are not among them
"""

import enum
import importlib
import importlib.metadata
import logging
import os
import reprlib
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
import pluggy
from packaging.requirements import Requirement

from structout import hookspecs
from structout.backend import API_VERSION, BackendInfo
from structout.errors import ErrorKind, Fault, GrammarError, describe_exception, is_users_interrupt
from structout.hookspecs import PROJECT, CompileEvent
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec

logger = logging.getLogger(__name__)

DISABLE_VARIABLE: Final = "STRUCTOUT_DISABLE"
"""Environment variable with names to switch off, separated by commas."""


class ProblemKind(enum.StrEnum):
    """UNAVAILABLE: something it needs is not installed. BROKEN: it failed to load or breaks a rule. DUPLICATE: its
    backend's id is taken twice. DISABLED: switched off."""

    UNAVAILABLE = "unavailable"
    BROKEN = "broken"
    DUPLICATE = "duplicate"
    DISABLED = "disabled"


@attrs.frozen(kw_only=True)
class Problem:
    """Why a plugin, or one of its backends, is not there.

    Attributes:
        kind: see `ProblemKind`.
        plugin: name of the entry point, or the name under which it was passed.
        distribution: name and version of its package; None for one passed in process.
        backend: id of the backend concerned; None if it concerns the whole plugin.
        reason: what happened, in a sentence.
        hint: what to do about it.
    """

    kind: ProblemKind
    plugin: str
    distribution: str | None
    backend: str | None = None
    reason: str
    hint: str | None = None


@attrs.frozen
class RegisteredBackend:
    """A backend that can be used, and who brought it."""

    info: BackendInfo
    plugin: str
    distribution: str | None


@attrs.frozen
class _Source:
    """A plugin before it is loaded."""

    name: str
    distribution: str | None
    entry_point: importlib.metadata.EntryPoint | None = None
    plugin: object = None

    @property
    def package(self) -> str | None:
        """The top-level package that is the plugin's own."""
        return self.entry_point.value.partition(":")[0].partition(".")[0].strip() if self.entry_point else None

    def load(self) -> object:
        return self.plugin if self.entry_point is None else self.entry_point.load()

    def problem(self, kind: ProblemKind, reason: str, hint: str | None = None, backend: str | None = None) -> Problem:
        return Problem(
            kind=kind, plugin=self.name, distribution=self.distribution, backend=backend, reason=reason, hint=hint
        )


@attrs.frozen(eq=False)
class _Hooks:
    """A loaded plugin's own hooks: pluggy with nobody else registered, so that whatever goes wrong has one name."""

    source: _Source
    manager: pluggy.PluginManager

    def call(self, hook: str, **arguments: Any) -> list[Any]:
        """What the plugin's implementations of ``hook`` return. Raises what they raise."""
        results: list[Any] = getattr(self.manager.hook, hook)(**arguments)
        return results


@attrs.frozen(eq=False)
class Registry:
    """What is installed. Immutable; made by `discover`.

    Attributes:
        backends: those that can be used, by id.
        problems: what cannot, and why.
    """

    backends: Mapping[str, RegisteredBackend]
    problems: tuple[Problem, ...]
    _hooks: tuple[_Hooks, ...] = attrs.field(repr=False)

    def find(self, backend: str) -> Result[RegisteredBackend, GrammarError]:
        """The backend of that id, or an UNAVAILABLE error that says what became of it."""
        if found := self.backends.get(backend):
            return Ok(found)
        known = f"there are {', '.join(sorted(self.backends)) or 'none'}"
        for problem in self.problems:
            if backend in (problem.backend, problem.plugin):
                message = f"the backend {backend} is {problem.kind.value}"
                return Err(_unavailable(message, backend, problem.hint or known, problem.distribution, problem.reason))
        return Err(_unavailable(f"there is no backend {backend!r}", backend, known))

    def preferences(self, spec: GrammarSpec, candidates: Sequence[BackendInfo]) -> dict[str, float]:
        """Sum of all plugins' weights for the candidates, by id. A plugin that fails is logged and counts as silent."""
        weights: dict[str, float] = defaultdict(float)
        for vote in self._votes("structout_prefer_backends", spec, candidates, _is_weight):
            for backend, weight in vote.items():
                weights[backend] += weight
        return dict(weights)

    def forbidden(self, spec: GrammarSpec, candidates: Sequence[BackendInfo]) -> dict[str, str]:
        """Reasons of all plugins that forbid a candidate, by id."""
        reasons: dict[str, list[str]] = defaultdict(list)
        for vote in self._votes("structout_forbid_backends", spec, candidates, _is_text):
            for backend, reason in vote.items():
                reasons[backend].append(reason)
        return {backend: "; ".join(sorted(texts)) for backend, texts in reasons.items()}

    def compile_finished(self, event: CompileEvent) -> None:
        """Tells every observer, one by one; what one raises is logged with its name."""
        for hooks in self._hooks:
            self._call(hooks, "structout_compile_finished", event=event)

    def _votes(
        self, hook: str, spec: GrammarSpec, candidates: Sequence[BackendInfo], is_value: Callable[[object], bool]
    ) -> Iterator[Mapping[str, Any]]:
        for hooks in self._hooks:
            for vote in self._call(hooks, hook, spec=spec, candidates=tuple(candidates)):
                try:
                    checked = _checked_vote(vote, is_value)
                except BaseException as exc:
                    if is_users_interrupt(exc):
                        raise
                    logger.error("%s of plugin %s: %s", hook, hooks.source.name, describe_exception(exc))
                else:
                    yield checked

    @staticmethod
    def _call(hooks: _Hooks, hook: str, **arguments: Any) -> list[Any]:
        try:
            return hooks.call(hook, **arguments)
        except BaseException as exc:
            if is_users_interrupt(exc):
                raise
            logger.exception("%s of plugin %s (%s) failed", hook, hooks.source.name, hooks.source.distribution)
            return []


def discover(
    *,
    disable: Collection[str] | None = None,
    plugins: Mapping[str, object] | None = None,
    entry_points: Iterable[importlib.metadata.EntryPoint] | None = None,
) -> Registry:
    """Loads every plugin that is installed.

    Args:
        disable: names of plugins, distributions or backends to leave out; the environment variable
            ``STRUCTOUT_DISABLE`` (separated by commas) when not given.
        plugins: further plugins by name, as objects: for embedding and for tests.
        entry_points: instead of the installed ones of the group ``structout``.
    """
    off = frozenset(_disabled_by_environment() if disable is None else disable)
    problems: list[Problem] = []
    hooks = [loaded for source in _sources(entry_points, plugins or {}) if (loaded := _load(source, off, problems))]
    described = [(each, info) for each in hooks for info in _describe(each, problems)]
    return Registry(_usable(described, off, problems), tuple(problems), tuple(hooks))


def plugins_named(names: Iterable[str]) -> dict[str, object]:
    """Plugins that are not installed, for `discover`; each is given as ``module:attribute``, a class is called.

    Raises what importing them raises, and ValueError for a name that is not of this form.
    """
    return {name: _named(name) for name in names}


def _named(name: str) -> object:
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"a plugin is given as MODULE:ATTRIBUTE, not {name!r}")
    plugin = getattr(importlib.import_module(module), attribute)
    return plugin() if isinstance(plugin, type) else plugin


def _disabled_by_environment() -> list[str]:
    return [name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip()]


def _sources(
    entry_points: Iterable[importlib.metadata.EntryPoint] | None, plugins: Mapping[str, object]
) -> Iterator[_Source]:
    installed = importlib.metadata.entry_points(group=PROJECT) if entry_points is None else entry_points
    for entry_point in sorted(installed, key=lambda each: each.name):
        dist = entry_point.dist
        yield _Source(entry_point.name, f"{dist.name} {dist.version}" if dist else None, entry_point)
    for name, plugin in plugins.items():
        yield _Source(name, None, plugin=plugin)


def _load(source: _Source, off: frozenset[str], problems: list[Problem]) -> _Hooks | None:
    """Loads one plugin, or adds to ``problems`` why not."""
    distribution = (source.distribution or "").split(" ")[0]
    if source.name in off or distribution in off:
        problems.append(source.problem(ProblemKind.DISABLED, "it was switched off"))
        return None
    try:
        plugin = source.load()
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(hookspecs)
        manager.register(plugin, source.name)
        manager.check_pending()
        if not manager.get_hookcallers(plugin):
            raise TypeError(f"it implements no hook of {PROJECT}; are its functions marked with structout.hookimpl?")
    except BaseException as exc:
        if is_users_interrupt(exc):
            raise
        problems.append(_load_problem(source, exc))
        return None
    return _Hooks(source, manager)


def _load_problem(source: _Source, exc: BaseException) -> Problem:
    """A module that is missing and not the plugin's own makes it unavailable; anything else is broken."""
    missing = exc.name if isinstance(exc, ModuleNotFoundError) else None
    if isinstance(missing, str) and missing and missing.partition(".")[0] != source.package:
        return source.problem(
            ProblemKind.UNAVAILABLE, f"it needs the module {missing}", f"install what provides {missing}"
        )
    hint = f"update or uninstall {source.distribution or source.name}"
    return source.problem(ProblemKind.BROKEN, describe_exception(exc), hint)


def _describe(hooks: _Hooks, problems: list[Problem]) -> list[BackendInfo]:
    """The backends that a plugin registers; a wrong one is a problem and does not take the others along."""
    try:
        answers = [list(answer) for answer in hooks.call("structout_register_backends")]
    except BaseException as exc:
        if is_users_interrupt(exc):
            raise
        problems.append(hooks.source.problem(ProblemKind.BROKEN, describe_exception(exc)))
        return []
    infos = []
    for info in (info for answer in answers for info in answer):
        if isinstance(info, BackendInfo):
            infos.append(info)
        else:
            reason = f"structout_register_backends gave {type(info).__name__} instead of BackendInfo"
            problems.append(hooks.source.problem(ProblemKind.BROKEN, reason))
    return infos


def _usable(
    described: list[tuple[_Hooks, BackendInfo]], off: frozenset[str], problems: list[Problem]
) -> dict[str, RegisteredBackend]:
    by_id: dict[str, list[tuple[_Hooks, BackendInfo]]] = defaultdict(list)
    for hooks, info in described:
        if info.id in off:
            problems.append(hooks.source.problem(ProblemKind.DISABLED, "it was switched off", backend=info.id))
        else:
            by_id[info.id].append((hooks, info))
    usable = {}
    for backend, [(hooks, info), *others] in by_id.items():
        if others:
            problems.extend(_duplicates(backend, [hooks.source, *(other.source for other, _ in others)]))
        elif problem := _obstacle(hooks.source, info):
            problems.append(problem)
        else:
            usable[backend] = RegisteredBackend(info, hooks.source.name, hooks.source.distribution)
    return usable


def _duplicates(backend: str, sources: Sequence[_Source]) -> Iterator[Problem]:
    names = " and ".join(f"plugin {source.name} of {source.distribution or 'this process'}" for source in sources)
    for source in sources:
        yield source.problem(
            ProblemKind.DUPLICATE,
            f"the id {backend} is registered by {names}",
            f"uninstall one, or switch one off with {DISABLE_VARIABLE}",
            backend,
        )


def _obstacle(source: _Source, info: BackendInfo) -> Problem | None:
    """What keeps one described backend from being used; None if nothing does."""
    if info.api_version != API_VERSION:
        reason = f"it is made for version {info.api_version} of the plugin API, this is version {API_VERSION}"
        return source.problem(ProblemKind.BROKEN, reason, "install a matching version of it", info.id)
    try:
        missing = [requirement for requirement in info.requires if not _is_installed(Requirement(requirement))]
    except Exception as exc:
        # What it requires may be no requirement, and what is installed may have broken metadata.
        return source.problem(ProblemKind.BROKEN, f"requires: {describe_exception(exc)}", backend=info.id)
    if missing:
        hint = info.install_hint or f"pip install {' '.join(missing)}"
        return source.problem(ProblemKind.UNAVAILABLE, f"it needs {', '.join(missing)}", hint, info.id)
    return None


def _checked_vote(vote: object, is_value: Callable[[object], bool]) -> dict[str, Any]:
    """A copy of one plugin's vote. Raises TypeError if it is none, and what a mapping of the plugin's own raises."""
    checked = dict(vote.items()) if isinstance(vote, Mapping) else None
    if checked is None or not all(map(is_value, checked.values())):
        raise TypeError(f"it returned {reprlib.repr(vote)}")
    return checked


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_installed(requirement: Requirement) -> bool:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def _unavailable(
    message: str, backend: str, hint: str, distribution: str | None = None, detail: str | None = None
) -> GrammarError:
    return GrammarError(
        kind=ErrorKind.UNAVAILABLE,
        fault=Fault.CALLER,
        message=message,
        backend=backend,
        distribution=distribution,
        hint=hint,
        detail=detail,
    )
