"""Laws of one sequence's state: undoing, copying, refusing, ending."""

import numpy as np

from structout.backend import Status
from structout.constraint import Constraint
from structout.drafts import fill_drafts
from structout.fuzz.law import Law, broken
from structout.fuzz.probe import Probe, unpack
from structout.fuzz.trial import Trial
from structout.vocabulary import TokenKind

STATES = 2


def same_state(law: Law, message: str, probe: Probe, expected: Probe) -> None:
    """That two probes allow the same tokens and are equally complete."""
    if probe.is_terminated is not expected.is_terminated or probe.is_accepting is not expected.is_accepting:
        broken(law, f"{message}: complete or ended differs", **probe.where())
    if expected.is_terminated:
        return
    differing = (probe.fill() != expected.fill()).nonzero()[0].tolist()
    if differing:
        broken(law, f"{message}: other tokens may follow", differing=differing[:8], **probe.where())


def ended(trial: Trial) -> Probe | None:
    """A probe behind a stop token; None if neither a member nor a walk comes to an end."""
    for member in trial.case.members:
        probe = trial.probed.start()
        if all(probe.accept(byte) is Status.OK for byte in member.text.encode()) and probe.is_accepting:
            stop = trial.draw.choice(probe.stops)
            return probe if probe.accept(stop) is Status.OK else None
    probe = trial.probed.start()
    trial.walk(probe, 4)
    return probe if trial.settle(probe) else None


def rollback_undoes(trial: Trial) -> None:
    """None, one, some and all tokens; behind the end the stop token too; and on from there again."""
    for probe in (*trial.states(STATES), ended(trial)):
        if probe is None:
            continue
        if not probe.can_roll_back:
            return
        for count in _counts(trial, len(probe.tokens)):
            again = list(probe.tokens)[len(probe.tokens) - count :]
            probe.rollback(count)
            same_state(Law.ROLLBACK, f"after undoing {count} tokens", probe, probe.replayed())
            if probe.feed(again) < len(again):
                broken(Law.ROLLBACK, f"after undoing {count} tokens it refuses them", again=again, **probe.where())
            same_state(Law.ROLLBACK, f"after undoing and repeating {count} tokens", probe, probe.replayed())


def _counts(trial: Trial, length: int) -> list[int]:
    length = min(length, 64)
    return sorted({0, min(1, length), trial.draw.randint(0, length), length})


def rollback_between_accepts(trial: Trial) -> None:
    """Undoing again and again, other tokens in between."""
    probe = trial.probed.start()
    if not probe.can_roll_back:
        return
    for _ in range(6):
        trial.walk(probe, trial.draw.randrange(6))
        probe.rollback(trial.draw.randint(0, min(len(probe.tokens), 8)))
        same_state(Law.ROLLBACK, "after walking and undoing by turns", probe, probe.replayed())


_WINDOWS = (1, 2, 7, 256, 1000)
"""How many tokens sequences may have to undo."""


def windows_are_kept(trial: Trial) -> None:
    """Whatever a sequence may have to undo, few tokens or hundreds, it can undo that many at once."""
    for window in _WINDOWS:
        probe = trial.probed.start(max_rollback=window)
        if not probe.can_roll_back:
            return
        trial.walk(probe, 12)
        probe.rollback(min(window, len(probe.tokens)))
        same_state(Law.ROLLBACK, f"with a window of {window} tokens, after undoing", probe, probe.replayed())


def forks_are_independent(trial: Trial) -> None:
    """A fork continues alike, and what one does the other does not see."""
    for probe in (*trial.states(STATES), ended(trial)):
        if probe is None:
            continue
        if not probe.can_fork:
            return
        if not probe.is_terminated and probe.can_roll_back:
            probe.rollback(min(1, len(probe.tokens)))
        fork = probe.fork()
        same_state(Law.FORK, "a fork", fork, probe)
        if probe.is_terminated:
            _undone_behind_its_beginning(fork)
            continue
        _forked_again(trial, fork)
        trial.walk(fork, 5)
        same_state(Law.FORK, "a probe whose fork went on", probe, probe.replayed())
        same_state(Law.FORK, "a fork that went on", fork, fork.replayed())
        trial.walk(probe, 5)
        same_state(Law.FORK, "a fork whose origin went on", fork, fork.replayed())
        _undone_in_part(trial, probe)
        _undone_in_part(trial, fork)
        _undone_behind_its_beginning(fork)


