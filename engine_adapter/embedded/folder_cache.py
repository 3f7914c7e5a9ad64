"""Folders that take long to make: made once, complete or not at all."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Makes the folder `target` with `build` unless it is there.

    `build` fills another, empty folder beside it, which is then renamed, so that `target` is never seen half made.
    One process builds at a time; the others wait and take what it made. What a killed process left behind is
    cleared by the next one that builds.

    Returns:
        `target`.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(target.with_name(f"{target.name}.lock")):
        for leftover in target.parent.glob(f"{target.name}.*.partial"):
            shutil.rmtree(leftover)
        if not target.exists():
            with tempfile.TemporaryDirectory(".partial", f"{target.name}.", target.parent) as partial:
                unfinished = Path(partial, target.name)
                unfinished.mkdir()
                build(unfinished)
                unfinished.rename(target)
    return target
