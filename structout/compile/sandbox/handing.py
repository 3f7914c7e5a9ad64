"""How a grammar that was tried gets from its worker to the engine's process: in a file without a name that both hold.

Reading what a worker compiled is worth it where that is quicker than to compile it again: that a backend has both
``serialize`` and ``deserialize`` says so. A worker reads what it is about to hand over, for that may hang or crash too.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from typing import Any, Final

from structout.compile.sizes import size_of
from structout.grammar import Grammar
from structout.result import Ok

MOST_BYTES: Final = 8 << 20
"""Longer ones are compiled again: a library that holds Python's lock while it reads stops the engine for that long,
outlines-core some 4 ms for each MiB."""
_MOST_MEMORY: Final = 8 * MOST_BYTES
"""What takes more memory is not even serialized."""


class HandOver:
    """The engine's side of one worker's file; `close` gives it back."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (closed by close)

    @property
    def descriptor(self) -> int:
        return self._file.fileno()

    def take(self, said: Mapping[str, Any]) -> bytes:
        """What a worker says that it has left. Raises ValueError, TypeError or KeyError if it has not."""
        size, digest = said["bytes"], said["sha256"]
        if type(size) is not int or not 0 < size <= MOST_BYTES:
            raise ValueError("it is too long")
        data = os.pread(self.descriptor, size, 0)
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError("it is not what was said")
        return data

    def close(self) -> None:
        self._file.close()


def left(descriptor: int, grammar: Grammar) -> dict[str, Any] | None:
    """In a worker: leaves a grammar in the file, and says what `HandOver.take` wants to know; None if the grammar
    cannot be read again, is not worth it, or finds no room."""
    data = grammar.serialize() if size_of(grammar) <= _MOST_MEMORY else None
    if data is None or not 0 < len(data) <= MOST_BYTES:
        return None
    if not isinstance(grammar.backend.load(grammar.spec, data), Ok):
        return None
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        if os.pwrite(descriptor, data, 0) == len(data):
            return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return None
