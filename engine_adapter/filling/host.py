"""One risky grammar and its matchers in a process of their own, which is replaced when it ends."""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from engine_adapter.filling.spares import Spares, Worker
from structout.backend import BitmaskRow, Finding, Status
from structout.compile.failures import CANCELLED, SHUT_DOWN
from structout.compile.sandbox.limits import Limits
from structout.compile.sandbox.messages import read_error
from structout.compile.sandbox.verdicts import ATTEMPTS, verdict, was_computing, was_killed_from_outside
from structout.errors import ErrorKind, GrammarError, GrammarFailure
from structout.processes import Cause, Ended, Stop
from structout.result import Err, Ok, Result
from structout.spec import GrammarSpec, spec_to_json


class Overdue(Exception):
    """A process was killed because a row took too long.

    Attributes:
        was_computing: whether it worked on the row for most of that time; else it waited for a processor.
    """

    def __init__(self, seconds: float, *, was_computing: bool) -> None:
        super().__init__(f"there was no row within {seconds:g} s")
        self.was_computing = was_computing


class Lost(Exception):
    """A process that ended, or could not be started, while it served a sequence."""


@attrs.frozen
class Findings:
    """What a grammar lets through more than its spec allows, and what less."""

    unenforced: tuple[Finding, ...]
    narrowed: tuple[Finding, ...]


@attrs.frozen
class Filled:
    """What a matcher is, once its row is written."""

    status: Status = attrs.field(converter=Status)
    is_accepting: bool = attrs.field(validator=attrs.validators.instance_of(bool))


Ask = Callable[[int], Mapping[str, Any]]
"""The question to put to the process of that number: see `engine_adapter.filling.worker.Desk`."""


class Host:
    """Safe to use from any thread; what is asked is done one after the other.

    Args:
        spares: where processes come from.
        spec: the grammar.
        limits: of compiling it.
        fill_s: seconds that one row may take; then the process is killed.
    """

    def __init__(self, spares: Spares, spec: GrammarSpec, limits: Limits, fill_s: float) -> None:
        self._spares = spares
        self._spec = spec
        self._limits = limits
        self._fill_s = fill_s
        self._closing = Stop()
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._number = 0
        self._dropped: deque[int] = deque()

    @property
    def pid(self) -> int | None:
        """Of the process; None if there is none now."""
        worker = self._worker
        return None if worker is None else worker.process.pid

    def compile(self, stop: Stop) -> Result[Findings, GrammarError]:
        """Starts the process and compiles the grammar in it. Once: when ``stop`` is set, this is closed."""
        with self._lock, stop.calling(self._closing.set):
            result = self._open()
        if self._closing.is_set:
            return Err(CANCELLED if stop.is_set else SHUT_DOWN)
        return result

    def fill(self, ask: Ask, row: BitmaskRow) -> tuple[int, Filled]:
        """Has a row filled, in a fresh process if the last one is gone.

        Returns:
            The number of the process that did it, and what it said; ``row`` is written.

        Raises:
            Overdue: it took too long; the process was killed for it.
            Lost: the process crashed, or could not be replaced.
        """
        with self._lock:
            for attempt in range(1, ATTEMPTS + 1):
                worker = self._ready()
                question = {**ask(self._number), "drop": self._take_dropped()}
                answer = self._put(worker, question, self._fill_s)
                if not isinstance(answer, Ended):
                    np.copyto(row, worker.row)
                    return self._number, _checked(answer)
                if answer.cause is Cause.DEADLINE:
                    raise Overdue(self._fill_s, was_computing=was_computing(answer, self._fill_s))
                if attempt == ATTEMPTS or not was_killed_from_outside(answer):
                    raise Lost(answer.describe())
            raise AssertionError("the last attempt returns or raises")

    def drop(self, matcher: int) -> None:
        """Forgets a matcher. Takes no lock: it is called wherever the last reference happens to go."""
        self._dropped.append(matcher)

    def close(self) -> None:
        """Kills the process; whoever asks it is told that it is lost."""
        self._closing.set()
        if (worker := self._worker) is not None:
            worker.process.close()

    def _ready(self) -> Worker:
        if self._worker is None and isinstance(opened := self._open(), Err):
            raise Lost(f"{opened.error}: {opened.error.detail}")
        assert self._worker is not None, "it was opened"
        return self._worker

    def _open(self) -> Result[Findings, GrammarError]:
        """Compiles the grammar in a fresh process."""
        for attempt in range(1, ATTEMPTS + 1):
            match self._spares.take(self._closing):
                case Err() as error:
                    return error
                case Ok(worker):
                    self._worker, self._number = worker, self._number + 1
            answer = self._put(worker, {"spec": spec_to_json(self._spec)}, self._limits.wall_s)
            if not isinstance(answer, Ended):
                result = _read_findings(answer)
                if isinstance(result, Err):
                    self._bury(worker)
                return result
            if attempt == ATTEMPTS or not was_killed_from_outside(answer):
                return Err(verdict(answer, self._spec, self._limits, self._limits.wall_s))
        raise AssertionError("the last attempt returns")

    def _put(self, worker: Worker, question: Mapping[str, Any], seconds: float) -> dict[str, Any] | Ended:
        """The worker's answer. If there is none, the worker is gone."""
        line = json.dumps(question).encode()
        answer = worker.process.ask(line, deadline=time.monotonic() + seconds, stop=self._closing)
        if isinstance(answer, bytes):
            try:
                data = json.loads(answer)
                if isinstance(data, dict):
                    return data
            except (ValueError, RecursionError):
                pass
            answer = worker.process.reject()
        self._bury(worker)
        return answer

    def _bury(self, worker: Worker) -> None:
        self._worker = None
        worker.process.close()

    def _take_dropped(self) -> list[int]:
        return [self._dropped.popleft() for _ in range(len(self._dropped))]


def _checked(answer: Mapping[str, Any]) -> Filled:
    """Raises `GrammarFailure` for an answer that is an error, `Lost` for one that is none."""
    try:
        if "error" in answer:
            raise GrammarFailure(read_error(answer["error"]))
        return Filled(**answer)
    except (ValueError, TypeError, KeyError, AttributeError) as exc:
        raise Lost("the process gave no valid answer") from exc


def _read_findings(answer: Mapping[str, Any]) -> Result[Findings, GrammarError]:
    try:
        if "error" in answer:
            return Err(read_error(answer["error"]))
        return Ok(Findings(_findings(answer["unenforced"]), _findings(answer["narrowed"])))
    except (ValueError, TypeError, KeyError, AttributeError):
        message = "the process that compiles this grammar gave no valid answer"
        return Err(GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=message))


def _findings(data: Sequence[Mapping[str, Any]]) -> tuple[Finding, ...]:
    return tuple(Finding(**each) for each in data)
