"""A spec gets its own grammar, whatever else was compiled and by which instance of the backend, and it stays so."""

import functools
import itertools
import time
from typing import Final, NoReturn

import attrs
import numpy as np
import numpy.typing as npt

from structout.fuzz.law import Law, broken
from structout.fuzz.oracles.second import second
from structout.fuzz.oracles.state import same_state
from structout.fuzz.probe import Probe, Probed
from structout.fuzz.siblings import siblings, variants
from structout.fuzz.tokenizations import as_bytes
from structout.fuzz.trial import Trial, trial_of
from structout.fuzz.vocabulary import renumbered
from structout.grammar import BoundBackend
from structout.result import Err, Ok
from structout.spec import Choice, Ebnf, GrammarSpec, JsonSchema, Lark, Regex, spec_to_json

_LONGEST: Final = 60
"""Bytes of a text along which two instances are compared."""
_VARIANTS: Final = 2
"""How many of a spec's variants are compiled beside it."""
_OTHERS: Final = 300
_OTHERS_S: Final = 3.0
"""Other specs that are compiled while something is held, and what that may take."""


def instances_agree(trial: Trial) -> None:
    """The backend, made again for the same tokens under other ids, and asked for the same and similar specs in another
    order, makes grammars of the same languages of them: nothing depends on what was compiled before."""
    spec, twin = trial.case.spec, _twin_of(trial.bound)
    varied = list(variants(spec))
    similar = [*siblings(spec, trial.draw), *trial.draw.sample(varied, min(_VARIANTS, len(varied)))]
    mine = [(each, trial.bound.compile(each)) for each in similar]
    theirs = [twin.bound.compile(each) for each in (*similar, spec)]
    for (each, one), other in zip([*mine, (spec, trial.bound.compile(spec))], theirs, strict=True):
        match one, other:
            case Ok(grammar), Ok(again):
                like = attrs.evolve(trial.case, spec=each)
                _agree(trial_of(grammar, like, trial.draw), Probed(again.compiled, again.vocabulary), twin.ids)
            case (Ok(), Err(error)) | (Err(error), Ok()):
                what = "of two instances of the backend one refuses a spec that the other takes"
                broken(Law.CACHE, what, spec=spec_to_json(each), error=error.to_json())


@attrs.frozen
class _Twin:
    """Another instance of a backend, on a vocabulary of the same tokens; ``ids`` are theirs by those of the first."""

    bound: BoundBackend
    ids: npt.NDArray[np.intp]


@functools.lru_cache(maxsize=4)
def _twin_of(bound: BoundBackend) -> _Twin:
    vocabulary, ids = renumbered(bound.vocabulary)
    return _Twin(second(bound, vocabulary, "for a second vocabulary"), ids)


def _agree(trial: Trial, other: Probed, ids: npt.NDArray[np.intp]) -> None:
    """That rows are the same behind random walks, and all along a member and a stranger as far as they can go."""
    for probe in trial.states(3):
        again = other.start()
        if again.feed(ids[probe.tokens].tolist()) < len(probe.tokens):
            _disagree(trial, probe)
        _same_row(trial, probe, again, ids)
    for text in (*trial.case.members[:1], *trial.case.strangers[:1]):
        probe, again = trial.probed.start(), other.start()
        for byte in (as_bytes(trial.vocabulary, text.text.encode()) or ())[:_LONGEST]:
            _same_row(trial, probe, again, ids)
            if probe.accept(byte) is not again.accept(int(ids[byte])):
                _disagree(trial, probe)


def _same_row(trial: Trial, probe: Probe, again: Probe, ids: npt.NDArray[np.intp]) -> None:
    row, other = probe.try_fill()[1], again.try_fill()[1]
    if (row[: ids.size] != other[ids]).any():
        _disagree(trial, probe)


def _disagree(trial: Trial, probe: Probe) -> NoReturn:
    what = "what may follow depends on what was compiled before, or on the ids of the tokens"
    broken(Law.CACHE, what, spec=spec_to_json(trial.case.spec), **probe.where())


def what_is_held_stays(trial: Trial) -> None:
    """A grammar and a sequence that are held go on as before, whatever else was compiled meanwhile."""
    probe = next(itertools.islice(trial.states(2), 1, None))
    until = time.monotonic() + _OTHERS_S
    for number in range(_OTHERS):
        if time.monotonic() > until:
            break
        trial.bound.compile(_numbered(trial.case.spec, number))
    same_state(Law.CACHE, "after others were compiled", probe, probe.replayed())


def _numbered(spec: GrammarSpec, number: int) -> GrammarSpec:
    """A small spec of the same kind, another one for each number."""
    text = f"n{number}"
    match spec:
        case Choice():
            return Choice([text])
        case Ebnf():
            return Ebnf(f'root ::= "{text}"')
        case Lark():
            return Lark(f'start: "{text}"')
        case JsonSchema():
            return JsonSchema(f'{{"const": "{text}"}}')
        case _:
            return Regex(text)
