"""Constraints under asynchronous scheduling: a step is launched before the tokens of the step before it are known.

A scripted scheduler does with `Constraint` what engines do to keep their device busy. It launches step N+1 on tokens
that it has not seen, verifies drafts, accepts them before it knows whether the model agrees and takes them back when it
did not, and samples without a mask where the mask is late, so that a token may turn out refused when the step behind it
is in flight already. None of this may show: every request ends as if it had been decoded alone, token by token.
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

import attrs
import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from structout import Status, Vocabulary
from structout.backend import Bitmask, BitmaskRow
from structout.constraint import Activation, AfterTokens, AtOffset, Constraint
from structout.drafts import fill_drafts
from structout.grammar import Grammar
from tests.fakes import BYTES, EOS, MATCHER_TYPES, MatcherType, RollbackTrieMatcher, allowed, trie_grammar

MAX_DRAFTS: Final = 3
MAX_TOKENS: Final = 12
RIGHT: Final = -2
"""In a script, the draft that the model itself would generate there."""

OPTIONS = ("ab", "abcd", "abcdcd", "acab", "bcd", "cdéab", "dz")
LIKELY = [*b"abcd", *range(EOS, BYTES.size)]
# No token for "z": "dz" is begun and never ended: a dead end.
VOCABULARY = Vocabulary.from_tokens(
    [b"" if token == ord("z") else BYTES.token(token) for token in range(BYTES.size)],
    eos_token_ids=[EOS],
    padded_size=BYTES.padded_size,
)


class Attempt(NamedTuple):
    """What a script has happen in one step of a request."""

    drafts: tuple[int, ...] = ()
    mask_is_late: bool = False


class End(NamedTuple):
    """How a request ended. OK: it has MAX_TOKENS."""

    tokens: tuple[int, ...]
    status: Status


def logits_after(seed: int, tokens: Sequence[int]) -> npt.NDArray[np.float64]:
    """The model: a fixed function of all tokens so far that mostly means tokens of the options."""
    key = zlib.crc32(repr((seed, *tokens)).encode())
    logits = np.random.default_rng(key).standard_normal(VOCABULARY.padded_size)
    logits[LIKELY] += 10
    return logits


def sample(logits: npt.NDArray[np.float64], row: BitmaskRow) -> int:
    tokens = sorted(allowed(row, VOCABULARY.padded_size))
    return tokens[int(logits[tokens].argmax())]


def decode(constraint: Constraint, seed: int) -> End:
    """Synchronous decoding: each token is accepted before anything is done for the next one."""
    row = np.zeros(VOCABULARY.bitmask_width, np.int32)
    while len(constraint.tokens) < MAX_TOKENS:
        status = constraint.fill(row)
        if status not in (Status.OK, Status.FREE):
            return End(constraint.tokens, status)
        assert constraint.accept(sample(logits_after(seed, constraint.tokens), row)) is Status.OK
    return End(constraint.tokens, constraint.idle_status() or Status.OK)


@attrs.define(eq=False)
class Request:
    """A request of the asynchronous scheduler.

    Attributes:
        on_device: its tokens as the next forward pass will read them, unseen ones included.
        epoch: how often its tokens in flight were given up.
        counts: what happened to it.
    """

    seed: int
    constraint: Constraint
    expected: End
    attempts: list[Attempt]
    on_device: tuple[int, ...] = ()
    epoch: int = 0
    end: End | None = None
    counts: Counter[str] = attrs.field(factory=Counter)

    def finish(self, status: Status) -> None:
        self.end = End(self.constraint.tokens, status)


@attrs.define(eq=False)
class Flight:
    """One request's part of one step, from its launch until its tokens are known.

    Attributes:
        context: the tokens that its forward pass reads.
        early: how many drafts the constraint has accepted before the model was asked.
        sampled: the drafts that the model agreed with and one token more; not known before the step is settled.
    """

    request: Request
    context: tuple[int, ...]
    attempt: Attempt
    epoch: int
    early: int = 0
    sampled: tuple[int, ...] = ()

    @classmethod
    def launch(cls, request: Request) -> "Flight":
        attempt = request.attempts.pop(0) if request.attempts else Attempt()
        return cls(request, request.on_device, attempt, request.epoch)

    def fill(self) -> bool:
        """Masks and samples, now that the step before is settled. False if the step is of no use any more."""
        if self.request.end is not None or self.epoch != self.request.epoch:
            return False
        drafts = self._drafts()
        rows = np.full((len(drafts) + 1, VOCABULARY.bitmask_width), -1, np.int32)
        if self.attempt.mask_is_late:
            self._sample(drafts[: drafts.index(-1)] if -1 in drafts else drafts, rows)
            return True
        self.early, status, _ = fill_drafts(self.request.constraint, drafts, rows)
        if status not in (Status.OK, Status.FREE):
            self.request.finish(status)
            return False
        for token in drafts[: self.early]:
            assert self.request.constraint.accept(token) is Status.OK
        self._sample(drafts[: self.early], rows)
        return True

    def _drafts(self) -> list[int]:
        """The drafts of the script, as many as there is room for."""
        start, tokens = len(self.context), self.request.expected.tokens
        drafts = self.attempt.drafts[: MAX_TOKENS - start - 1]
        right = [tokens[at] if at < len(tokens) else -1 for at in range(start, start + len(drafts))]
        return [good if draft == RIGHT else draft for draft, good in zip(drafts, right, strict=True)]

    def _sample(self, drafts: Sequence[int], rows: Bitmask) -> None:
        tokens: list[int] = []
        while tokens == drafts[: len(tokens)] and len(tokens) <= len(drafts):
            tokens.append(sample(logits_after(self.request.seed, (*self.context, *tokens)), rows[len(tokens)]))
        self.sampled = tuple(tokens)
        self.request.on_device = self.context + self.sampled

    def settle(self) -> None:
        """The step's tokens are known: makes the constraint that of the tokens that count."""
        request, constraint = self.request, self.request.constraint
        agreed = min(self.early, len(self.sampled) - 1)
        assert constraint.rollback(self.early - agreed) is Status.OK
        request.counts["taken back"] += self.early - agreed
        for token in self.sampled[agreed:]:
            if constraint.is_terminated or constraint.accept(token) is not Status.OK:
                break
        if constraint.is_terminated or len(constraint.tokens) == MAX_TOKENS:
            request.finish(constraint.idle_status() or Status.OK)
        elif constraint.tokens != request.on_device:
            request.counts["refused"] += 1
            request.epoch += 1
            request.on_device = constraint.tokens


