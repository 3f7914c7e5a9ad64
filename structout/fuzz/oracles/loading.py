"""A grammar that crosses processes as data is the same there."""

import functools

from structout.backend import CompiledGrammar, SupportsDeserialization, SupportsSerialization
from structout.errors import GrammarError
from structout.fuzz.law import Law, broken
from structout.fuzz.oracles.second import second
from structout.fuzz.oracles.state import same_state
from structout.fuzz.probe import Probed, call
from structout.fuzz.tokenizations import as_bytes
from structout.fuzz.trial import Trial
from structout.grammar import BoundBackend
from structout.result import Err, Ok


def loads_as_saved(trial: Trial) -> None:
    """What a grammar serializes, another instance of the backend loads, and gives the same rows: behind random walks,
    and behind the first half of a member."""
    loaded = _loaded(trial)
    if loaded is None:
        return
    walks = [probe.tokens for probe in trial.states(4)]
    for member in trial.case.members[:1]:
        data = member.text.encode()
        walks.append(as_bytes(trial.vocabulary, data[: len(data) // 2]) or [])
    for tokens in walks:
        probe, again = trial.probed.start(), loaded.start()
        if probe.feed(tokens) != again.feed(tokens):
            broken(Law.DETERMINISM, "saved and loaded again, it takes other tokens", walk=tokens, **probe.where())
        same_state(Law.DETERMINISM, "after it was saved and loaded again", again, probe)


def _loaded(trial: Trial) -> Probed | None:
    """The grammar after the way there and back; None where the backend has no such way."""
    compiled: object = trial.grammar.compiled
    if not isinstance(compiled, SupportsSerialization):
        return None
    backend: object = _another(trial.bound).backend
    if not isinstance(backend, SupportsDeserialization):
        return None
    data: object = call("serialize()", compiled.serialize)
    if not isinstance(data, bytes):
        return broken(Law.RESULT_DISCIPLINE, f"serialize() returned {type(data).__name__}, not bytes")
    result: object = call("deserialize()", lambda: backend.deserialize(data))
    match result:
        case Ok(CompiledGrammar() as grammar):
            return Probed(grammar, trial.vocabulary)
        case Err(GrammarError() as error):
            return broken(Law.DETERMINISM, "what it has serialized it does not load", error=error.to_json())
    return broken(Law.RESULT_DISCIPLINE, f"deserialize() returned {type(result).__name__}, or one of no grammar")


@functools.lru_cache(maxsize=1)
def _another(bound: BoundBackend) -> BoundBackend:
    """A second instance for the same vocabulary."""
    return second(bound, bound.vocabulary, "twice")
