"""A folder is made once, whole or not at all."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine_adapter.embedded.folder_cache import build_once


def test_a_folder_is_built_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "file").write_text("whole")

    for _ in range(2):
        assert (build_once(tmp_path / "models" / "it", build) / "file").read_text() == "whole"
    assert len(built) == 1


def test_those_who_come_while_it_is_built_wait_for_it(tmp_path: Path) -> None:
    built: list[Path] = []
    started, all_asked = threading.Event(), threading.Event()

    def build(folder: Path) -> None:
        built.append(folder)
        started.set()
        all_asked.wait()

    threads = [threading.Thread(target=build_once, args=(tmp_path / "it", build)) for _ in range(3)]
    threads[0].start()
    started.wait()
    for thread in threads[1:]:
        thread.start()
    all_asked.set()
    for thread in threads:
        thread.join()
    assert len(built) == 1


def test_what_fails_half_way_leaves_no_folder_and_can_be_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "file").write_text("ha")
        raise ArithmeticError

    target = tmp_path / "it"
    with pytest.raises(ArithmeticError):
        build_once(target, fail)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert build_once(target, lambda folder: None).is_dir()


def test_what_a_killed_process_left_is_cleared_by_the_next(tmp_path: Path) -> None:
    killed = (
        "import os, pathlib, sys\n"
        "from engine_adapter.embedded.folder_cache import build_once\n"
        "def build(folder):\n"
        "    (folder / 'file').write_text('ha')\n"
        "    os._exit(9)\n"
        "build_once(pathlib.Path(sys.argv[1]), build)\n"
    )
    target = tmp_path / "it"
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", killed, str(target)], env=path, check=False).returncode == 9
    assert not target.exists()
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1
    assert list(build_once(target, lambda folder: None).iterdir()) == []
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [target]
