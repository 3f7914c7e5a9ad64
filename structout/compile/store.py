"""Grammars on disk, for the next start of the engine: only such as are quicker to read than to compile.

Which these are is up to the backend: it serializes its grammars, or does not. One grammar is one file, named after all
that decides what a compile comes to: a line of JSON, and behind it what the backend has written. Nothing in it is ever
run; what is damaged is removed and compiled again.
"""

import contextlib
import hashlib
import json
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from structout.compile.jobs import Key

logger = logging.getLogger(__name__)

_FORMAT: Final = 1
_SUFFIX: Final = ".grammar"


@attrs.frozen
class Stored:
    """A grammar on disk.

    Attributes:
        backend: id of the backend that compiled it.
        is_risky: see `structout.grammar.Grammar`.
        data: for `structout.grammar.BoundBackend.load`.
    """

    backend: str = attrs.field(validator=attrs.validators.instance_of(str))
    is_risky: bool = attrs.field(validator=attrs.validators.instance_of(bool))
    data: bytes = attrs.field(repr=False)


class GrammarStore:
    """A folder of grammars, the most recently used ones. Safe to use from any thread, and by several processes at once.

    A disk that is full or fails costs time, never a request: that is logged, and nothing is stored.

    Args:
        folder: made if it is not there. Who may write to it decides what engines mask, so it has to belong to the user
            who runs this, and nobody else may be allowed to write to it: else ValueError.
        max_bytes: what all files together may take.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: Path, *, max_bytes: int = 1 << 30) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError(f"{folder} is not this user's, or others may write to it: chown it, and chmod it to 700")
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._hits = 0

    @property
    def hits(self) -> int:
        """How many grammars were read so far."""
        return self._hits

    def get(self, key: Key) -> Stored | None:
        """What was put under this key; None if there is nothing, or it is damaged."""
        path = self._path(key)
        try:
            line, _, data = path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        except OSError as exc:
            logger.warning("a stored grammar cannot be read: %s", exc)
            return None
        stored = _read(line, data)
        if stored is None:
            self.remove(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the most recently used are kept
        with self._lock:
            self._hits += 1
        return stored

    def put(self, key: Key, stored: Stored) -> None:
        """Keeps a grammar, and removes what has not been used for longest where there is no room."""
        head = {"format": _FORMAT, "backend": stored.backend, "is_risky": stored.is_risky, "sha256": _sum(stored.data)}
        written = json.dumps(head).encode() + b"\n" + stored.data
        if len(written) > self._max_bytes:
            return
        try:
            _write(self._path(key), written)
            self._make_room()
        except OSError as exc:
            logger.warning("a grammar cannot be stored: %s", exc)

    def remove(self, key: Key) -> None:
        """Forgets a grammar, if it is there."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: Key) -> Path:
        said = json.dumps(attrs.astuple(key)).encode()
        return self._folder / f"{hashlib.sha256(said).hexdigest()}{_SUFFIX}"

    def _make_room(self) -> None:
        with self._lock:
            files = sorted(self._files(), key=lambda each: each[1].st_mtime_ns)
            taken = sum(found.st_size for _, found in files)
            for path, found in files:
                if taken <= self._max_bytes:
                    return
                path.unlink(missing_ok=True)
                taken -= found.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Those of this class, also what a process left half written. Another process may be removing them."""
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(line: bytes, data: bytes) -> Stored | None:
    """What a file says; None if it is damaged."""
    try:
        head: dict[str, Any] = json.loads(line)
        if head["format"] != _FORMAT or head["sha256"] != _sum(data):
            return None
        return Stored(head["backend"], head["is_risky"], data)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _write(path: Path, written: bytes) -> None:
    """Writes a file that is never seen half written."""
    descriptor, partial = tempfile.mkstemp(_SUFFIX, "partial-", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(written)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
