"""The process in which grammars are tried: ``python -m structout.compile.sandbox.worker``. It may crash, hang or be
killed.

The first line that it reads says what to load; it answers that it is ready, or why not. Every other line is a job: a
spec to measure, or to compile and to walk through. Before it turns to a backend it says so, and in the end what came of
it.
"""

import functools
import gc
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from structout.compile.backends import BoundBackends
from structout.compile.risk import BOUNDS, measures_of
from structout.compile.sandbox import handing
from structout.compile.sandbox.limits import (
    Limits,
    lift_memory_limit,
    limit_cpu,
    limit_memory,
    says_out_of_memory,
)
from structout.compile.sandbox.messages import Answer, Measured, Tried
from structout.compile.sandbox.starting import cannot_start, load
from structout.compile.sandbox.verdicts import out_of_memory
from structout.compile.sandbox.walking import Stopwatch, Walker
from structout.compile.trying import try_candidates
from structout.discovery import RegisteredBackend, Registry
from structout.errors import ErrorKind, GrammarError, describe_exception
from structout.grammar import BoundBackend
from structout.processes.child import Lines, be_expendable
from structout.processes.usage import resident_bytes
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec, spec_from_json
from structout.vocabulary import Vocabulary

_CANNOT_START: Final = "the process that tries grammars cannot be started"
Say = Callable[[Mapping[str, Any]], None]


def main() -> None:
    lines = Lines()
    be_expendable()
    questions = iter(lines)
    if (start := next(questions, None)) is None:
        return
    try:
        bench = _open(start)
    except Exception as exc:
        lines.write({"error": cannot_start(_CANNOT_START, describe_exception(exc)).to_json(with_detail=True)})
        return
    gc.freeze()  # a collection in the middle of a fill counts as its time: of what stays it is not to take any
    lines.write({"ready": True})
    for job in questions:
        say = functools.partial(_say, lines, job["job"])
        say(bench.do(job, say).to_json())


def _say(lines: Lines, job: int, said: Mapping[str, Any]) -> None:
    lines.write({"job": job, **said})


def _open(start: Mapping[str, Any]) -> "Bench":
    """What the first line describes. Raises whatever goes wrong."""
    registry, vocabulary = load(start)
    bench = Bench(registry, vocabulary, Limits(**start["limits"]), start["hand_over"])
    for backend in start["warm"]:
        registry.find(backend).and_then(bench.bind)
    return bench


class Bench:
    """Does jobs, one after the other.

    Args:
        registry: the backends that may be tried.
        vocabulary: what to compile for.
        limits: what each job may use.
        hand_over: descriptor of the file in which grammars are left (`structout.compile.sandbox.handing`).
    """

    def __init__(self, registry: Registry, vocabulary: Vocabulary, limits: Limits, hand_over: int) -> None:
        self._registry = registry
        self._limits = limits
        self._hand_over = hand_over
        self._left: dict[str, Any] | None = None
        self._backends = BoundBackends(vocabulary)
        self._bound: set[str] = set()
        self._walker = Walker(vocabulary)
        self._resident = resident_bytes()
        self._is_worn = False

    def do(self, job: Mapping[str, Any], say: Say) -> Answer[Tried] | Answer[Measured]:
        """What comes of a job. Raises nothing.

        Args:
            job: ``spec``, which is measured; or is tried if there are ``backend`` and ``walks``, the arguments of
                `Walker.walk`.
            say: passes on what is to be known before.
        """
        limit_cpu(self._limits.cpu_s)
        limit_memory(self._limits.memory_bytes)
        spec = spec_from_json(job["spec"])
        if "walks" not in job:
            return Answer(Ok(Measured(measures_of(spec, BOUNDS))), is_last=False)
        return self._try(spec, job, say)

    def _try(self, spec: GrammarSpec, job: Mapping[str, Any], say: Say) -> Answer[Tried]:
        self._left = None
        try:
            _, result = try_candidates(
                spec, self._registry, job["backend"], lambda candidate: self._attempt(candidate, spec, job, say)
            )
        except BaseException as exc:
            result = Err(self._explained(_cannot_try(spec, exc), spec))
        grown = resident_bytes() - self._resident
        return Answer(result, self._is_worn or grown > self._limits.memory_bytes // 2, self._left)

    def _attempt(
        self, candidate: RegisteredBackend, spec: GrammarSpec, job: Mapping[str, Any], say: Say
    ) -> Result[Tried, GrammarError]:
        say({"trying": candidate.info.id})
        match self.bind(candidate).and_then(lambda bound: self._compile_and_walk(bound, spec, job, say)):
            case Err(error):
                return Err(self._explained(error, spec))
            case tried:
                return tried

    def _compile_and_walk(
        self, bound: BoundBackend, spec: GrammarSpec, job: Mapping[str, Any], say: Say
    ) -> Result[Tried, GrammarError]:
        before = resident_bytes()
        with Stopwatch() as compiling:
            compiled = bound.compile_admitted(spec)
        walked = compiled.and_then(lambda grammar: self._walker.walk(grammar, **job["walks"]))
        match compiled, walked:
            case Ok(grammar), Ok(came_through):
                grown = max(0, resident_bytes() - before)
                tried = Tried(bound.id, compiling.seconds, came_through.slowest_fill_s, came_through.fills, grown)
                if grammar.can_serialize:
                    say({"through": attrs.asdict(tried)})
                    self._left = handing.left(self._hand_over, grammar)
                return Ok(tried)
            case _, Err() as failed:
                return failed
        raise AssertionError("a result is Ok or Err")

    def _explained(self, error: GrammarError, spec: GrammarSpec) -> GrammarError:
        """The error, or the limit that is behind it. Who has met that limit takes no more jobs."""
        if error.kind is not ErrorKind.BACKEND_FAILURE or not says_out_of_memory(error.detail):
            return error
        self._is_worn = True
        return attrs.evolve(
            out_of_memory(spec, self._limits),
            backend=error.backend,
            distribution=error.distribution,
            detail=error.detail,
        )

    def bind(self, registered: RegisteredBackend) -> Result[BoundBackend, GrammarError]:
        """The backend; the memory that loading it takes counts for no job."""
        if registered.info.id in self._bound:
            return self._backends.bind(registered)
        lift_memory_limit()
        before = resident_bytes()
        bound = self._backends.bind(registered)
        self._resident += resident_bytes() - before
        limit_memory(self._limits.memory_bytes)
        if isinstance(bound, Ok):
            self._bound.add(registered.info.id)
        return bound


def _cannot_try(spec: GrammarSpec, exc: BaseException) -> GrammarError:
    message = f"this {spec.kind} could not be tried"
    return GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=message, detail=describe_exception(exc))


if __name__ == "__main__":
    main()
