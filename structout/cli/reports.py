"""How the results of ``structout fuzz`` and ``structout check`` are printed and written."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite
from rich.console import Console

from structout.fuzz.coverage import Coverage
from structout.fuzz.exactness import Shares
from structout.fuzz.faults import Fault
from structout.fuzz.law import Law


@attrs.frozen
class BackendResult:
    """What came of one backend.

    Attributes:
        backend: its id.
        examined: cases or examples that were looked at.
        compiled: those that it took.
        refused: those that it refused, by the kind of its error.
        faults: broken laws, with examples.
        counts: what was done.
        known: how many breaches were no news, by the reason of the known fault that they look like.
        slowest_fill_s: seconds of the slowest row.
        parts: on a corpus, the shares of each verdict, part by part.
        problem: why it could not be tested at all.
    """

    backend: str
    examined: int = 0
    compiled: int = 0
    refused: Mapping[str, int] = attrs.field(factory=dict)
    faults: tuple[Fault, ...] = ()
    counts: Mapping[str, int] = attrs.field(factory=dict)
    known: Mapping[str, int] = attrs.field(factory=dict)
    slowest_fill_s: float = 0.0
    parts: Mapping[str, Shares] = attrs.field(factory=dict)
    problem: str | None = None


def as_json(results: Sequence[BackendResult], seed: int, coverage: Coverage) -> dict[str, Any]:
    """The results as JSON-able data."""
    backends = [
        attrs.asdict(result, recurse=False)
        | {
            "faults": [_fault_json(fault) for fault in result.faults],
            "parts": {part: attrs.asdict(each) for part, each in result.parts.items()},
        }
        for result in results
    ]
    return {"seed": seed, "backends": backends, "coverage": coverage.to_json()}


def _fault_json(fault: Fault) -> dict[str, Any]:
    return fault.to_json() | {"name": fault.name, "keywords": sorted(fault.keywords)}


def print_result(console: Console, result: BackendResult, command: Callable[[Fault], str]) -> None:
    """One backend's result as text: a line of figures, then each fault with the command that shows it again."""

    def line(text: str) -> None:
        console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    if result.problem:
        line(f"{result.backend}: {result.problem}")
        return
    for figures in _figures(result):
        line(f"{result.backend}: {figures}")
    for reason, count in result.known.items():
        line(f"  known, {count} times: {reason}")
    for fault in result.faults:
        line(f"  {fault.law.value}: {fault.violation.message}")
        line(f"    {fault.case.spec.kind} ({', '.join(sorted(fault.keywords))}): {spec_text(fault)}")
        for name, value in fault.violation.evidence.items():
            line(f"    {name}: {str(value)[:400]}")
        line(f"    again: {command(fault)}")


def _figures(result: BackendResult) -> Iterator[str]:
    for part, each in result.parts.items():
        verdicts = ", ".join(f"{name.replace('_', ' ')} {share:.1%}" for name, share in each.shares.items())
        yield f"{each.examples} {part} examples: ".replace("  ", " ") + verdicts
    if result.parts:
        return
    refused = sum(result.refused.values())
    walks = f", {result.counts.get('walks ended', 0)} of {result.counts.get('walks', 0)} walks came to an end"
    verdict = f"{len(result.faults)} laws broken" if result.faults else "all laws held"
    yield f"{result.examined} cases, {result.compiled} compiled, {refused} refused{walks}; {verdict}"


def spec_text(fault: Fault) -> str:
    """The spec of a fault, as its user writes it."""
    spec = fault.case.spec
    for name in ("text", "pattern"):
        if isinstance(text := getattr(spec, name, None), str):
            return text
    return repr(getattr(spec, "options", spec.kind))


def write_junit(path: Path, results: Sequence[BackendResult]) -> None:
    """A JUnit file: a suite for each backend, a case for each law, failed by each of its faults.

    They are all errors if the backend could not be tested.
    """
    xml = JUnitXml("structout fuzz")
    for result in results:
        suite = TestSuite(result.backend)
        for law in Law:
            case = TestCase(law.value, classname=f"structout.{result.backend}")
            case.result = [
                Failure(printable(f"{fault.violation.message}: {spec_text(fault)}"), fault.name)
                for fault in result.faults
                if fault.law is law
            ]
            if result.problem:
                case.result = [Error(printable(result.problem))]
            suite.add_testcase(case)
        xml.add_testsuite(suite)
    xml.write(str(path), pretty=True)


def printable(text: str) -> str:
    """A text with escapes for what does not show, and for what XML cannot hold."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
