"""The conformance kit: checks of one backend, for a parametrized test or for the pytest plugin."""

import atexit
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain, count
from typing import Final, TypeAlias

import attrs

from structout.backend import BackendInfo
from structout.fuzz.campaign import LANGUAGE_LAWS, STATE_LAWS
from structout.fuzz.case import Case
from structout.fuzz.child import Child, ChildError
from structout.fuzz.difference import process_difference
from structout.fuzz.faults import Fault, FaultFolder
from structout.fuzz.known import KnownFault, KnownFaults
from structout.fuzz.laboratory import examine_in
from structout.fuzz.law import Law, Violation
from structout.fuzz.oracles import COSTLY, laws_around
from structout.fuzz.target import Target
from structout.spec import SPEC_KINDS
from structout.testing.inputs import PLAIN, big_cases, cases_of_kind, language_cases
from structout.testing.levels import LAWS, PROTECTS, Level

COSTLY_CASES: Final = 1
"""Generated cases of a kind in which costly laws are looked at."""
TURNS: Final = 3
"""A law of the state is looked at in one case of so many: it does not depend on the language much, and takes time."""
BIG_LAWS: Final = frozenset({Law.MASK_TIME, Law.WRONG_REJECTION, Law.OVER_ACCEPTANCE, Law.LIVENESS})
"""Looked at in big specs, beside what can happen to the process."""
FATAL: Final = frozenset({Law.HANG, Law.MASK_TIME, Law.CRASH, Law.MEMORY})
"""After a breach of one of these nothing more is looked at: it is likely to come up in every case, and costs time."""
LIMIT_S: Final = 15.0
"""What one case may take, in seconds of wall time."""
COMPARED: Final = 8
"""One in so many cases is walked through in two processes, which have to agree."""


class ConformanceError(AssertionError):
    """A backend does not pass a check; says what happened, what that leads to and how to see it again."""


@attrs.frozen
class _Job:
    """A case, and what is looked at in it."""

    number: int
    case: Case
    laws: frozenset[Law]
    has_to_compile: bool = False


Breach: TypeAlias = tuple[Violation, Case]


