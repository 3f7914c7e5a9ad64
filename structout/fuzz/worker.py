"""The process that a backend under test lives in: ``python -m structout.fuzz.worker``. It may crash, hang or be killed.

It answers lines, as `structout.processes.child.Lines` does. The first says which backend, on which vocabulary, under
which limit.
"""

from typing import Any

from structout.compile.sandbox.limits import limit_memory
from structout.errors import GrammarError
from structout.fuzz.jobs import JOBS
from structout.fuzz.law import Broken
from structout.fuzz.target import Target
from structout.fuzz.vocabulary import VOCABULARIES
from structout.grammar import BoundBackend
from structout.processes.child import Lines
from structout.processes.usage import resident_bytes
from structout.result import Err, Ok, Result


def main() -> None:
    lines = Lines()
    questions = iter(lines)
    match _bind(next(questions)):
        case Err(error):
            lines.write({"error": error.to_json(with_detail=True)})
        case Ok(bound):
            lines.write({"ready": True})
            for job in questions:
                lines.write(_do(bound, job))


def _bind(start: dict[str, Any]) -> Result[BoundBackend, GrammarError]:
    vocabulary = VOCABULARIES[start["vocabulary"]]()
    found = Target.from_json(start["target"]).find()
    bound = found.and_then(lambda each: BoundBackend.create(each.info, each.distribution, vocabulary))
    limit_memory(start["memory_bytes"])
    return bound


def _do(bound: BoundBackend, job: dict[str, Any]) -> dict[str, Any]:
    before = resident_bytes()
    try:
        done = JOBS[job["do"]](bound, job)
    except Broken as exc:
        done = {"broken": exc.violation.to_json()}
    except MemoryError:
        done = {"out_of_memory": True}
    return done | {"grown_bytes": resident_bytes() - before}


if __name__ == "__main__":
    main()
