"""One call for many rows, against one call for each."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from structout.backend import Status, SupportsBatchFill
from structout.fuzz.case import Case
from structout.fuzz.law import Law, broken
from structout.fuzz.oracles.state import ended
from structout.fuzz.probe import Probe, call, unpack
from structout.fuzz.siblings import siblings
from structout.fuzz.trial import Trial, trial_of
from structout.result import Ok
from structout.vocabulary import TokenKind

_LONG: Final = 70
"""Rows of a long batch."""
_LONG_TURNS: Final = 8
"""In one of so many cases there is one."""


def batch_is_single(trial: Trial) -> None:
    """Rows of several sequences, of other grammars and stop tokens too, one of which may have ended, in an order of
    their own between rows of others."""
    backend: object = trial.bound.backend
    if not isinstance(backend, SupportsBatchFill):
        return
    probes = [*trial.states(5), *_of_others(trial)]
    if (last := ended(trial)) is not None:
        probes.append(last)
    trial.draw.shuffle(probes)
    for count in (0, 1, len(probes)):
        _compare(trial, backend, probes[:count])
    if trial.draw.randrange(_LONG_TURNS) == 0:
        _compare(trial, backend, list(trial.states(_LONG, tokens=3)))


def _of_others(trial: Trial) -> Iterator[Probe]:
    """Probes with other stop tokens, and of other grammars."""
    yield trial.probed.start(stops=trial.vocabulary.ids(TokenKind.CONTROL))
    for spec in siblings(trial.case.spec, trial.draw):
        match trial.bound.compile(spec):
            case Ok(grammar):
                other = trial_of(grammar, Case(spec), trial.draw)
                yield from other.states(4)


def _compare(trial: Trial, backend: SupportsBatchFill, probes: Sequence[Probe]) -> None:
    rows = trial.draw.sample(range(len(probes) + 3), len(probes))
    bitmask = np.full((len(probes) + 3, trial.vocabulary.bitmask_width), 0x5AA55AA5, np.int32)
    matchers = [probe.matcher for probe in probes]
    statuses = call("fill_batch()", lambda: list(backend.fill_batch(matchers, bitmask, rows.copy())))
    if len(statuses) != len(probes) or not all(isinstance(status, Status) for status in statuses):
        broken(Law.BATCH_FILL, f"fill_batch() of {len(probes)} matchers does not return a Status for each")
    for row in set(range(len(probes) + 3)) - set(rows):
        if (bitmask[row] != 0x5AA55AA5).any():
            broken(Law.BATCH_FILL, "fill_batch() wrote a row that it was not asked for", row=row)
    for probe, row, status in zip(probes, rows, statuses, strict=True):
        single, bits = probe.try_fill()
        if status is not single:
            message = f"fill_batch() answers {status.name} where fill() answers {single.name}"
            broken(Law.BATCH_FILL, message, **probe.where())
        if single is Status.OK and not np.array_equal(unpack(bitmask[row])[: trial.vocabulary.padded_size], bits):
            broken(Law.BATCH_FILL, "a row of fill_batch() differs from that of fill()", row=row, **probe.where())
