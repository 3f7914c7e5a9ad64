"""The sandbox: specs are tried in warm processes that can be killed; a hostile one costs one request one error."""

import functools
import itertools
import json
import logging
import math
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs

from structout.compile.risk import Measures
from structout.compile.sandbox.crew import Crew
from structout.compile.sandbox.handing import HandOver
from structout.compile.sandbox.limits import Limits
from structout.compile.sandbox.messages import (
    Answer,
    Measured,
    Through,
    Tried,
    Trying,
    read_answer,
    read_measured,
    read_tried,
)
from structout.compile.sandbox.starting import START_S, Opening, cannot_start, start_error
from structout.compile.sandbox.verdicts import ATTEMPTS, no_time_left, verdict, was_killed_from_outside
from structout.discovery import Registry
from structout.errors import ErrorKind, GrammarError, describe_exception, reraise_users_interrupt
from structout.processes import Cause, Ended, LineProcess, Stop
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec, spec_to_json
from structout.vocabulary import Vocabulary

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=attrs.AttrsInstance)


@attrs.frozen
class Walks:
    """How a grammar is tried once it is compiled: see `structout.compile.sandbox.walking.Walker.walk`."""

    max_steps: int = attrs.field(default=64, validator=attrs.validators.ge(0))
    fill_budget_s: float = attrs.field(default=0.1, validator=attrs.validators.gt(0))
    seed: int = 0


_CANNOT_START: Final = "the processes that try grammars cannot be started; the operator's log says why"
HANDING_S: Final = 5.0
"""What handing a grammar over may take. Then it is not handed over, and no worse for that."""
DEFAULT_LIMITS: Final = Limits()
DEFAULT_WALKS: Final = Walks()


@attrs.frozen
class _Question(Generic[T]):
    """What is asked about a spec.

    Attributes:
        job: its number, which the answer repeats.
        crew: who is asked.
        fields: what is asked, beside the spec.
        read: see `read_answer`; of a process.
        stop, due: see `Sandbox.run`.
    """

    job: int
    crew: Crew
    spec: GrammarSpec
    fields: Mapping[str, Any]
    read: Callable[[LineProcess, Mapping[str, Any], Mapping[str, Any] | None], T]
    stop: Stop
    due: float


