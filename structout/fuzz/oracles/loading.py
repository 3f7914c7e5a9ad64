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
from structout.result import Err, Ok, Result
from structout.vocabulary import TokenKind, Vocabulary


def loads_as_saved(trial: Trial) -> None:
    """What a grammar serializes, another instance of the backend loads, and gives the same rows: behind random walks,
    and behind the first half of a member. What is damaged, or was meant for another vocabulary, is an error."""
    data = _serialized(trial)
    if data is None:
        return
    another = _another(trial.bound)
    loaded = _loaded(another, data)
    for what, damaged in (("nothing", b""), ("a half of it", data[: len(data) // 2]), ("more", data + b"\0")):
        _refuses(another, damaged, f"it loads {what} as if it was what it has serialized")
    _refuses(_elsewhere(trial.bound), data, "it loads what was serialized for another vocabulary")
    walks = [probe.tokens for probe in trial.states(4)]
    for member in trial.case.members[:1]:
        data = member.text.encode()
        walks.append(as_bytes(trial.vocabulary, data[: len(data) // 2]) or [])
    for tokens in walks:
        probe, again = trial.probed.start(), loaded.start()
        if probe.feed(tokens) != again.feed(tokens):
            broken(Law.DETERMINISM, "saved and loaded again, it takes other tokens", walk=tokens, **probe.where())
        same_state(Law.DETERMINISM, "after it was saved and loaded again", again, probe)


def _serialized(trial: Trial) -> bytes | None:
    """The grammar as data; None where the backend has no such way."""
    compiled: object = trial.grammar.compiled
    if not isinstance(compiled, SupportsSerialization) or not isinstance(trial.bound.backend, SupportsDeserialization):
        return None
    data: object = call("serialize()", compiled.serialize)
    if not isinstance(data, bytes):
        return broken(Law.RESULT_DISCIPLINE, f"serialize() returned {type(data).__name__}, not bytes")
    return data


def _loaded(bound: BoundBackend, data: bytes) -> Probed:
    match _result(bound, data):
        case Ok(grammar):
            return Probed(grammar, bound.vocabulary)
        case Err(error):
            return broken(Law.DETERMINISM, "what it has serialized it does not load", error=error.to_json())


def _refuses(bound: BoundBackend, data: bytes, otherwise: str) -> None:
    if isinstance(_result(bound, data), Ok):
        broken(Law.RESULT_DISCIPLINE, otherwise)


def _result(bound: BoundBackend, data: bytes) -> Result[CompiledGrammar, GrammarError]:
    """What comes of loading, if it is a result at all."""
    backend: object = bound.backend
    assert isinstance(backend, SupportsDeserialization), "another instance of one that is"
    result: object = call("deserialize()", lambda: backend.deserialize(data))
    match result:
        case Ok(CompiledGrammar()) | Err(GrammarError()):
            return result
    return broken(Law.RESULT_DISCIPLINE, f"deserialize() returned {type(result).__name__}, or one of no grammar")


@functools.lru_cache(maxsize=1)
def _another(bound: BoundBackend) -> BoundBackend:
    """A second instance for the same vocabulary."""
    return second(bound, bound.vocabulary, "twice")


@functools.lru_cache(maxsize=1)
def _elsewhere(bound: BoundBackend) -> BoundBackend:
    """An instance for another vocabulary: the same tokens, and one more."""
    here = bound.vocabulary
    tokens = Vocabulary.from_tokens(
        [*here.tokens(), b"<elsewhere>"],
        eos_token_ids=here.eos_token_ids,
        control=here.names,
        added=here.ids(TokenKind.ADDED),
    )
    return second(bound, tokens, "for a second vocabulary")
