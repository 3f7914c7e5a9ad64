"""Which backends the engine process has, and the same ones in another process or none."""

import importlib.metadata
from collections.abc import Collection, Iterable, Mapping

import attrs
from packaging.requirements import Requirement

from structout.discovery import Problem, ProblemKind, RegisteredBackend, Registry, discover, plugins_named

HINT = "start the engine again, so that all its processes have the same packages"


def versions(registry: Registry) -> dict[str, str]:
    """Of every backend: the package that brought it and the packages that it requires, each with its version."""
    return {backend: _versions(registered) for backend, registered in registry.backends.items()}


def libraries(registry: Registry) -> frozenset[str]:
    """Names of the distributions that the backends require."""
    return frozenset(name for registered in registry.backends.values() for name in _required(registered))


def _required(registered: RegisteredBackend) -> list[str]:
    return [Requirement(each).name for each in registered.info.requires]


def _versions(registered: RegisteredBackend) -> str:
    required = [f"{name} {importlib.metadata.version(name)}" for name in _required(registered)]
    return ", ".join([registered.distribution or "no distribution", *required])


def same_backends(expected: Mapping[str, str], plugins: Iterable[str], disable: Collection[str] | None) -> Registry:
    """What is installed here, less every backend that is not what another process has by that id.

    Args:
        expected: `versions` of the other process.
        plugins: plugins that are not installed, each as ``module:attribute``.
        disable: as in `discover`.

    Raises what importing ``plugins`` raises, and ValueError for one that is not of this form.
    """
    found = discover(disable=disable, plugins=plugins_named(plugins))
    here = versions(found)
    same = {backend: each for backend, each in found.backends.items() if here[backend] == expected.get(backend)}
    differences = [_difference(backend, there, here.get(backend)) for backend, there in expected.items()]
    problems = [each for each in differences if each.backend not in same]
    return attrs.evolve(found, backends=same, problems=(*problems, *found.problems))


def _difference(backend: str, there: str, here: str | None) -> Problem:
    where = "another process of the engine"
    reason = f"{where} finds {here}, the engine has {there}" if here else f"{where} does not find it"
    return Problem(
        kind=ProblemKind.UNAVAILABLE, plugin=backend, distribution=here, backend=backend, reason=reason, hint=HINT
    )
