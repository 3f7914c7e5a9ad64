"""Laws of ``compile``: what it says of what it refuses, and that a spec gets its own grammar every time."""

import random
import re
import string
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import attrs

from structout.errors import ErrorKind, GrammarError
from structout.fuzz.case import Case
from structout.fuzz.law import Broken, Law, broken
from structout.fuzz.oracles.language import walks_end_in_the_language
from structout.fuzz.probe import Bits, Probe, Probed
from structout.fuzz.trial import Trial, trial_of
from structout.result import Err, Ok
from structout.schema import reachable
from structout.schema.loading import load_registry, load_schema
from structout.spec import Choice, Ebnf, GrammarSpec, JsonSchema, Lark, Regex, Serialization, StructuralTag, Whitespace

_INTERNALS: Final = re.compile(
    r"Traceback|0x[0-9a-fA-F]{6,}|(?:^|[\s('\"])/(?:home|usr|root|tmp|build|project|opt)/|\.(?:py|rs|cc|cpp|hpp|h):\d+"
    r"|panicked|object at |Check failed"
)


def check_refusal(error: GrammarError, *, has_members: bool) -> None:
    """That an error about a valid spec is a refusal that a caller can act on."""
    said = error.to_json()
    if error.kind is ErrorKind.UNSATISFIABLE and has_members:
        broken(Law.WRONG_REJECTION, "it calls a spec unsatisfiable that has texts", error=said)
    if error.kind is ErrorKind.BACKEND_FAILURE:
        is_out_of_memory = "MemoryError" in (error.detail or "")
        law = Law.MEMORY if is_out_of_memory else Law.RESULT_DISCIPLINE
        broken(law, f"it failed: {error.detail or error.message}")
    if error.kind in (ErrorKind.INVALID_SPEC, ErrorKind.ENGINE_FAILURE):
        broken(Law.RESULT_DISCIPLINE, f"it answers a valid spec with {error.kind.value}", error=said)
    if not error.message.strip():
        broken(Law.RESULT_DISCIPLINE, "an error has no message", error=said)
    if _INTERNALS.search(f"{error.message} {error.hint}"):
        broken(Law.RESULT_DISCIPLINE, "the message of an error shows internals", error=said)
    if error.kind is ErrorKind.UNSUPPORTED and not (error.pointer is not None or error.keyword or error.hint):
        broken(Law.RESULT_DISCIPLINE, "a refusal says neither where nor what to do", error=said)


def findings_are_of_the_spec(trial: Trial) -> None:
    """Each place that a grammar lists has the keyword that it lists there; ``type`` may be listed where it is missing.

    What holds for the whole grammar is listed at the root; under ``narrowed`` that may be what is no keyword, such as
    white space.
    """
    grammar, spec = trial.grammar, trial.case.spec
    if not (grammar.unenforced or grammar.narrowed) or not isinstance(spec, JsonSchema):
        return
    nodes = list(reachable(load_schema(spec).unwrap(), spec.dialect, registry=load_registry(spec).unwrap()))
    anywhere = {name for node in nodes for name in node.keywords}
    stands = {(node.location, name) for node in nodes for name in (*node.keywords, "type")}
    stands |= {("", name) for name in anywhere}
    for finding in (*grammar.unenforced, *(each for each in grammar.narrowed if each.pointer)):
        if (finding.pointer, finding.keyword) not in stands:
            what = "it lists a keyword at a place where that does not stand"
            broken(Law.RESULT_DISCIPLINE, what, pointer=finding.pointer, keyword=finding.keyword)


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


def similar_specs_are_kept_apart(trial: Trial) -> None:
    """A spec that differs in a character or a policy gets its own grammar, and this one keeps its own."""
    for spec in siblings(trial.case.spec, trial.draw):
        match trial.bound.compile(spec):
            case Ok(grammar):
                _is_not_the_original(trial, trial_of(grammar, Case(spec), trial.draw))
    compiles_the_same_again(trial)


def _is_not_the_original(trial: Trial, sibling: Trial) -> None:
    """That what the sibling's walks end with is not of the original's language instead of its own."""
    try:
        walks_end_in_the_language(sibling)
    except Broken as exc:
        evidence = dict(exc.violation.evidence)
        is_originals = trial.judge is not None and trial.judge.decide(evidence.get("text", "").encode()) is True
        if exc.violation.law in (Law.OVER_ACCEPTANCE, Law.SERIALIZATION) and is_originals:
            broken(Law.CACHE, "after a similar spec, a spec gets the grammar of that one", **evidence)


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
    """The text with a digit or small letter changed, as long as before, mostly one of the last three; itself where
    there is none."""
    places = [index for index, char in enumerate(text) if char in string.digits + string.ascii_lowercase]
    if not places:
        return text
    index = draw.choice((*places[-3:], places[0]))
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
    # Begun here and continued there: an engine's matchers are not used by one thread alone.
    begun = [trial.probed.start() for _ in range(_THREADS)]

    def work(number: int) -> None:
        _gives(begun[number], *expected[number % len(expected)])
        for tokens, bits in expected[number:] + expected[:number]:
            for other in others:
                trial.bound.compile(other)
            _gives(_recompiled(trial).start(), tokens, bits)

    with ThreadPoolExecutor(_THREADS) as pool:
        try:
            list(pool.map(work, range(_THREADS)))
        except Broken as exc:
            broken(Law.CONCURRENCY, f"in several threads: {exc.violation.message}", **exc.violation.evidence)


def _gives(probe: Probe, tokens: list[int], bits: Bits) -> None:
    if probe.feed(tokens) < len(tokens) or (probe.fill() != bits).any():
        broken(Law.CONCURRENCY, "a walk gives other rows than alone", walk=tokens, **probe.where())
