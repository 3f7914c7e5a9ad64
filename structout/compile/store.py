"""Grammars on disk, for the next start of the engine: only such as are quicker to read than to compile.

Which these are is up to the backend: it serializes its grammars, or does not. One grammar is one file, named after all
that decides what a compile comes to: a line of JSON, and behind it what the backend has written. Nothing in it is ever
run; what is damaged is removed and compiled again.
"""

import contextlib
import functools
import hashlib
import importlib.metadata
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
from structout.compile.sandbox import Tried

logger = logging.getLogger(__name__)

SHARE: Final = 16
"""One grammar may take one in `SHARE` bytes; as much is written before the files are counted again."""
_FORMAT: Final = 2
_SUFFIX: Final = ".grammar"


@attrs.frozen
class Stored:
    """A grammar on disk.

    Attributes:
        tried: what the sandbox found out about it, and the grammar as data.
        is_risky: see `structout.grammar.Grammar`.
    """

    tried: Tried
    is_risky: bool = attrs.field(validator=attrs.validators.instance_of(bool))


class GrammarStore:
    """A folder of grammars, those that were put there last. Safe to use from any thread, and by several processes.

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
        self._uncounted = max_bytes  # what an earlier start has left
        self._counting = threading.Lock()  # not held while files are looked at
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
        with self._counting:
            self._hits += 1
        return stored

    def put(self, key: Key, stored: Stored) -> None:
        """Keeps a grammar, and removes what was put there first where there is no room."""
        data = stored.tried.data or b""
        head = {
            "owner": _owner(),
            "tried": attrs.asdict(attrs.evolve(stored.tried, data=None)),
            "is_risky": stored.is_risky,
            "sha256": _sum(data),
        }
        written = json.dumps(head).encode() + b"\n" + data
        if not data or len(written) > self._max_bytes // SHARE:
            return
        try:
            _write(self._path(key), written)
            self._make_room(len(written))
        except OSError as exc:
            logger.warning("a grammar cannot be stored: %s", exc)

    def remove(self, key: Key) -> None:
        """Forgets a grammar, if it is there."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def _path(self, key: Key) -> Path:
        said = json.dumps(attrs.astuple(key)).encode()
        return self._folder / f"{hashlib.sha256(said).hexdigest()}{_SUFFIX}"

    def _make_room(self, written: int) -> None:
        """Counts the files now and then, for others may write too, and removes some if there are too many."""
        with self._lock:
            self._uncounted += written
            if self._uncounted <= self._max_bytes // SHARE:
                return
            self._uncounted = 0
            files = sorted(self._files(), key=lambda each: each[1].st_mtime_ns)
            taken = sum(found.st_size for _, found in files)
            for path, found in files:
                if taken <= self._max_bytes - self._max_bytes // SHARE:
                    return
                path.unlink(missing_ok=True)
                taken -= found.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Those of this class, also what a process left half written. Another process may be removing them."""
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()


@functools.cache
def _owner() -> list[str | int]:
    """What a file is for beside its key: this format, and what a spec means to this version."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return [_FORMAT, importlib.metadata.version("structout")]
    return [_FORMAT, "not installed"]


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(line: bytes, data: bytes) -> Stored | None:
    """What a file says; None if it is damaged."""
    try:
        head: dict[str, Any] = json.loads(line)
        if head["owner"] != _owner() or head["sha256"] != _sum(data):
            return None
        return Stored(Tried(**head["tried"] | {"data": data}), head["is_risky"])
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
