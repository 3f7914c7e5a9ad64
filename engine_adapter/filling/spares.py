"""Processes for risky grammars, started ahead: loading a backend takes longer than anybody wants to wait."""

import mmap
import tempfile
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeAlias

import attrs
import numpy as np

from structout.backend import BitmaskRow
from structout.compile.failures import CANCELLED, SHUT_DOWN
from structout.compile.sandbox.starting import START_S, Opening, cannot_start, start_error
from structout.discovery import Registry
from structout.errors import ErrorKind, GrammarError, describe_exception
from structout.processes import LineProcess, Stop
from structout.result import Err, Ok, Result
from structout.vocabulary import Vocabulary

_CANNOT_START: Final = "the processes for risky grammars cannot be started; the operator's log says why"


@attrs.frozen(eq=False)
class Worker:
    """A process that runs `engine_adapter.filling.worker`, ready for a spec.

    Attributes:
        process: answers lines.
        row: the memory that it writes rows to, mapped here too.
    """

    process: LineProcess
    row: BitmaskRow


_Started: TypeAlias = Result[Worker, GrammarError]


class Spares:
    """Has one worker more than are in use. Safe to use from any thread.

    Args:
        registry: what this process has. A worker that finds another version of the backend is not used.
        vocabulary: what to compile for.
        backend: the backend's id.
        plugins: plugins that are not installed but passed in process, each as ``module:attribute``.
        disable: as given to `structout.discovery.discover`.
        memory_bytes: address space that a grammar and its matchers may take.
    """

    def __init__(
        self,
        registry: Registry,
        vocabulary: Vocabulary,
        backend: str,
        *,
        plugins: Sequence[str],
        disable: Collection[str] | None,
        memory_bytes: int,
    ) -> None:
        self._row_bytes = 4 * vocabulary.bitmask_width
        self._opening = Opening(registry, vocabulary, plugins, disable)
        self._backend = backend
        self._memory_bytes = memory_bytes
        self._closing = Stop()
        self._lock = threading.Lock()
        # Workers die with the thread that started them, so these threads stay.
        self._starters = ThreadPoolExecutor(2, thread_name_prefix="structout-risky")
        self._ahead: deque[Future[_Started]] = deque([self._starters.submit(self._start)])

    def take(self, stop: Stop) -> _Started:
        """A worker for whoever asks alone; has the next one started. If it has to, it waits: until ``stop`` is set, or
        this is closed."""
        while (ahead := self._claim()) is not None:
            if not _is_done(ahead, stop):
                self._put_back(ahead)
                return Err(CANCELLED)
            match ahead.result():
                case Ok(worker) if not worker.process.is_quiet():  # it died while it waited
                    worker.process.close()
                case started:
                    return started
        return Err(SHUT_DOWN)

    def close(self) -> None:
        """Kills the workers that are ahead. Those that were taken belong to who took them."""
        with self._lock:
            self._closing.set()
            ahead, self._ahead = self._ahead, deque()
        for started in ahead:
            started.add_done_callback(_discard)
        self._starters.shutdown()
        self._opening.close()

    def _claim(self) -> Future[_Started] | None:
        """The next worker, ready or not; None once this is closed."""
        with self._lock:
            if self._closing.is_set:
                return None
            ahead = self._ahead.popleft()
            if not self._ahead:
                self._ahead.append(self._starters.submit(self._start))
            return ahead

    def _put_back(self, ahead: Future[_Started]) -> None:
        with self._lock:
            if not self._closing.is_set:
                return self._ahead.appendleft(ahead)
        return ahead.add_done_callback(_discard)

    def _start(self) -> _Started:
        """A worker that is ready. Never raises."""
        try:
            with tempfile.TemporaryFile() as file:
                file.truncate(self._row_bytes)
                row = np.frombuffer(mmap.mmap(file.fileno(), self._row_bytes), np.int32)
                process = self._opening.start("engine_adapter.filling.worker", self._closing, pass_fds=[file.fileno()])
                opening = self._opening.line(backend=self._backend, memory_bytes=self._memory_bytes, row=file.fileno())
                answer = process.ask(opening, deadline=time.monotonic() + START_S, stop=self._closing)
            if (error := start_error(answer, _CANNOT_START, ErrorKind.UNAVAILABLE)) is None:
                return Ok(Worker(process, row))
            process.close()
        except Exception as exc:
            # Out of processes, descriptors or memory: the next one may have more luck.
            error = cannot_start(_CANNOT_START, describe_exception(exc))
        return Err(error)


def _is_done(ahead: Future[_Started], stop: Stop) -> bool:
    """Waits until it is, or until ``stop`` is set."""
    over = threading.Event()
    ahead.add_done_callback(lambda _: over.set())
    with stop.calling(over.set):
        over.wait()
    return ahead.done()


def _discard(ahead: Future[_Started]) -> None:
    if isinstance(started := ahead.result(), Ok):
        started.value.process.close()
