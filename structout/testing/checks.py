"""The conformance kit: checks of one backend, for a parametrized test or for the pytest plugin."""

import atexit
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import Final

import attrs

from structout.backend import BackendInfo
from structout.fuzz.case import Case
from structout.fuzz.child import Child
from structout.fuzz.faults import Fault, FaultFolder
from structout.fuzz.known import KnownFault, KnownFaults
from structout.fuzz.laboratory import examine_in
from structout.fuzz.law import Law, Violation
from structout.fuzz.target import Target
from structout.spec import SPEC_KINDS
from structout.testing.inputs import big_cases, cases_of_kind
from structout.testing.levels import LAWS, PROTECTS, Level

EXPENSIVE: Final = frozenset({Law.LEAK, Law.CONCURRENCY})
"""Looked at in the first few cases of a kind only."""
EXPENSIVE_CASES: Final = 2
BIG_LAWS: Final = frozenset({Law.MASK_TIME, Law.WRONG_REJECTION, Law.LIVENESS})
"""Looked at in big specs, beside what can happen to the process."""


class ConformanceError(AssertionError):
    """A backend does not pass a check; says what happened, what that leads to and how to see it again."""


@attrs.define(eq=False, slots=False)
class Bench:
    """A backend under test in its child process, and what was seen of it, kind of spec by kind of spec."""

    target: Target
    known: KnownFaults
    laws: frozenset[Law]
    faults: FaultFolder = attrs.field(factory=FaultFolder)
    _seen: dict[str, list[tuple[Violation, Case]]] = attrs.field(init=False, factory=dict)

    @cached_property
    def child(self) -> Child:
        child = Child(self.target)
        atexit.register(child.close)
        return child

    def seen(self, kind: str) -> list[tuple[Violation, Case]]:
        """The breaches in all cases of a kind; looked for once, by whichever check asks first."""
        if kind not in self._seen:
            self._seen[kind] = list(self._look(kind))
        return self._seen[kind]

    def _look(self, kind: str) -> Iterator[tuple[Violation, Case]]:
        for number, case in enumerate(cases_of_kind(kind)):
            laws = self.laws - (EXPENSIVE if number >= EXPENSIVE_CASES else frozenset())
            yield from self._violations(case, laws)
        for case in big_cases(kind):
            yield from self._violations(case, self.laws & BIG_LAWS)

    def _violations(self, case: Case, laws: Collection[Law]) -> Iterator[tuple[Violation, Case]]:
        report = examine_in(self.child, case, laws)
        yield from ((violation, case) for violation in self.known.new(report.violations, case))


@attrs.frozen
class Check:
    """One law on one kind of spec.

    Attributes:
        level: see `Level`.
        law: what must hold.
        kind: of the specs it is looked at with.
    """

    level: Level
    law: Law
    kind: str
    bench: Bench = attrs.field(repr=False, eq=False)

    def __str__(self) -> str:
        return f"{self.level.value}-{self.law.value}-{self.kind}"

    @property
    def protects_from(self) -> str:
        """What happens in a serving engine where the law is broken."""
        return PROTECTS[self.law]

    def run(self) -> None:
        """Raises `ConformanceError` if the law is broken."""
        found = [(violation, case) for violation, case in self.bench.seen(self.kind) if violation.law is self.law]
        if found:
            raise ConformanceError(self._report(*found[0], len(found)))

    def _report(self, violation: Violation, case: Case, count: int) -> str:
        fault = Fault(self.bench.target.backend, violation, case)
        self.bench.faults.save(fault)
        evidence = "".join(f"\n  {name}: {str(value)[:300]}" for name, value in violation.evidence.items())
        return (
            f"{violation.message}\n{self.law.meaning} It protects from {self.protects_from}.\n"
            f"  spec: {case.spec}{evidence}\n"
            f"  seen in {count} cases; this one again: {self.bench.faults.command(fault, self.bench.target.plugins)}"
        )


@attrs.frozen
class KnownFaultCheck:
    """A known fault, which has to be there still: one that is gone has to be struck off the list."""

    number: int
    known: KnownFault
    bench: Bench = attrs.field(repr=False, eq=False)

    def __str__(self) -> str:
        return f"known-{self.number}-{self.known.fault.law.value}"

    def run(self) -> None:
        """Raises `ConformanceError` if the fault is there no more."""
        fault = self.known.fault
        report = examine_in(self.bench.child, fault.case, {fault.law})
        if not any(fault.covers(violation, fault.case) for violation in report.violations):
            raise ConformanceError(
                f"a known fault is gone: {fault.violation.message} ({self.known.reason})\n  spec: {fault.case.spec}\n"
                "  strike it off the file of known faults"
            )


def conformance_checks(
    info: BackendInfo, *, levels: Collection[Level] = tuple(Level), target: Target | None = None
) -> list[Check | KnownFaultCheck]:
    """The checks that a backend has to pass, to parametrize a test with::

        @pytest.mark.parametrize("check", conformance_checks(INFO), ids=str)
        def test_conformance(check): check.run()

    The backend runs in a process of its own, which it may crash. All checks of one call share it.

    Args:
        info: the backend's description. It crosses to the other process by `cloudpickle`.
        levels: which to include.
        target: how the other process finds the backend, if not by ``info``.
    """
    laws = [(level, law) for level in Level if level in levels for law in LAWS[level]]
    known = KnownFaults.read(info.known_faults)
    bench = Bench(target or Target.of_info(info), known, frozenset(law for _, law in laws))
    kinds = [kind for kind in SPEC_KINDS if kind in info.spec_kinds and kind in TESTED_KINDS]
    checks: list[Check | KnownFaultCheck] = [Check(level, law, kind, bench) for kind in kinds for level, law in laws]
    return checks + [KnownFaultCheck(number, each, bench) for number, each in enumerate(known.faults)]


TESTED_KINDS: Final = frozenset({"json_schema", "regex", "ebnf", "choice", "structural_tag"})
"""Kinds of spec that there are cases for."""