def run(requests: Sequence[Request]) -> None:
    """Runs all requests to their ends, one step always ahead of what is known."""
    in_flight: list[Flight] = []
    while in_flight or any(request.end is None for request in requests):
        launched = [Flight.launch(request) for request in requests if request.end is None]
        for flight in in_flight:
            flight.settle()
        in_flight = [flight for flight in launched if flight.fill()]


def request(grammar: Grammar, seed: int, attempts: Sequence[Attempt], activation: Activation) -> Request:
    reference = grammar.start(activation=activation).unwrap()
    constraint = grammar.start(activation=activation, max_rollback=MAX_DRAFTS).unwrap()
    return Request(seed, constraint, decode(reference, seed), list(attempts))


drafts = st.lists(st.sampled_from([RIGHT, RIGHT, RIGHT, -1, *LIKELY]), max_size=MAX_DRAFTS).map(tuple)
attempts = st.lists(st.builds(Attempt, drafts, st.booleans()), max_size=8)
activations = st.one_of(st.builds(AtOffset, st.integers(0, 3)), st.builds(AfterTokens, st.just((ord("b"),))))
scripts = st.lists(st.tuples(st.integers(0, 10_000), attempts, activations), min_size=1, max_size=3)


@given(matcher=st.sampled_from(MATCHER_TYPES), scripts=scripts)
def test_every_request_ends_as_if_decoded_alone(
    matcher: MatcherType, scripts: list[tuple[int, list[Attempt], Activation]]
) -> None:
    grammar = trie_grammar(*OPTIONS, vocabulary=VOCABULARY, matcher=matcher)
    requests = [request(grammar, *script) for script in scripts]
    run(requests)
    assert [each.end for each in requests] == [each.expected for each in requests]
    assert all(each.constraint.error is None for each in requests)


@pytest.mark.parametrize("matcher", MATCHER_TYPES)
def test_scripts_reach_what_they_are_for(matcher: MatcherType) -> None:
    grammar = trie_grammar(*OPTIONS, vocabulary=VOCABULARY, matcher=matcher)
    script = [Attempt(tuple(b"abc")), Attempt((RIGHT, EOS, RIGHT), mask_is_late=True), Attempt((RIGHT, EOS, -1))] * 3
    requests = [request(grammar, seed, script, AtOffset()) for seed in range(60)]
    run(requests)
    assert [each.end for each in requests] == [each.expected for each in requests]
    assert {each.expected.status for each in requests} == {Status.TERMINATED, Status.DEAD_END}
    counts = sum((each.counts for each in requests), Counter[str]())
    assert min(counts["refused"], counts["taken back"]) > 10
    # What is taken back costs nothing but where the matcher has no rollback.
    assert any(each.constraint.replayed for each in requests) == (not issubclass(matcher, RollbackTrieMatcher))
