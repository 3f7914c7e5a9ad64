"""Runs oracles on one case in this process, and reports."""

import math
import random
import time
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, Final

import attrs

from structout.fuzz.case import Case
from structout.fuzz.law import Broken, Law, Violation
from structout.fuzz.oracles import oracles_for
from structout.fuzz.oracles.saying import (
    check_refusal,
    findings_are_of_the_spec,
    malformed_specs_are_refused,
    size_is_a_number,
)
from structout.fuzz.trial import Trial, trial_of
from structout.grammar import BoundBackend
from structout.result import Err, Ok

MASK_BUDGET_S: Final = 0.05
"""What one row of a small vocabulary may take, the best of several fills of the same state, in seconds."""


@attrs.frozen
class Report:
    """What came of one case.

    Attributes:
        error: why the backend refused it, as `GrammarError.to_json`; None if it compiled.
        unenforced: keywords that the grammar says it does not enforce.
        narrowed: keywords where it says that it lets through less.
        violations: broken laws, at most one for each oracle.
        counts: what was done.
        compile_s: seconds of wall time of the first compile.
        slowest_fill_s: of the slowest fill.
    """

    error: Mapping[str, Any] | None = None
    unenforced: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    counts: Mapping[str, int] = attrs.field(factory=dict)
    compile_s: float = 0.0
    slowest_fill_s: float = 0.0

    @property
    def compiled(self) -> bool:
        """Whether there was a grammar to look at."""
        return self.error is None and not any(violation.law in _NO_GRAMMAR for violation in self.violations)

    def to_json(self) -> dict[str, Any]:
        return attrs.asdict(self, recurse=False) | {"violations": [each.to_json() for each in self.violations]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Report":
        """The inverse of `to_json`."""
        violations = tuple(Violation.from_json(each) for each in data["violations"])
        lists = {name: tuple(data[name]) for name in ("unenforced", "narrowed")}
        return cls(**(dict(data) | lists | {"violations": violations}))


_ALWAYS: Final = (findings_are_of_the_spec, size_is_a_number, malformed_specs_are_refused)
_NO_GRAMMAR: Final = frozenset({Law.CRASH, Law.HANG, Law.MEMORY})


def examine(bound: BoundBackend, case: Case, laws: Collection[Law], *, mask_budget_s: float = MASK_BUDGET_S) -> Report:
    """Compiles a case and looks for breaches of these laws. Whatever the plugin raises is a violation."""
    begun = time.perf_counter()
    result = bound.compile(case.spec)
    compile_s = time.perf_counter() - begun
    match result:
        case Ok(grammar):
            budget_s = mask_budget_s if Law.MASK_TIME in laws else math.inf
            trial = trial_of(grammar, case, random.Random(case.seed), mask_budget_s=budget_s)
            return _report(trial, laws, compile_s)
        case Err(error):
            try:
                check_refusal(error, case)
            except Broken as exc:
                return Report(error=error.to_json(), violations=(exc.violation,), compile_s=compile_s)
            return Report(error=error.to_json(), compile_s=compile_s)


def _report(trial: Trial, laws: Collection[Law], compile_s: float) -> Report:
    violations = _violations(trial, laws)
    return Report(
        unenforced=tuple(sorted(trial.unenforced)),
        narrowed=tuple(sorted({finding.keyword for finding in trial.grammar.narrowed})),
        violations=tuple(violations),
        counts=dict(trial.counts + Counter(fills=trial.probed.times.fills)),
        compile_s=compile_s,
        slowest_fill_s=trial.probed.times.slowest_s,
    )


def _violations(trial: Trial, laws: Collection[Law]) -> list[Violation]:
    found: dict[Law, Violation] = {}
    for oracle in (*_ALWAYS, *oracles_for(laws)):
        # Each draws from the beginning, so that what it finds does not depend on which others ran before it.
        trial.draw.seed(trial.case.seed)
        try:
            oracle(trial)
        except Broken as exc:
            found.setdefault(exc.violation.law, exc.violation)
            if exc.violation.law is Law.MASK_TIME:
                break  # the other oracles would only wait for such rows again
    return list(found.values())
