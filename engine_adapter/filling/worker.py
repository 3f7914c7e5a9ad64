"""The process that holds the matchers of one risky grammar: ``python -m engine_adapter.filling.worker``. It may crash,
hang or be killed.

The first line that it reads says what to load; it answers that it is ready, or why not. The second is a spec to
compile. Every other brings one matcher up to date and asks for its row, written to memory that both processes share.
"""

import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from structout.backend import BitmaskRow, Finding, Status
from structout.compile.backends import BoundBackends
from structout.compile.sandbox.limits import limit_memory
from structout.compile.sandbox.starting import cannot_start, load
from structout.constraint import Constraint
from structout.errors import GrammarError, describe_exception
from structout.grammar import BoundBackend, Grammar
from structout.processes.child import Lines, be_expendable
from structout.result import Err, Ok, Result
from structout.spec import spec_from_json


def main() -> None:
    lines = Lines()
    be_expendable()
    questions = iter(lines)
    if (opening := next(questions, None)) is None:
        return
    match _open(opening):
        case Err(error):
            lines.write(_refusal(error))
        case Ok(desk):
            lines.write({"ready": True})
            for question in questions:
                lines.write(desk.answer(question))


def _open(opening: Mapping[str, Any]) -> "Result[Desk, GrammarError]":
    """What the first line describes. Never raises."""
    try:
        registry, vocabulary = load(opening)
        bound = registry.find(opening["backend"]).and_then(BoundBackends(vocabulary).bind)
        row = np.frombuffer(mmap.mmap(opening["row"], 4 * vocabulary.bitmask_width), np.int32)
        limit_memory(opening["memory_bytes"])
        return bound.map(lambda backend: Desk(backend, row))
    except Exception as exc:
        return Err(cannot_start("the process for risky grammars cannot be started", describe_exception(exc)))


class Desk:
    """Answers, one question after the other.

    Args:
        backend: compiles the grammar.
        row: shared with whoever asks.
    """

    def __init__(self, backend: BoundBackend, row: BitmaskRow) -> None:
        self._backend = backend
        self._row = row
        self._grammar: Grammar | None = None
        self._constraints: dict[int, Constraint] = {}

    def answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        match question:
            case {"spec": spec}:
                return self._compile(spec)
            case {
                "matcher": int(number),
                "start": start,
                "undo": int(undo),
                "tokens": list(tokens),
                "drop": list(drop),
            }:
                for each in drop:
                    self._constraints.pop(each, None)
                return self._fill(number, start, undo, tokens)
        raise ValueError("this is no question")

    def _compile(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        match self._backend.compile(spec_from_json(spec)):
            case Err(error):
                return _refusal(error)
            case Ok(grammar):
                self._grammar = grammar
                return {"unenforced": _findings(grammar.unenforced), "narrowed": _findings(grammar.narrowed)}

    def _fill(
        self, number: int, start: Mapping[str, Any] | None, undo: int, tokens: Sequence[int]
    ) -> Mapping[str, Any]:
        if start is not None:
            assert self._grammar is not None, "it is compiled first"
            match self._grammar.start(**start):
                case Err(error):
                    return _refusal(error)
                case Ok(started):
                    self._constraints[number] = started
        constraint = self._constraints[number]
        statuses = [constraint.rollback(undo), *map(constraint.accept, tokens)]
        if refused := [status for status in statuses if status is not Status.OK]:
            return _refusal(constraint.error_for(refused[0]))
        status = constraint.fill(self._row)
        if status is Status.FAILED:
            return _refusal(constraint.error_for(status))
        is_accepting = constraint.is_accepting
        return {"status": status.value, "is_accepting": is_accepting}


def _refusal(error: GrammarError) -> Mapping[str, Any]:
    return {"error": error.to_json(with_detail=True)}


def _findings(findings: Sequence[Finding]) -> list[Mapping[str, Any]]:
    return [attrs.asdict(finding) for finding in findings]


if __name__ == "__main__":
    main()
