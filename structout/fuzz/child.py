"""A backend in a process that can be killed: what it does to that process becomes a verdict."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any, Final, Self

import attrs

from structout.fuzz.law import Law, Violation
from structout.fuzz.patience import Patience
from structout.fuzz.target import Target

START_S: Final = 120.0
"""What loading a backend may take."""
_GLANCE_S: Final = 1.0
"""How often a process that does not answer is looked after."""
MEMORY_BYTES: Final = 2 << 30
"""What a worker may reserve beyond what it has when its backend is loaded."""


class ChildError(Exception):
    """A backend that cannot be loaded; with what to do about it."""


@attrs.frozen
class Ended(Exception):
    """A job that the process did not survive.

    Attributes:
        violation: CRASH, HANG or MEMORY, with what is known.
    """

    violation: Violation


class Child:
    """Runs jobs for one backend in one process at a time, which is replaced when it ends.

    Args:
        target: the backend.
        vocabulary: a name of `structout.fuzz.vocabulary.VOCABULARIES`.
        memory_bytes: see `MEMORY_BYTES`.
        hash_seed: the seed of Python's hashes in the process, on which the order of its sets depends.
    """

    def __init__(
        self,
        target: Target,
        *,
        vocabulary: str = "small",
        memory_bytes: int = MEMORY_BYTES,
        hash_seed: int = 0,
    ) -> None:
        self.target = target
        self._hash_seed = hash_seed
        self._start: dict[str, Any] = {
            "target": target.to_json(),
            "vocabulary": vocabulary,
            "memory_bytes": memory_bytes,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._buffer = b""

    def twin(self) -> "Child":
        """The same backend for another process, in which Python's hashes are others."""
        vocabulary, memory_bytes = self._start["vocabulary"], self._start["memory_bytes"]
        return Child(self.target, vocabulary=vocabulary, memory_bytes=memory_bytes, hash_seed=self._hash_seed + 1)

    def run(self, job: Mapping[str, Any], *, limit_s: float) -> dict[str, Any]:
        """The worker's answer to a job.

        Raises:
            Ended: the process crashed, hung or ran out of memory; a fresh one takes the next job.
            ChildError: the backend cannot be loaded.
        """
        if self._process is None:
            self._launch()
        answer = self._ask(job, limit_s)
        if answer.get("out_of_memory"):
            self.close()
            raise Ended(Violation(Law.MEMORY, "it runs out of the memory that it may have"))
        return answer

    def _launch(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "structout.fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": str(self._hash_seed)},
            start_new_session=True,
        )
        try:
            answer = self._ask(self._start, START_S)
        except Ended as exc:
            said = str(exc.violation.evidence.get("stderr", "")).strip()
            message = f"{self.target.backend} could not be loaded: {exc.violation.message}"
            raise ChildError(f"{message}: {said[-500:]}" if said else message) from exc
        if error := answer.get("error"):
            self.close()
            raise ChildError(": ".join(filter(None, (error["message"], error.get("detail")))))

    def _ask(self, job: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(job).encode() + b"\n")
            process.stdin.flush()
            line = self._line(process, Patience(process.pid, limit_s))
        except BrokenPipeError:
            line = b""
        if line is None:
            self.close()
            raise Ended(Violation(Law.HANG, f"it did not answer within {limit_s:g} s"))
        if not line:
            raise Ended(self._post_mortem())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _line(self, process: subprocess.Popen[bytes], patience: Patience) -> bytes | None:
        """The next line; empty at the end of the process, None where that takes too long."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(min(max(0.01, patience.left_s), _GLANCE_S)):
                    # What the backend has forked may hold the pipe open when its process is gone.
                    if process.poll() is not None:
                        return b""
                    if patience.is_over:
                        return None
                    continue
                chunk = os.read(process.stdout.fileno(), 1 << 20)
                if not chunk:
                    return b""
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _post_mortem(self) -> Violation:
        """What ended the process."""
        process = self._process
        assert process is not None
        assert self._errors is not None
        code = process.wait()
        self._errors.seek(0)
        said = self._errors.read()[-2000:].decode("utf-8", "replace")
        self.close()
        if b"bad_alloc" in said.encode() or "memory allocation" in said:
            return Violation(Law.MEMORY, "it runs out of the memory that it may have", {"stderr": said})
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return Violation(Law.CRASH, f"the process ended with {how}", {"stderr": said})

    def close(self) -> None:
        """Ends the process, if there is one."""
        if self._process is None:
            return
        process, self._process = self._process, None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what the backend has started goes with it
        process.kill()
        process.wait()
        for file in (process.stdin, process.stdout, self._errors):
            with contextlib.suppress(OSError):
                assert file is not None
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