class Sandbox:
    """Tries specs in processes of their own. Safe to use from any thread.

    A worker that crashes, hangs, exceeds its limits or answers rubbish is replaced at once; the next job finds another.

    Args:
        registry: what the engine process has. A backend of which the workers find another version, or that they do not
            find, is unavailable in them.
        vocabulary: what to compile for.
        workers: how many specs are tried at the same time. There is one more process, which measures, one spec after
            the other: that takes half a second at most, and waits for nothing that is tried.
        warm: ids of the backends that a worker loads before its first job. Loading another one is part of the first
            job that needs it.
        plugins: plugins that are not installed but passed in process, each as ``module:attribute``.
        disable: as given to `structout.discovery.discover`.
        limits: what each job may use.
        walks: how a grammar is tried once it is compiled.

    Attributes:
        workers: see above.
    """

    def __init__(
        self,
        registry: Registry,
        vocabulary: Vocabulary,
        *,
        workers: int = 2,
        warm: Sequence[str] = (),
        plugins: Sequence[str] = (),
        disable: Collection[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        walks: Walks = DEFAULT_WALKS,
    ) -> None:
        self._registry = registry
        self._limits = limits
        self._walks = walks
        self._jobs = itertools.count()
        self._opening = Opening(registry, vocabulary, plugins, disable)
        self._hand_overs: weakref.WeakKeyDictionary[LineProcess, HandOver] = weakref.WeakKeyDictionary()
        self.workers = workers
        self._trying = Crew(functools.partial(self._start, list(warm)), workers)
        self._measuring = Crew(functools.partial(self._start, []), 1)

    @property
    def lost(self) -> int:
        """How many processes have ended so far, whatever ended them."""
        return self._trying.lost + self._measuring.lost

    @property
    def waiting(self) -> int:
        """How many specs wait to be tried."""
        return self._trying.waiting

    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers that are ready to try a spec, or at work."""
        return self._trying.pids()

    def wait_until_full(self, timeout_s: float = START_S) -> bool:
        """Blocks until all processes are ready or at work, at most ``timeout_s`` seconds each; whether they are."""
        return self._trying.wait_until_full(timeout_s) and self._measuring.wait_until_full(timeout_s)

    def run(
        self, spec: GrammarSpec, *, backend: str | None = None, stop: Stop, due: float = math.inf
    ) -> Result[Tried, GrammarError]:
        """Compiles and tries a spec in a worker; waits for one that is free, in order of arrival. Never raises.

        Args:
            spec: what to try.
            backend: the backend that has to take it; None to try all that might.
            stop: ends this call with CANCELLED when it is set, and the worker if one is at work.
            due: when it has to be over, by `time.monotonic`, if that is before the limit.

        Returns:
            What was measured, or: what the backends say; TIMED_OUT, the caller's fault if the worker was computing and
            the service's if it slept or waited for a processor (see `verdicts`); TOO_COMPLEX over the limit of memory;
            BACKEND_FAILURE for a crash; UNAVAILABLE or BACKEND_FAILURE if no worker can be started.
        """
        fields = {"backend": backend, "walks": attrs.asdict(self._walks)}
        return self._answer(_Question(next(self._jobs), self._trying, spec, fields, self._read_tried, stop, due))

    def measure(self, spec: GrammarSpec, *, stop: Stop, due: float = math.inf) -> Result[Measures, GrammarError]:
        """`structout.compile.risk.measures_of` in another process: for a spec so long that doing it here would hold up
        this process's other threads. Otherwise like `run`."""
        question = _Question(next(self._jobs), self._measuring, spec, {}, _read_measured, stop, due)
        return self._answer(question).map(lambda measured: measured.measures)

    def _read_tried(self, process: LineProcess, said: Mapping[str, Any], left: Mapping[str, Any] | None) -> Tried:
        """See `read_answer`."""
        tried = read_tried(self._registry.backends, said)
        return tried if left is None else attrs.evolve(tried, data=self._hand_overs[process].take(left))

    def close(self) -> None:
        """Kills the workers and waits for their end; what runs or waits ends as shut down."""
        self._trying.close()
        self._measuring.close()
        self._opening.close()

    def _answer(self, question: _Question[T]) -> Result[T, GrammarError]:
        """What comes of a question. Never raises."""
        try:
            return self._attempted(question)
        except BaseException as exc:
            reraise_users_interrupt(exc)
            logger.exception("trying a grammar failed in the sandbox itself")
            message = "the sandbox failed; the operator's log says how"
            return Err(GrammarError(kind=ErrorKind.ENGINE_FAILURE, message=message, detail=describe_exception(exc)))

    def _attempted(self, question: _Question[T]) -> Result[T, GrammarError]:
        """What one process makes of a question; another is asked if somebody killed it."""
        spec = question.spec
        line = json.dumps({"job": question.job, "spec": spec_to_json(spec), **question.fields}).encode()
        for attempt in itertools.count(1):
            match question.crew.take(question.stop):
                case Err(error):
                    return Err(error)
                case Ok(process):
                    began = time.monotonic()
            deadline = min(question.due, began + self._limits.wall_s)
            if deadline <= began:
                question.crew.give_back(process)
                return Err(no_time_left(spec))
            tried, outcome = self._ask(process, question, line, deadline)
            if isinstance(outcome, Answer):
                return outcome.result
            if attempt == ATTEMPTS or not was_killed_from_outside(outcome):
                return Err(self._blame(verdict(outcome, spec, self._limits, deadline - began), outcome, tried))
        raise AssertionError("counting does not end")

    def _ask(
        self, process: LineProcess, question: _Question[T], line: bytes, deadline: float
    ) -> tuple[str | None, Answer[T] | Ended]:
        """The backend that was tried last, and what came of the question."""
        tried: str | None = None
        through: Answer[T] | None = None
        read = functools.partial(question.read, process)
        said = process.ask(line, deadline=deadline, stop=question.stop)
        while isinstance(said, bytes):
            match read_answer(said, question.job, self._registry.backends, read):
                case Trying(backend):
                    tried = backend
                    said = process.ask(b"", deadline=deadline, stop=question.stop)
                case Through(value) if through is None:
                    through = Answer(Ok(value), is_last=True)
                    deadline = min(deadline, time.monotonic() + HANDING_S)
                    said = process.ask(b"", deadline=deadline, stop=question.stop)
                case Answer() as answer:
                    if answer.is_last:
                        process.kill()
                    else:
                        question.crew.give_back(process)
                    return tried, answer
                case Through() | None:
                    said = process.reject()
        if through is not None and said.cause is not Cause.STOPPED:
            logger.warning("a grammar of %s could not be handed over: %s", tried, said.describe())
            return tried, through
        return tried, said

    def _blame(self, error: GrammarError, ended: Ended, tried: str | None) -> GrammarError:
        """The error, with the backend that was at work; and a line in the log."""
        if tried is None or ended.cause is Cause.STOPPED:
            return error
        logger.warning("a sandbox worker was lost with %s: %s", tried, ended.describe())
        return attrs.evolve(error, backend=tried, distribution=self._registry.backends[tried].distribution)

    def _started(self, warm: list[str], closing: Stop) -> tuple[LineProcess, bytes | Ended]:
        """A worker, and what it says once these backends are loaded. Raises OSError."""
        hand_over = HandOver()
        process = self._opening.start("structout.compile.sandbox.worker", closing, pass_fds=[hand_over.descriptor])
        self._hand_overs[process] = hand_over
        weakref.finalize(process, hand_over.close)
        limits = attrs.asdict(self._limits)
        opening = self._opening.line(warm=warm, limits=limits, hand_over=hand_over.descriptor)
        return process, process.ask(opening, deadline=time.monotonic() + START_S, stop=closing)

    def _start(self, warm: list[str], closing: Stop) -> Result[LineProcess, GrammarError]:
        """A worker that is ready, these backends loaded; another is started if somebody killed it. Never raises."""
        try:
            for attempt in itertools.count(1):
                process, answer = self._started(warm, closing)
                error = start_error(answer, _CANNOT_START, ErrorKind.BACKEND_FAILURE)
                if error is None:
                    return Ok(process)
                process.close()
                if attempt == ATTEMPTS or not (isinstance(answer, Ended) and was_killed_from_outside(answer)):
                    return Err(error)
        except Exception as exc:
            # Out of processes, descriptors or memory: this thread has to try again later.
            return Err(cannot_start(_CANNOT_START, describe_exception(exc)))
        raise AssertionError("counting does not end")


def _read_measured(_process: LineProcess, said: Mapping[str, Any], _left: object) -> Measured:
    return read_measured(said)
