"""Cases on a backend in its child process: what campaigns, the conformance kit and ``check`` ask."""

from collections.abc import Collection
from typing import Any, Final

from structout.fuzz.case import Case
from structout.fuzz.child import Child, Ended
from structout.fuzz.examine import MASK_BUDGET_S, Report
from structout.fuzz.law import Law, Violation

LIMIT_S: Final = 20.0
"""What the oracles may take for one case, in seconds of wall time."""
GROWTH_BYTES: Final = 512 << 20
"""By how much one case may make the process grow."""


def examine_in(
    child: Child,
    case: Case,
    laws: Collection[Law],
    *,
    limit_s: float = LIMIT_S,
    mask_budget_s: float = MASK_BUDGET_S,
) -> Report:
    """A report on a case; that the process hangs, crashes or grows too much is a violation like any other.

    A hang and a slow row are asked for twice: another process may have had the machine the first time.
    """
    job = {"do": "examine", "case": case.to_json(), "laws": sorted(laws), "mask_budget_s": mask_budget_s}
    report = _attempt(child, job, limit_s)
    if any(violation.law in (Law.HANG, Law.MASK_TIME) for violation in report.violations):
        again = _attempt(child, job, limit_s)
        return again if len(again.violations) <= len(report.violations) else report
    return report


def _attempt(child: Child, job: dict[str, Any], limit_s: float) -> Report:
    try:
        answer = child.run(job, limit_s=limit_s)
    except Ended as exc:
        return Report(violations=(exc.violation,))
    grown = answer.pop("grown_bytes")
    if broken := answer.get("broken"):
        return Report(violations=(Violation.from_json(broken),))
    if grown > GROWTH_BYTES:
        child.close()
        message = f"one case makes the process grow by {grown >> 20} MiB"
        answer["violations"].append(Violation(Law.MEMORY, message).to_json())
    return Report.from_json(answer)
