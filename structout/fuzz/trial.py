"""One case on one backend: what the oracles share."""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property

import attrs

from structout.backend import Status
from structout.fuzz.case import Case, Text
from structout.fuzz.judge import Judge, judge_of
from structout.fuzz.law import Law, broken
from structout.fuzz.loosened import loosened
from structout.fuzz.narrowing import accounts_for
from structout.fuzz.probe import Bits, Probe, Probed
from structout.fuzz.subject import Subject, subject_of
from structout.grammar import BoundBackend, Grammar
from structout.result import Ok
from structout.spec import JsonSchema
from structout.vocabulary import Vocabulary

SETTLE_TOKENS = 160
"""How many tokens a walk may spend on coming to an end."""


def trial_of(grammar: Grammar, case: Case, draw: random.Random, *, mask_budget_s: float = math.inf) -> "Trial":
    """A trial of a compiled case, each of whose rows may take so many seconds."""
    probed = Probed(grammar.compiled, grammar.vocabulary, budget_s=mask_budget_s)
    return Trial(grammar.backend, case, grammar, probed, draw)


@attrs.define(eq=False, slots=False)
class Trial:
    """A case, compiled by the backend under test.

    Attributes:
        bound: the backend.
        case: see `Case`.
        grammar: what the backend made of the case's spec.
        probed: the same, to start matchers of.
        draw: all random choices come from here.
        counts: what was done, for reports: ``walks``, ``walks ended``, ...
    """

    bound: BoundBackend
    case: Case
    grammar: Grammar
    probed: Probed
    draw: random.Random
    counts: Counter[str] = attrs.field(factory=Counter)

    @property
    def vocabulary(self) -> Vocabulary:
        return self.bound.vocabulary

    @cached_property
    def judge(self) -> Judge | None:
        return judge_of(self.case.spec)

    @cached_property
    def unenforced(self) -> frozenset[str]:
        """Keywords that the grammar says it does not enforce."""
        return frozenset(finding.keyword for finding in self.grammar.unenforced)

    @cached_property
    def loosened(self) -> Judge | None:
        """The judge of what the grammar says that it enforces; None if it lists nothing, or nobody knows better."""
        spec = self.case.spec
        if not self.unenforced or not isinstance(spec, JsonSchema):
            return None
        return judge_of(loosened(spec, self.grammar.unenforced))

    @cached_property
    def _subject(self) -> Subject | None:
        spec = self.case.spec
        match subject_of(spec) if isinstance(spec, JsonSchema) else None:
            case Ok(subject):
                return subject
        return None

    def may_refuse(self, member: Text) -> bool:
        """Whether the grammar says that it leaves out what this member of the language needs."""
        narrowed = self.grammar.narrowed
        if not narrowed or self._subject is None:
            return bool(narrowed)
        return accounts_for(narrowed, self._subject, member)

    def states(self, count: int, tokens: int = 24) -> Iterator[Probe]:
        """Probes in random states that can be reached through the masks; the first is at the beginning."""
        for number in range(count):
            probe = self.probed.start()
            self.walk(probe, self.draw.randrange(tokens) if number else 0)
            yield probe

    def walk(self, probe: Probe, tokens: int) -> Bits:
        """Goes on by up to ``tokens`` random allowed tokens, not through a stop. Returns the row behind the last."""
        bits = probe.fill()
        for _ in range(tokens):
            choices = [token for token in bits.nonzero()[0].tolist() if token not in probe.stops]
            if not choices:
                break
            self.step(probe, self.choose(choices))
            bits = probe.fill()
        return bits

    def choose(self, tokens: Sequence[int]) -> int:
        """One of these: half of the time any, half of the time one that people's texts are made of."""
        if self.draw.random() < 0.5:
            common = [token for token in tokens if self.vocabulary.token(token) in _COMMON]
            tokens = common or tokens
        return self.draw.choice(tokens)

    def settle(self, probe: Probe) -> bool:
        """Goes on to an end, along tokens that close what is open; whether it got there with a stop token."""
        for _ in range(SETTLE_TOKENS):
            bits = probe.fill()
            if stops := [stop for stop in probe.stops if bits[stop]]:
                self.step(probe, stops[0])
                return True
            choices = bits.nonzero()[0].tolist()
            if not choices:
                broken(Law.LIVENESS, "no token can follow, and no stop token either", **probe.where())
            closing = [token for token in choices if self.vocabulary.token(token)[:1] in _CLOSING]
            prefers = closing and self.draw.random() < 0.8
            self.step(probe, self.draw.choice(closing) if prefers else self.choose(choices))
        return False

    def step(self, probe: Probe, token: int) -> None:
        """Accepts a token that the mask allows."""
        if (status := probe.accept(token)) is not Status.OK:
            message = f"a token whose bit is set is answered with {status.name}"
            broken(Law.MASK_IS_ACCEPT, message, token=token, **probe.where())


_COMMON = frozenset(b'"{}[]:,-0129abcABC\\ .'[index : index + 1] for index in range(21)) | {"é".encode()}
_CLOSING = frozenset({b'"', b"}", b"]", b")", b">"})
