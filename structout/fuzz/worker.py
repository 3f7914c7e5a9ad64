"""The process that a backend under test lives in: ``python -m structout.fuzz.worker``. It may crash, hang or be killed.

It reads one JSON object a line from what was its standard input and answers each with one on what was its standard
output: a plugin that reads finds nothing, and what native code prints goes to standard error. The first line says which
backend, on which vocabulary, under which limit.
"""

import json
import os
import resource
from typing import Any

from structout.errors import GrammarError
from structout.fuzz.jobs import JOBS
from structout.fuzz.law import Broken
from structout.fuzz.target import Target
from structout.fuzz.vocabulary import VOCABULARIES
from structout.grammar import BoundBackend
from structout.processes.usage import address_space, resident_bytes
from structout.result import Err, Ok, Result


def main() -> None:
    jobs = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)

    def answer(data: dict[str, Any]) -> None:
        answers.write(json.dumps(data) + "\n")
        answers.flush()

    match _bind(json.loads(jobs.readline())):
        case Err(error):
            answer({"error": error.to_json(with_detail=True)})
        case Ok(bound):
            answer({"ready": True})
            for line in jobs:
                answer(_do(bound, json.loads(line)))


def _bind(start: dict[str, Any]) -> Result[BoundBackend, GrammarError]:
    limit = start["memory_bytes"]
    vocabulary = VOCABULARIES[start["vocabulary"]]()
    found = Target.from_json(start["target"]).find()
    bound = found.and_then(lambda each: BoundBackend.create(each.info, each.distribution, vocabulary))
    if (taken := address_space()) is not None:
        resource.setrlimit(resource.RLIMIT_AS, (taken + limit, resource.RLIM_INFINITY))
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
