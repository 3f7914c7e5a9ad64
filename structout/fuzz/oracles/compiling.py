"""Laws of ``compile``: that a spec gets its own grammar every time, whatever else was compiled, and where."""

import functools
import random
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NoReturn

import attrs
import numpy as np
import numpy.typing as npt

from structout.fuzz.law import Broken, Law, broken
from structout.fuzz.probe import Bits, Probe, Probed
from structout.fuzz.tokenizations import as_bytes
from structout.fuzz.trial import Trial, trial_of
from structout.fuzz.vocabulary import renumbered
from structout.grammar import BoundBackend
from structout.result import Err, Ok
from structout.spec import (
    Choice,
    Ebnf,
    GrammarSpec,
    JsonSchema,
    Lark,
    Regex,
    Serialization,
    StructuralTag,
    Whitespace,
    spec_to_json,
)

_LONGEST: Final = 60
"""Bytes of a text along which two instances are compared."""


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


def instances_agree(trial: Trial) -> None:
    """The backend, made again for the same tokens under other ids, and asked for the same and similar specs in another
    order, makes grammars of the same languages of them: nothing depends on what was compiled before."""
    spec, twin = trial.case.spec, _twin_of(trial.bound)
    similar = list(siblings(spec, trial.draw))
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
    match BoundBackend.create(bound.info, bound.distribution, vocabulary):
        case Ok(twin):
            return _Twin(twin, ids)
        case Err(error):
            message = f"it cannot be started for a second vocabulary: {error.detail or error.message}"
            return broken(Law.RESULT_DISCIPLINE, message)


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


def siblings(spec: GrammarSpec, draw: random.Random) -> Iterator[GrammarSpec]:
    """Specs that differ from one in a character, in the case of a letter, or in the form of the text."""
    alter = draw.choice((_altered, _recased))
    match spec:
        case Choice(options=options) if options:
            yield attrs.evolve(spec, options=[alter(option, draw) for option in options])
            yield attrs.evolve(spec, options=[f"{option} " for option in options])
        case Regex(pattern=pattern):
            yield attrs.evolve(spec, pattern=alter(pattern, draw))
        case JsonSchema(text=text):
            yield attrs.evolve(spec, text=alter(text, draw))
            other = Whitespace.SPACED if spec.serialization.whitespace is Whitespace.COMPACT else Whitespace.COMPACT
            yield attrs.evolve(spec, serialization=Serialization(whitespace=other))
        case Ebnf(text=text) | Lark(text=text) | StructuralTag(text=text):
            yield attrs.evolve(spec, text=alter(text, draw))


def _altered(text: str, draw: random.Random) -> str:
    """The text with a digit or small letter changed, as long as before, three times in five one of the last three;
    itself where there is none."""
    places = [index for index, char in enumerate(text) if char in string.digits + string.ascii_lowercase]
    if not places:
        return text
    index = draw.choice((*places[-3:], places[0], draw.choice(places)))
    pool = string.digits if text[index] in string.digits else string.ascii_lowercase
    return text[:index] + draw.choice(pool.replace(text[index], "")) + text[index + 1 :]


def _recased(text: str, draw: random.Random) -> str:
    """The text with one of its last letters in the other case; itself where there is none."""
    places = [index for index, char in enumerate(text) if char in string.ascii_letters]
    if not places:
        return text
    index = draw.choice(places[-3:])
    return text[:index] + text[index].swapcase() + text[index + 1 :]


_THREADS: Final = 4


def threads_do_not_interfere(trial: Trial) -> None:
    """Four threads compile this and similar specs and walk it by turns: each sees the rows that one thread sees."""
    expected = [(list(probe.tokens), probe.fill()) for probe in trial.states(4)]
    others = list(siblings(trial.case.spec, trial.draw))
    # Begun here and continued there, compiled here and started there: neither is used by one thread alone.
    begun = [trial.probed.start() for _ in range(_THREADS)]

    def work(number: int) -> None:
        _gives(begun[number], *expected[number % len(expected)])
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


def _gives(probe: Probe, tokens: list[int], bits: Bits) -> None:
    if probe.feed(tokens) < len(tokens) or (probe.fill() != bits).any():
        broken(Law.CONCURRENCY, "a walk gives other rows than alone", walk=tokens, **probe.where())
