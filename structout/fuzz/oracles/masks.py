"""Are the rows right? Against what the matcher accepts, against its own state, and for ever going on."""

import numpy as np

from structout.backend import Status, SupportsForcedText
from structout.fuzz.law import Law, broken
from structout.fuzz.probe import Probe, call
from structout.fuzz.trial import Trial

STATES = 2
"""States in which every token of the vocabulary is offered, for each case."""
_LIMIT = 64
"""Bytes of forced text that are asked for."""
LOOK_AHEAD = 8
"""Allowed tokens of a state that are followed to see whether the state behind them can go on."""


def mask_is_accept(trial: Trial) -> None:
    """Every token is offered in random states: those whose bit is set are accepted, the others change nothing."""
    for probe in trial.states(STATES):
        _offer_all(trial, probe)


def _offer_all(trial: Trial, probe: Probe) -> None:
    bits = probe.fill()
    accepting = probe.is_accepting
    for token in range(trial.vocabulary.padded_size):
        status = probe.accept(token)
        if (status is Status.OK) is not bool(bits[token]):
            bit = "set" if bits[token] else "not set"
            message = f"a token whose bit is {bit} is answered with {status.name}"
            piece = repr(trial.vocabulary.token(token))
            broken(Law.MASK_IS_ACCEPT, message, bit=bit, token=token, piece=piece, **probe.where())
        if status is Status.OK:
            probe = _taken_back(probe)
    if not np.array_equal(bits, probe.fill()) or probe.is_accepting is not accepting:
        message = "after offering every token, and taking back those it accepted, its state is another"
        broken(Law.REFUSED_TOKEN, message, **probe.where())


def _taken_back(probe: Probe) -> Probe:
    """A probe in the state before the last token."""
    if probe.can_roll_back:
        probe.rollback(1)
        return probe
    probe.tokens.pop()
    return probe.replayed()


def fill_is_pure(trial: Trial) -> None:
    """A sequence that is asked for rows all along and one that never is are in the same state."""
    for probe in trial.states(STATES):
        unasked = probe.replayed()
        differing = (probe.fill() != unasked.fill()).nonzero()[0].tolist()
        if differing or probe.is_accepting is not unasked.is_accepting:
            message = "a sequence that was asked for its rows is in another state than one that was not"
            broken(Law.FILL_IS_PURE, message, differing=differing[:8], **probe.where())


def something_can_follow(trial: Trial) -> None:
    """No state on a walk, nor one token beside it, has an empty row."""
    for probe in trial.states(STATES):
        choices = probe.fill().nonzero()[0].tolist()
        if not choices:
            broken(Law.LIVENESS, "no token can follow, and no stop token either", **probe.where())
        for token in trial.draw.sample(choices, min(LOOK_AHEAD, len(choices))):
            if token not in probe.stops:
                ahead = probe.replayed()
                trial.step(ahead, token)
                trial.counts["states looked at"] += 1
                if not ahead.fill().any():
                    broken(Law.LIVENESS, "an allowed token leads where no token can follow", **ahead.where())


def forced_text_is_forced(trial: Trial) -> None:
    """What is called forced is accepted, and every allowed token agrees with it."""
    for probe in trial.states(STATES * 2):
        if not isinstance(probe.matcher, SupportsForcedText):
            return
        _follow(trial, probe, _forced(probe.matcher))


def _forced(matcher: SupportsForcedText) -> bytes:
    text: object = call("forced_text()", lambda: matcher.forced_text(_LIMIT))
    if not isinstance(text, bytes):
        broken(Law.RESULT_DISCIPLINE, f"forced_text() returned {type(text).__name__}")
    if len(text) > _LIMIT:
        broken(Law.FORCED_TEXT, f"forced_text({_LIMIT}) returned {len(text)} bytes")
    return text


def _follow(trial: Trial, probe: Probe, forced: bytes) -> None:
    """Goes along the forced text, by one of its longest tokens or of its shortest each."""
    rest = forced
    while rest:
        within: list[int] = []
        for token in probe.fill().nonzero()[0].tolist():
            piece = trial.vocabulary.token(token)
            if token in probe.stops or not piece or not (rest.startswith(piece) or piece.startswith(rest)):
                message = "a token may follow that does not agree with the forced text"
                broken(Law.FORCED_TEXT, message, token=token, forced=repr(forced), **probe.where())
            within += [token] if rest.startswith(piece) else []
        if not within:
            return
        token = trial.draw.choice((min, max))(within, key=lambda each: len(trial.vocabulary.token(each)))
        trial.step(probe, token)
        rest = rest[len(trial.vocabulary.token(token)) :]