def _forked_again(trial: Trial, fork: Probe) -> None:
    """A fork's fork is as independent as a fork."""
    second = fork.fork()
    trial.walk(second, 3)
    same_state(Law.FORK, "a fork whose fork went on", fork, fork.replayed())
    same_state(Law.FORK, "a fork's fork that went on", second, second.replayed())


def _undone_in_part(trial: Trial, probe: Probe) -> None:
    """Where two have gone on, each undoes its own tokens."""
    if probe.can_roll_back:
        probe.rollback(trial.draw.randint(0, min(len(probe.tokens), 4)))
        same_state(Law.FORK, "one of two that went on, after undoing some tokens", probe, probe.replayed())


def _undone_behind_its_beginning(fork: Probe) -> None:
    """A fork can undo what its origin accepted."""
    if fork.can_roll_back:
        fork.rollback(min(len(fork.tokens), fork.max_rollback))
        same_state(Law.FORK, "a fork that undid its origin's tokens", fork, fork.replayed())


def sequences_are_independent(trial: Trial) -> None:
    """Two sequences by turns, and a third after them: each as if it were alone."""
    one, two = trial.probed.start(), trial.probed.start()
    fresh = trial.probed.start()
    expected = fresh.fill()
    for _ in range(4):
        trial.walk(one, 2)
        trial.walk(two, 3)
    same_state(Law.ISOLATION, "a sequence beside another", one, one.replayed())
    same_state(Law.ISOLATION, "a sequence beside another", two, two.replayed())
    if not np.array_equal(trial.probed.start().fill(), expected) or not np.array_equal(fresh.fill(), expected):
        broken(Law.ISOLATION, "a new sequence does not start at the beginning", other=one.tokens)


def stop_tokens_end(trial: Trial) -> None:
    """Stops of all sorts, ordinary tokens too, of sequences by turns: each its own, allowed and accepted exactly where
    its text is complete."""
    probes = [trial.probed.start(stops=stops) for stops in _stop_sets(trial)]
    for _ in range(10):
        for probe in probes:
            _check_stops(probe)
        going_on = []
        for probe in probes:
            before = len(probe.tokens)
            trial.walk(probe, 1)
            going_on += [probe] if len(probe.tokens) > before else []
        probes = going_on


def _stop_sets(trial: Trial) -> list[tuple[int, ...]]:
    known = trial.vocabulary
    control = known.ids(TokenKind.CONTROL)
    ordinary = [byte for member in trial.case.members for byte in member.text.encode()[:12]] or [ord("a")]
    token = trial.draw.choice(ordinary)
    merged = [each for each in known.ids(TokenKind.TEXT) if len(known.token(each)) > 1]
    added = known.ids(TokenKind.ADDED)
    some = [known.eos_token_ids, tuple(control[:1]), tuple(control), (token,), (token, *known.eos_token_ids), ()]
    return [*some, (trial.draw.choice(merged), *added), (*merged[:8], *control)]


def _check_stops(probe: Probe) -> None:
    bits, accepting = probe.fill(), probe.is_accepting
    for stop in probe.stops:
        if bool(bits[stop]) is not accepting:
            message = (
                f"the bit of a stop token is {int(bits[stop])} where the text is {'' if accepting else 'not '}complete"
            )
            broken(Law.STOP_TOKENS, message, stop=stop, stops=probe.stops, **probe.where())
        other = probe.replayed()
        status = other.accept(stop)
        if (status is Status.OK) is not accepting or other.is_terminated is not accepting:
            message = (
                f"a stop token is answered with {status.name} where the text is {'' if accepting else 'not '}complete"
            )
            broken(Law.STOP_TOKENS, message, stop=stop, stops=probe.stops, **probe.where())
        if not accepting:
            same_state(Law.REFUSED_TOKEN, "after a stop token that came too early", other, probe)


