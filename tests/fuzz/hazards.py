"""Plugins for child processes: a backend that does what it is told to, and backends with planted faults."""

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from structout import Choice, Finding, GrammarError, GrammarSpec, JsonSchema, Result, Vocabulary
from structout.backend import Backend, CompiledGrammar
from structout.fuzz.target import Target
from tests.mutants.wrapping import Mutant, PassBackend, PassGrammar, make

SAID: Final = "what native code prints"


def _print() -> None:
    """Writes to the process's standard output past Python's, as native code does."""
    os.write(1, f"{SAID}\n".encode())


def _crash() -> None:
    os.write(2, SAID.encode())
    os.abort()


DEEDS: Final[Mapping[str, Callable[[], object]]] = {
    "print": _print,
    "abort": _crash,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "exit": lambda: os._exit(0),
    "hang": lambda: time.sleep(3600),
    "allocate": lambda: bytearray(8 << 30),
    "raise": lambda: sys.exit("not me"),
}


class Hazards(PassBackend):
    """Does what the first option of a choice says."""

    base = "reference"

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        if isinstance(spec, Choice):
            DEEDS.get(spec.options[0], bool)()
        return super().compile(spec)


class LosesTheLast(PassBackend):
    """Loses the last of several options of a choice, and all that a schema says of an array's items."""

    base = "reference"

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        match spec:
            case Choice(options=[*first, _]) if first:
                return attrs.evolve(spec, options=first)
            case JsonSchema():
                return attrs.evolve(spec, text=spec.text.replace('"items"', '"x"'))
        return spec


class Drops(PassBackend):
    """Ignores a type of items, and says so: refuses it unless it is told to do what it can."""

    base = "reference"
    refuses_early = False

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        open_items = attrs.evolve(spec, text='{"type": "array"}') if isinstance(spec, JsonSchema) else spec
        return self.inner.compile(open_items).map(lambda grammar: Listing(grammar, self))


class Listing(PassGrammar):
    """Lists what `Drops` ignores."""

    unenforced = (Finding("/items", "type", "is ignored"),)


class Narrows(PassBackend):
    """Says that it leaves something out."""

    base = "reference"

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        return self.inner.compile(spec).map(lambda grammar: Narrowing(grammar, self))


class Narrowing(PassGrammar):
    """Lists what `Narrows` leaves out."""

    narrowed = (Finding("", "items", "has one item only"),)


class DependsOnHashes(PassBackend):
    """Loses the first or the last of two options of a choice, as the process's hashes would have it."""

    base = "reference"

    def altered(self, spec: GrammarSpec) -> GrammarSpec:
        seed = int(os.environ["PYTHONHASHSEED"])
        return attrs.evolve(spec, options=[spec.options[-(seed % 2)]]) if isinstance(spec, Choice) else spec


class Raises(PassBackend):
    """Raises on every schema."""

    base = "reference"

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        raise KeyError(spec.kind)


class Crashes(PassBackend):
    """Ends the process on every schema."""

    base = "reference"

    def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
        os.abort()


hazards = make(Hazards)
drops, narrows, raises, crashes = make(Drops), make(Narrows), make(Raises), make(Crashes)
loses_the_last = make(LosesTheLast)


def _cannot_start(_vocabulary: Vocabulary) -> Backend:
    raise ImportError("libgrammar.so is missing")


_broken = attrs.evolve(hazards.info, id="cannot_start", create=_cannot_start)
cannot_start = Mutant("cannot_start", "Cannot be started.", "reference", _broken)
_lark = attrs.evolve(hazards.info, id="only_lark", spec_kinds={"lark"})
only_lark = Mutant("only_lark", "Takes what no case is made of.", "reference", _lark)


def _choices_only(mutant: Mutant, name: str) -> Mutant:
    info = attrs.evolve(mutant.info, id=name, spec_kinds={"choice"})
    return attrs.evolve(mutant, name=name, info=info)


good_choices = _choices_only(hazards, "good_choices")
hash_choices = _choices_only(make(DependsOnHashes), "hash_choices")
faulty_choices = _choices_only(loses_the_last, "faulty_choices")
"""The same for choices only, which are quick."""


def target(mutant: Mutant) -> Target:
    return Target(mutant.name, (f"{__name__}:{mutant.name}",))
