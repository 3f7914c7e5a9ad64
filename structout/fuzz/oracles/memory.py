"""Are memory, files and threads given back? Rounds of the same work, after which no more may be held than after the one
before."""

import gc
import itertools
import sys
from collections.abc import Callable
from typing import Final

import numpy as np

from structout.fuzz.law import Law, broken
from structout.fuzz.oracles.state import ended
from structout.fuzz.trial import Trial
from structout.processes.usage import open_descriptors, resident_bytes, running_threads
from structout.result import Err, Ok
from structout.spec import Choice, GrammarSpec, JsonSchema, Regex

ROUNDS: Final = 5
"""The first two fill caches and free lists and are not counted."""
NATIVE_BYTES: Final = 64 * 1024
"""Resident bytes that each use may seem to leave behind, round after round, before it counts as a leak."""

_UNWANTED: Final[tuple[GrammarSpec, ...]] = (
    Regex("(?<=a)b"),
    Choice(["a"]),
    JsonSchema('{"type": "string", "pattern": "(?<=a)b"}'),
    JsonSchema('{"not": {"not": {"pattern": "(a)\\\\1"}}}'),
)
"""Specs, the first of which that a backend refuses shows what a refusal leaves behind."""


def nothing_is_left_behind(trial: Trial) -> None:
    """Sequences and grammars that are used alike and dropped: what is held does not grow with their number."""
    probe = trial.probed.start()
    refused = (~trial.walk(probe, 6)).nonzero()[0].tolist()[:1]

    end = ended(trial)
    bitmask = np.zeros((1, trial.vocabulary.bitmask_width), np.int32)

    def match_once() -> object:
        again = trial.probed.start()
        again.fill()
        again.feed(probe.tokens)
        again.feed(refused)
        if again.can_fork:
            again.fork()
        if again.can_roll_back:
            again.rollback(min(2, len(again.tokens)))
        if trial.bound.batch_filler is not None:
            trial.bound.batch_filler.fill_batch([again.matcher], bitmask, [0])
        if end is not None:
            again = trial.probed.start()
            again.feed(end.tokens)
        return again.matcher

    def compile_once() -> object:
        match trial.bound.compile(trial.case.spec):
            case Ok(grammar):
                return grammar.compiled
        return None

    unwanted = next((spec for spec in _UNWANTED if isinstance(trial.bound.compile(spec), Err)), None)

    def refuse_once() -> object:
        return None if unwanted is None else trial.bound.compile(unwanted)

    gc.freeze()  # what is there already need not be gone through in every round
    try:
        _does_not_grow("sequence", 100, match_once, objects=1)
        # A compile that leaves nothing still moves some blocks from round to round: free lists and caches of Python's.
        _does_not_grow("compile", 10, compile_once, objects=50)
        _does_not_grow("refusal", 10, refuse_once, objects=50)
    finally:
        gc.unfreeze()


def _does_not_grow(what: str, times: int, work: Callable[[], object], *, objects: int) -> None:
    instances, blocks, resident, files, threads = zip(*(_after(times, work) for _ in range(ROUNDS)), strict=True)
    for held, limit, unit in (
        (instances, times, "objects of its own type"),
        (blocks, times * objects, "blocks of memory"),
        (resident, times * NATIVE_BYTES, "resident bytes"),
        (files, times, "open files"),
        (threads, times, "threads"),
    ):
        growth = [later - earlier for earlier, later in itertools.pairwise(held[1:])]
        if min(growth) >= limit:
            message = f"each {what} leaves something behind: {min(growth) // times} {unit} and more"
            broken(Law.LEAK, message, growth=growth, times=times)


def _after(times: int, work: Callable[[], object]) -> tuple[int, int, int, int, int]:
    for _ in range(times):
        kind = type(work())
    gc.collect()
    instances = sum(type(each) is kind for each in gc.get_objects())
    return instances, sys.getallocatedblocks(), resident_bytes(), open_descriptors(), running_threads()
