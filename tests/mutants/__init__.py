"""Faulty backends: each differs from a good one in a line or two, and the conformance kit has to catch it.

``MUTANTS`` has them by name. Each is a plugin, and an attribute of this package: ``tests.mutants:omits_a_token`` names
it to a fresh process that has the checkout and ``plugins`` on its path.
"""

import inspect
from collections.abc import Iterator
from types import MappingProxyType, ModuleType

from tests.mutants import (
    batches,
    compiles,
    ends,
    forcing,
    keeping,
    languages,
    meetings,
    moves,
    readings,
    resources,
    rows,
    tokens,
)
from tests.mutants.wrapping import Mutant, PassBackend, PassGrammar, PassMatcher, make

MODULES = (rows, moves, ends, forcing, tokens, batches, languages, meetings, readings, compiles, keeping, resources)


def mutants_of(module: ModuleType) -> Iterator[Mutant]:
    """One for each class that the module itself defines, but for what others share."""
    for name, part in inspect.getmembers_static(module, inspect.isclass):
        is_own = part.__module__ == module.__name__ and not name.startswith("_")
        if is_own and issubclass(part, PassMatcher | PassGrammar | PassBackend):
            yield make(part)


MUTANTS = MappingProxyType({mutant.name: mutant for module in MODULES for mutant in mutants_of(module)})


def __getattr__(name: str) -> Mutant:
    if name in MUTANTS:
        return MUTANTS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
