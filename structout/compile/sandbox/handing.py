"""How a grammar that was tried gets from its worker to the engine's process: as a file in a folder that both know.

Reading what a worker compiled is worth it where that is quicker than to compile it again: that a backend has both
``serialize`` and ``deserialize`` says so. What comes is data, which the backend checks.
"""

import contextlib
import tempfile
from pathlib import Path
from typing import Final

from structout.compile.sizes import size_of
from structout.grammar import Grammar

MOST_BYTES: Final = 8 << 20
"""Longer ones are compiled again: a library that holds Python's lock while it reads stops the engine for that long,
outlines-core some 4 ms for each MiB."""
_MOST_MEMORY: Final = 8 * MOST_BYTES
"""What takes more memory is not even serialized."""


class HandOver:
    """A folder for grammars on their way; `close` removes it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="structout-")

    @property
    def folder(self) -> str:
        return self._folder.name

    def read(self, job: int) -> bytes | None:
        """What a worker has left for a job; None if there is nothing, or too much."""
        path = _path(self.folder, job)
        try:
            return path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
        except OSError:
            return None

    def clear(self, job: int) -> None:
        """Removes what was left for a job, if there is anything."""
        with contextlib.suppress(OSError):
            _path(self.folder, job).unlink()

    def close(self) -> None:
        self._folder.cleanup()


def leave(folder: str, job: int, grammar: Grammar) -> None:
    """In a worker: leaves a grammar for `HandOver.read`, if it can be and is worth it."""
    if size_of(grammar) > _MOST_MEMORY:
        return
    data = grammar.serialize()
    if data is not None and len(data) <= MOST_BYTES:
        with contextlib.suppress(OSError):
            _path(folder, job).write_bytes(data)


def _path(folder: str, job: int) -> Path:
    return Path(folder, str(job))
