"""Looks for faults of one backend until the time or the examples are spent, and makes each as small as it can."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

import attrs

from structout.fuzz.case import Case
from structout.fuzz.cases import MakeCase
from structout.fuzz.child import Child
from structout.fuzz.difference import mask_difference, process_difference
from structout.fuzz.examine import Report
from structout.fuzz.faults import Fault
from structout.fuzz.known import KnownFaults
from structout.fuzz.laboratory import examine_in
from structout.fuzz.law import Law, Violation
from structout.fuzz.oracles import COSTLY, ORACLES
from structout.fuzz.shrinking import Shrinker, Trace

LANGUAGE_LAWS: Final = frozenset(
    {Law.WRONG_REJECTION, Law.OVER_ACCEPTANCE, Law.SERIALIZATION, Law.LIVENESS, Law.RESULT_DISCIPLINE, Law.MASK_TIME}
)
"""Looked at in every case."""
STATE_LAWS: Final = tuple(sorted(ORACLES.keys() - LANGUAGE_LAWS - COSTLY))
"""Of these the seed of a case picks `STATE_LAWS_PER_CASE`; what is left out takes too long to be done often."""
STATE_LAWS_PER_CASE: Final = 4

SHRINK_S: Final = 45.0
"""What making one example small may take."""
OVERTIME_S: Final = 10.0
"""What making the last one small may take beyond the time of the whole search."""


def laws_for(case: Case) -> frozenset[Law]:
    """The laws that a campaign looks at in a case."""
    return LANGUAGE_LAWS | set(random.Random(case.seed).sample(STATE_LAWS, STATE_LAWS_PER_CASE))


@attrs.frozen
class Budget:
    """When a campaign ends: after so many examples or seconds, whichever is first."""

    examples: int = 500
    seconds: float = 60.0


@attrs.define
class Tally:
    """What a campaign has done so far.

    Attributes:
        examined: cases that were looked at.
        compiled: those that the backend took.
        refused: those that it refused, by the kind of its error.
        faults: distinct ones, as small as they could be made.
        counts: sums of what the reports counted.
        known: how many breaches looked like a known fault, by its reason.
        slowest_fill_s: of all rows, in seconds.
    """

    examined: int = 0
    compiled: int = 0
    refused: Counter[str] = attrs.field(factory=Counter)
    faults: list[Fault] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)
    known: Counter[str] = attrs.field(factory=Counter)
    slowest_fill_s: float = 0.0

    def add(self, report: Report) -> None:
        self.examined += 1
        self.compiled += report.compiled
        self.counts.update(report.counts)
        self.slowest_fill_s = max(self.slowest_fill_s, report.slowest_fill_s)
        if report.error is not None:
            self.refused[report.error["kind"]] += 1


@attrs.define
class Campaign:
    """One search on one backend.

    Attributes:
        child: the backend.
        budget: see `Budget`.
        known: faults that are no news; what looks like one is counted, not recorded.
        against: another backend, whose rows are compared where both are exact; None for none.
        on_case: told every case and its report.
        on_fault: told every fault when it is as small as it gets.
        tally: see `Tally`.
    """

    child: Child
    budget: Budget
    known: KnownFaults = attrs.field(factory=KnownFaults)
    against: Child | None = None
    on_case: Callable[[Case, Report], None] = lambda _case, _report: None
    on_fault: Callable[[Fault], None] = lambda _fault: None
    tally: Tally = attrs.field(factory=Tally)
    _ends: float = attrs.field(init=False, default=0.0)

    def replay(self, cases: Iterable[Case], laws: Collection[Law]) -> None:
        """Looks at given cases, without making anything smaller."""
        for case in cases:
            for violation in (*self._look(case, laws), *self._between_processes(case, laws)):
                self._record(Fault(self.child.target.backend, violation, case))

    def _between_processes(self, case: Case, laws: Collection[Law]) -> tuple[Violation, ...]:
        if Law.DETERMINISM not in laws:
            return ()
        with self.child.twin() as other:
            found = process_difference(self.child, other, case)
        return (found,) if found else ()

    def search(self, make: MakeCase, *, seed: int) -> Tally:
        """Looks at made cases until the budget is spent; the same ones for the same seed."""
        self._ends = time.monotonic() + self.budget.seconds
        for number in itertools.count():
            if time.monotonic() > self._ends or self.tally.examined >= self.budget.examples:
                break
            trace = Trace(rest=random.Random(f"{seed} {number}"))
            case = make(trace)
            laws = laws_for(case)
            for violation in self._look(case, laws):
                if known := self.known.covers(violation, case):
                    self.tally.known[known.reason] += 1
                elif self._is_new(violation, case):
                    self._record(self._smaller(Fault(self.child.target.backend, violation, case), make, trace, laws))
        return self.tally

    @property
    def spent(self) -> float:
        """The share of its time that a search has used."""
        return 1.0 - max(0.0, self._ends - time.monotonic()) / self.budget.seconds if self._ends else 0.0

    def _is_new(self, violation: Violation, case: Case) -> bool:
        """Whether neither a known fault nor one that was found accounts for a breach."""
        if self.known.covers(violation, case):
            return False
        return not any(fault.covers(violation, case) for fault in self.tally.faults)

    def _look(self, case: Case, laws: Collection[Law]) -> tuple[Violation, ...]:
        report = examine_in(self.child, case, laws)
        self.tally.add(report)
        self.on_case(case, report)
        return (*report.violations, *self._differences(case))

    def _differences(self, case: Case) -> tuple[Violation, ...]:
        found = mask_difference(self.child, self.against, case) if self.against else None
        return (found,) if found else ()

    def _smaller(self, fault: Fault, make: MakeCase, trace: Trace, laws: Collection[Law]) -> Fault:
        """The same breach in the smallest example that is found within `SHRINK_S`, and `OVERTIME_S` of the end."""
        smallest = fault
        if any(violation.law is fault.law for violation in self._again(fault, fault.case, {fault.law})):
            laws = {fault.law}

        def fails(case: Case) -> bool:
            nonlocal smallest
            if case.spec.kind != fault.case.spec.kind:
                return False
            for violation in self._again(fault, case, laws):
                if violation.law is fault.law and self._is_new(violation, case):
                    smallest = Fault(fault.backend, violation, case)
                    return True
            return False

        until = min(time.monotonic() + SHRINK_S, self._ends + OVERTIME_S)
        Shrinker(make, fails, fault.case, trace, until).shrink()
        for case in _with_fewer_texts(smallest.case):
            if time.monotonic() < until and fails(case):
                break
        return smallest

    def _again(self, fault: Fault, case: Case, laws: Collection[Law]) -> tuple[Violation, ...]:
        """What is broken in an example that may show a fault, as far as it could be that."""
        if fault.law is Law.MASK_DIFFERENCE:
            return self._differences(case)
        return examine_in(self.child, case, laws).violations

    def _record(self, fault: Fault) -> None:
        self.tally.faults.append(fault)
        self.on_fault(fault)


def _with_fewer_texts(case: Case) -> Iterator[Case]:
    """The same spec with no texts, or with a single one."""
    bare = attrs.evolve(case, members=(), strangers=())
    yield bare
    yield from (attrs.evolve(bare, members=(member,)) for member in case.members)
    yield from (attrs.evolve(bare, strangers=(stranger,)) for stranger in case.strangers)
