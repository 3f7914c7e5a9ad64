"""How exact a backend is on a corpus: which schemas it refuses, on which it accepts too much or too little."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from structout.backend import Finding
from structout.errors import ErrorKind
from structout.fuzz.case import Case, Text
from structout.fuzz.child import Child, Ended
from structout.fuzz.corpus import Example
from structout.fuzz.faults import Fault
from structout.fuzz.law import Law, Violation
from structout.spec import spec_to_json

LIMIT_S: Final = 10.0
"""What compiling one spec and reading its texts may take."""


@attrs.frozen
class Exactness:
    """What one backend does on one example.

    Attributes:
        name: of the example.
        refused: the kind of its error; None if it compiled.
        died: CRASH, HANG or MEMORY if the process did not survive; None if it did.
        message: of the error.
        over_accepted: texts not of the language that it accepts, in one of their forms.
        rejected: texts of the language that it does not accept in their first form.
        rejected_forms: those that it does not accept in another form.
        exact: whether it compiled and none of these holds, or it rightly found that nothing satisfies the spec.
        unenforced: what the grammar lists as not enforced.
        narrowed: where it says that it lets through less.
    """

    name: str
    refused: ErrorKind | None = None
    died: Law | None = None
    message: str = ""
    over_accepted: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    rejected_forms: tuple[str, ...] = ()
    exact: bool = False
    unenforced: tuple[Finding, ...] = ()
    narrowed: tuple[Finding, ...] = ()


def measure(child: Child, examples: Iterable[Example]) -> Iterator[Exactness]:
    """Each example's verdict, in order."""
    for example in examples:
        groups = (*example.members, *example.strangers)
        job = {
            "do": "accepts",
            "spec": spec_to_json(example.spec),
            "texts": [text for group in groups for text in group],
        }
        try:
            yield _verdict(example, child.run(job, limit_s=LIMIT_S))
        except Ended as exc:
            yield Exactness(example.name, died=exc.violation.law, message=exc.violation.message)


def _verdict(example: Example, answer: dict[str, Any]) -> Exactness:
    if error := answer.get("error"):
        unsatisfiable = "unsat" in f"{error['kind']} {error['message']} {error.get('detail', '')}".lower()
        exact = unsatisfiable and not example.members
        return Exactness(example.name, refused=ErrorKind(error["kind"]), message=error["message"], exact=exact)
    accepted = iter(answer["accepted"])
    members = [[(text, next(accepted)) for text in group] for group in example.members]
    strangers = [[(text, next(accepted)) for text in group] for group in example.strangers]
    over = tuple(next(text for text, taken in group if taken) for group in strangers if any(t for _, t in group))
    rejected = tuple(group[0][0] for group in members if not group[0][1])
    return Exactness(
        example.name,
        over_accepted=over,
        rejected=rejected,
        rejected_forms=tuple(text for group in members for text, taken in group[1:] if not taken),
        exact=not over and not rejected,
        unenforced=tuple(Finding(*each) for each in answer["unenforced"]),
        narrowed=tuple(Finding(*each) for each in answer["narrowed"]),
    )


@attrs.frozen
class Shares:
    """What became of a part of a corpus.

    Attributes:
        examples: their number.
        shares: which part of them is ``exact``, ``refused``, ``over_accepts``, ``rejects_valid``, ``rejects_forms`` or
            ``died``. An example can be more than one of these.
    """

    examples: int
    shares: Mapping[str, float]


def shares_by_part(verdicts: Iterable[tuple[Example, Exactness]]) -> dict[str, Shares]:
    """The shares of each `Example.part`."""
    parts: dict[str, list[Exactness]] = {}
    for example, verdict in verdicts:
        parts.setdefault(example.part, []).append(verdict)
    return {part: _shares(each) for part, each in sorted(parts.items(), reverse=True)}


def _shares(verdicts: Collection[Exactness]) -> Shares:
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        counts["exact"] += verdict.exact
        counts["refused"] += verdict.refused is not None
        counts["over_accepts"] += bool(verdict.over_accepted)
        counts["rejects_valid"] += bool(verdict.rejected)
        counts["rejects_forms"] += bool(verdict.rejected_forms)
        counts["died"] += verdict.died is not None
    return Shares(len(verdicts), {name: count / len(verdicts) for name, count in counts.items()})


def faults_of(backend: str, verdicts: Iterable[tuple[Example, Exactness]]) -> Iterator[Fault]:
    """What of this breaks a law: what is let through or kept out without being listed, and processes that died."""
    for example, verdict in verdicts:
        case = Case(example.spec, name=example.name)
        if verdict.died:
            yield Fault(backend, Violation(verdict.died, verdict.message), case)
        if verdict.over_accepted and not verdict.unenforced:
            stranger = Text(verdict.over_accepted[0], "syntax")
            violation = Violation(
                Law.OVER_ACCEPTANCE, "it accepts a text that is not of the language", {"text": stranger.text}
            )
            yield Fault(backend, violation, attrs.evolve(case, strangers=(stranger,)))
        if verdict.rejected and not verdict.narrowed:
            member = Text(verdict.rejected[0], "plain")
            violation = Violation(
                Law.WRONG_REJECTION, "it does not accept a text of the language", {"text": member.text}
            )
            yield Fault(backend, violation, attrs.evolve(case, members=(member,)))