def after_the_end(trial: Trial) -> None:
    """Behind the stop token: no token is accepted, no row is filled, and the text stays complete."""
    probe = ended(trial)
    if probe is None:
        return
    for _ in range(2):
        if not probe.is_terminated or not probe.is_accepting:
            broken(Law.AFTER_END, "behind a stop token it is not ended and complete", **probe.where())
        status, _ = probe.try_fill()
        if status is not Status.TERMINATED:
            broken(Law.AFTER_END, f"behind a stop token fill() returns {status.name}", **probe.where())
        for token in (*probe.stops, trial.draw.randrange(256), ord("a"), ord(" ")):
            status = probe.accept(token)
            if status is not Status.TERMINATED:
                message = f"behind a stop token accept() returns {status.name}"
                broken(Law.AFTER_END, message, token=token, **probe.where())
    _undoing(Law.AFTER_END, "after what came behind the end", probe, len(probe.tokens))


def _undoing(law: Law, message: str, probe: Probe, most: int) -> None:
    """What was refused does not count when tokens are undone."""
    if probe.can_roll_back:
        probe.rollback(min(2, most))
        same_state(law, f"{message}, undoing leads elsewhere", probe, probe.replayed())


def refused_tokens_change_nothing(trial: Trial) -> None:
    """A few tokens that cannot follow, then on: as if they had not been offered."""
    for probe in trial.states(STATES):
        bits = probe.fill()
        refused = (~bits).nonzero()[0].tolist()
        for token in trial.draw.sample(refused, min(6, len(refused))):
            status = probe.accept(token)
            if status is not Status.REJECTED:
                message = f"a token whose bit is not set is answered with {status.name}"
                broken(Law.MASK_IS_ACCEPT, message, token=token, **probe.where())
            same_state(Law.REFUSED_TOKEN, f"after refusing token {token}", probe, probe.replayed())
        _undoing(Law.REFUSED_TOKEN, "after refusing tokens", probe, len(probe.tokens))
        trial.walk(probe, 3)
        same_state(Law.REFUSED_TOKEN, "after refusing tokens and going on", probe, probe.replayed())


def drafts_leave_no_trace(trial: Trial) -> None:
    """Drafts through the core, which forks or rolls back: rows as in a walk, and the state as before."""
    ahead = trial.probed.start()
    trial.walk(ahead, 8)
    if not ahead.tokens:
        return
    cut = trial.draw.randrange(len(ahead.tokens))
    before, drafts = ahead.tokens[:cut], ahead.tokens[cut:]
    constraint = trial.grammar.start(max_rollback=64).unwrap()
    for token in before:
        constraint.accept(token)
    rows = np.zeros((len(drafts) + 1, trial.vocabulary.bitmask_width), np.int32)
    taken = fill_drafts(constraint, drafts, rows)
    if taken.accepted < len(drafts):
        broken(Law.DRAFTS, f"of {len(drafts)} drafts that can follow it takes {taken.accepted}", **ahead.where())
    probe = trial.probed.start()
    probe.feed(before)
    for row, ahead_of in zip(rows, (*drafts, None), strict=True):
        if not np.array_equal(unpack(row)[: trial.vocabulary.padded_size], probe.fill()):
            broken(Law.DRAFTS, "the row of a draft is not what may follow there", drafts=drafts, **probe.where())
        if ahead_of is not None:
            probe.accept(ahead_of)
    _state_is_kept(trial, constraint, before)


def _state_is_kept(trial: Trial, constraint: Constraint, before: list[int]) -> None:
    row = np.zeros(trial.vocabulary.bitmask_width, np.int32)
    constraint.fill(row)
    probe = trial.probed.start()
    probe.feed(before)
    if not np.array_equal(unpack(row)[: trial.vocabulary.padded_size], probe.fill()):
        broken(Law.DRAFTS, "verifying drafts changed the state", **probe.where())