@attrs.define(eq=False, slots=False)
class Bench:
    """A backend under test in child processes, and what was seen of it, kind of spec by kind of spec."""

    target: Target
    known: KnownFaults
    laws: frozenset[Law]
    fatal: frozenset[Law] = FATAL
    faults: FaultFolder = attrs.field(factory=FaultFolder)
    _seen: dict[str, list[Breach]] = attrs.field(init=False, factory=dict)
    _is_over: bool = attrs.field(init=False, default=False)
    _problem: str | None = attrs.field(init=False, default=None)

    @cached_property
    def children(self) -> tuple[Child, Child]:
        """One for every second case, so that each sees the same ones every time."""
        child = Child(self.target)
        atexit.register(self.close)
        return child, child.twin()

    def close(self) -> None:
        """Ends the processes."""
        for child in self.children:
            child.close()

    def seen(self, kind: str) -> list[Breach]:
        """The breaches in all cases of a kind; looked for once, by whichever check asks first.

        Raises:
            ConformanceError: the backend cannot be started.
        """
        if self._problem is None and kind not in self._seen:
            try:
                self._seen[kind] = self._look(kind)
            except ChildError as exc:
                self._problem = str(exc)
        if self._problem is not None:
            raise ConformanceError(self._problem)
        return self._seen[kind]

    def _look(self, kind: str) -> list[Breach]:
        if self._is_over:
            return [breach for breaches in self._seen.values() for breach in breaches if breach[0].law in self.fatal]
        jobs = list(self._jobs(kind))
        with ThreadPoolExecutor(len(self.children)) as pool:
            found = list(pool.map(self._work, self.children, (jobs[::2], jobs[1::2])))
        breaches = [breach for _, breach in sorted(chain.from_iterable(found), key=lambda each: each[0])]
        return breaches if self._is_over else [*breaches, *self._differences(jobs[::COMPARED])]

    def _differences(self, jobs: Sequence[_Job]) -> Iterator[Breach]:
        """Where two processes do not agree on a case."""
        one, other = self.children
        for job in jobs if Law.DETERMINISM in self.laws else ():
            found = process_difference(one, other, job.case)
            if found is not None:
                yield from ((violation, job.case) for violation in self.known.new([found], job.case))

    def _jobs(self, kind: str) -> Iterator[_Job]:
        numbers = count()
        yield _Job(next(numbers), PLAIN[kind], self.laws, has_to_compile=True)
        for turn, case in enumerate(cases_of_kind(kind)):
            waiting = {law for place, law in enumerate(STATE_LAWS) if (place + turn) % TURNS}
            costly = COSTLY if turn >= COSTLY_CASES else frozenset()
            yield _Job(next(numbers), case, self.laws - waiting - costly)
        for case in language_cases(kind):
            yield _Job(next(numbers), case, self.laws & LANGUAGE_LAWS)
        for case in big_cases(kind):
            yield _Job(next(numbers), case, self.laws & BIG_LAWS)

    def _work(self, child: Child, jobs: Sequence[_Job]) -> list[tuple[int, Breach]]:
        found: list[tuple[int, Breach]] = []
        for job in jobs:
            if self._is_over:
                break
            for violation in self._violations(child, job):
                found.append((job.number, (violation, job.case)))
                self._is_over |= violation.law in self.fatal
        return found

    def _violations(self, child: Child, job: _Job) -> list[Violation]:
        report = examine_in(child, job.case, job.laws, limit_s=LIMIT_S)
        if job.has_to_compile and report.error is not None and not report.violations:
            message = f"it refuses the plainest spec of a kind that it registers: {report.error['message']}"
            return [Violation(Law.RESULT_DISCIPLINE, message)]
        return self.known.new(report.violations, job.case)


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
        try:
            found = self._look(self.bench.children, fault)
        except ChildError as exc:
            raise ConformanceError(str(exc)) from exc
        if not any(fault.covers(violation, fault.case) for violation in found):
            raise ConformanceError(
                f"a known fault is gone: {fault.violation.message} ({self.known.reason})\n  spec: {fault.case.spec}\n"
                "  strike it off the file of known faults"
            )

    @staticmethod
    def _look(children: tuple[Child, Child], fault: Fault) -> Iterator[Violation]:
        yield from examine_in(children[0], fault.case, laws_around(fault.law)).violations
        if fault.law is Law.DETERMINISM and (between := process_difference(*children, fault.case)):
            yield between


def conformance_checks(
    info: BackendInfo,
    *,
    levels: Collection[Level] = tuple(Level),
    target: Target | None = None,
    stop_at_first: bool = False,
) -> list[Check | KnownFaultCheck]:
    """The checks that a backend has to pass, to parametrize a test with::

        @pytest.mark.parametrize("check", conformance_checks(INFO), ids=str)
        def test_conformance(check): check.run()

    The backend runs in two processes of its own, which it may crash. All checks of one call share them.

    Args:
        info: the backend's description. It crosses to the other process by `cloudpickle`.
        levels: which to include.
        target: how the other processes find the backend, if not by ``info``.
        stop_at_first: whether to look at nothing more after the first breach of any law.
    """
    laws = [(level, law) for level in Level if level in levels for law in LAWS[level]]
    known = KnownFaults.read(info.known_faults)
    looked_at = frozenset(law for _, law in laws)
    bench = Bench(target or Target.of_info(info), known, looked_at, looked_at if stop_at_first else FATAL)
    kinds = [kind for kind in SPEC_KINDS if kind in info.spec_kinds and kind in PLAIN]
    checks: list[Check | KnownFaultCheck] = [Check(level, law, kind, bench) for kind in kinds for level, law in laws]
    return checks + [KnownFaultCheck(number, each, bench) for number, each in enumerate(known.faults)]
