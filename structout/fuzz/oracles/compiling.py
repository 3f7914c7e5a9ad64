"""Laws of ``compile``: the same spec gives the same grammar every time, and in several threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np

from structout.fuzz.law import Broken, Law, broken
from structout.fuzz.probe import Bits, Probe, Probed, call, unpack
from structout.fuzz.siblings import siblings
from structout.fuzz.trial import Trial
from structout.result import Err, Ok


def compiles_the_same_again(trial: Trial) -> None:
    """The same spec, compiled again and walked again, gives the same rows."""
    again = _recompiled(trial)
    for probe in trial.states(2):
        other = again.start()
        if other.feed(probe.tokens) < len(probe.tokens) or (other.fill() != probe.fill()).any():
            broken(Law.DETERMINISM, "compiled again, the same spec gives other rows", **probe.where())


def _recompiled(trial: Trial) -> Probed:
    match trial.bound.compile(trial.case.spec):
        case Ok(grammar):
            return Probed(grammar.compiled, trial.vocabulary)
        case Err(error):
            return broken(Law.DETERMINISM, "compiled again, the same spec is refused", error=error.to_json())


_THREADS: Final = 4
_FILLS: Final = 20


def threads_do_not_interfere(trial: Trial) -> None:
    """Four threads compile this and similar specs and walk it by turns: each sees the rows that one thread sees."""
    expected = [(list(probe.tokens), probe.fill()) for probe in trial.states(4)]
    others = list(siblings(trial.case.spec, trial.draw))
    # Begun here and continued there, compiled here and started there: neither is used by one thread alone.
    begun = [trial.probed.start() for _ in range(_THREADS)]

    def work(number: int) -> None:
        _fills_alike(trial, begun[number], *expected[number % len(expected)])
        _gives(trial.probed.start(), *expected[number % len(expected)])
        for tokens, bits in expected[number:] + expected[:number]:
            for other in others:
                trial.bound.compile(other)
            _gives(_recompiled(trial).start(), tokens, bits)

    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            list(pool.map(work, range(_THREADS)))
        except Broken as exc:
            if exc.violation.law is Law.MASK_TIME:
                raise
            broken(Law.CONCURRENCY, f"in several threads: {exc.violation.message}", **exc.violation.evidence)


def _fills_alike(trial: Trial, probe: Probe, tokens: list[int], bits: Bits) -> None:
    """Goes on to the state behind the tokens, and has its row filled there, in one call with others' and alone."""
    _gives(probe, tokens, bits)
    bitmask = np.zeros((1, trial.vocabulary.bitmask_width), np.int32)
    backend = trial.bound.batch_filler
    for _ in range(_FILLS if backend else 0):
        call("fill_batch()", lambda: backend and backend.fill_batch([probe.matcher], bitmask, [0]))
        if (unpack(bitmask[0])[: bits.size] != bits).any():
            broken(Law.CONCURRENCY, "fill_batch() gives another row than alone", walk=tokens, **probe.where())


def _gives(probe: Probe, tokens: list[int], bits: Bits) -> None:
    if probe.feed(tokens) < len(tokens) or (probe.fill() != bits).any():
        broken(Law.CONCURRENCY, "a walk gives other rows than alone", walk=tokens, **probe.where())
