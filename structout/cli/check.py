"""``structout check``: what each backend makes of one schema, without generating anything."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from rich.console import Console

from structout.backend import Finding
from structout.cli.output import print_error
from structout.errors import ErrorKind, GrammarError
from structout.fuzz.child import Child, ChildError, Ended
from structout.fuzz.json_cases import schema_case
from structout.fuzz.laboratory import examine_in
from structout.fuzz.law import Law, Violation
from structout.fuzz.target import Target, registry
from structout.result import Err
from structout.schema import check_schema
from structout.spec import JsonSchema, Policy, spec_to_json

COMPILE_S = 60.0
"""What one compile may take."""
MEASURED_CASES = 10


@attrs.frozen
class Verdict:
    """What one backend makes of a schema.

    Attributes:
        backend: its id.
        verdict: ``exact``; ``sound``: it lets through less, see ``findings``; ``drops``: only with ``best_effort``, and
            then it does not enforce ``findings``; ``refuses``: see ``error``; ``fails``: it raised, or
            returned what it must not; ``crashes``: the process did not survive; see ``violations`` for both.
        findings: see ``verdict``.
        error: why it refuses, or fails.
        violations: broken laws: those of compiling, and what measuring found.
        measured: how many cases were measured.
    """

    backend: str
    verdict: str
    findings: tuple[Finding, ...] = ()
    error: GrammarError | None = None
    violations: tuple[Violation, ...] = ()
    measured: int = 0

    def to_json(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "verdict": self.verdict,
            "findings": [attrs.asdict(finding) for finding in self.findings],
            "error": self.error.to_json() if self.error else None,
            "violations": [violation.to_json() for violation in self.violations],
            "measured": self.measured,
        }


def run(schema: Path, backends: Sequence[str], plugins: Sequence[str], *, measure: bool, to_json: bool) -> int:
    """Prints a verdict for each backend. Returns 0; 1 if one fails, crashes or breaks a law; 2 for bad input."""
    try:
        spec = JsonSchema(schema.read_text(encoding="utf-8"))
        known = registry(plugins)
    except (OSError, ValueError, ImportError, AttributeError) as exc:
        return print_error(GrammarError(kind=ErrorKind.INVALID_SPEC, message=str(exc)), as_json=to_json)
    if error := check_schema(spec):
        return print_error(error, as_json=to_json)
    for backend in backends:
        match known.find(backend):
            case Err(error):
                return print_error(error, as_json=to_json)
    chosen = backends or [name for name, each in known.backends.items() if "json_schema" in each.info.spec_kinds]
    if not chosen:
        message = "no backend is installed that takes JSON Schemas"
        return print_error(GrammarError(kind=ErrorKind.UNAVAILABLE, message=message), as_json=to_json)
    verdicts = [_on(Target(backend, tuple(plugins)), spec, measure=measure) for backend in chosen]
    if to_json:
        print(json.dumps({"verdicts": [verdict.to_json() for verdict in verdicts]}, indent=2, ensure_ascii=False))
    else:
        _print(verdicts)
    return 1 if any(verdict.violations for verdict in verdicts) else 0


def _on(target: Target, spec: JsonSchema, *, measure: bool) -> Verdict:
    try:
        with Child(target) as child:
            verdict = _verdict(child, spec)
            return _measured(child, spec, verdict) if measure and verdict.verdict in _COMPILES else verdict
    except ChildError as exc:
        error = GrammarError(kind=ErrorKind.UNAVAILABLE, message=str(exc), backend=target.backend)
        return Verdict(target.backend, "refuses", error=error)


def _verdict(child: Child, spec: JsonSchema) -> Verdict:
    """The strictest policy under which the backend takes the schema decides."""
    backend = child.target.backend
    for policy, name, findings in _POLICIES:
        job = {"do": "accepts", "spec": spec_to_json(attrs.evolve(spec, policy=policy)), "texts": []}
        try:
            answer = child.run(job, limit_s=COMPILE_S)
        except Ended as exc:
            return Verdict(backend, "crashes", violations=(exc.violation,))
        if "error" not in answer:
            return Verdict(backend, name, findings=tuple(Finding(*each) for each in answer[findings]))
        error = GrammarError.from_json(answer["error"])
        if error.kind is ErrorKind.BACKEND_FAILURE:
            broken = Violation(Law.RESULT_DISCIPLINE, f"it failed: {error.detail or error.message}")
            return Verdict(backend, "fails", error=error, violations=(broken,))
    return Verdict(backend, "refuses", error=error)


_POLICIES = (
    (Policy.EXACT, "exact", "narrowed"),
    (Policy.SOUND, "sound", "narrowed"),
    (Policy.BEST_EFFORT, "drops", "unenforced"),
)


_COMPILES = frozenset(name for _, name, _ in _POLICIES)


def _measured(child: Child, spec: JsonSchema, verdict: Verdict) -> Verdict:
    policy = next(policy for policy, name, _ in _POLICIES if name == verdict.verdict)
    violations: dict[Law, Violation] = {}
    for seed in range(MEASURED_CASES):
        case = schema_case(attrs.evolve(spec, policy=policy), seed).unwrap()
        report = examine_in(child, case, list(Law) if seed == 0 else [law for law in Law if law is not Law.LEAK])
        for violation in report.violations:
            violations.setdefault(violation.law, violation)
    return attrs.evolve(verdict, violations=tuple(violations.values()), measured=MEASURED_CASES)


def _print(verdicts: Sequence[Verdict]) -> None:
    console = Console()
    for verdict in verdicts:
        lines = [f"{verdict.backend}: {_headline(verdict)}"]
        lines += [
            f"  {finding.pointer or 'the root'}: {finding.keyword} {finding.reason}" for finding in verdict.findings
        ]
        lines += [f"  {each.law.value}: {each.message} {dict(each.evidence) or ''}" for each in verdict.violations]
        if verdict.measured:
            lines.append(f"  measured on {verdict.measured} cases: {len(verdict.violations) or 'no'} laws broken")
        console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _headline(verdict: Verdict) -> str:
    match verdict.verdict:
        case "exact":
            return "exact"
        case "sound":
            return "sound; lets through less than the schema allows:"
        case "drops":
            return "refuses it by default; with best_effort it drops:"
        case "refuses" if verdict.error:
            where = "" if verdict.error.pointer is None else f" at {verdict.error.pointer or 'the root'}"
            return f"refuses it{where}: {verdict.error.message}"
    return verdict.verdict
