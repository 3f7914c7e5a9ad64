"""Freed memory goes back to the system: once, some time after the last that asked."""

import ctypes
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from structout.compile import memory
from structout.compile.deadlines import Deadlines
from structout.compile.memory import Releasing
from structout.processes.usage import release_freed_memory, resident_bytes


@pytest.fixture
def deadlines() -> Iterator[Deadlines]:
    made = Deadlines()
    yield made
    made.close()


def test_it_is_released_once_however_often_that_is_asked_for(
    deadlines: Deadlines, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Semaphore(0)
    monkeypatch.setattr(memory, "PAUSE_S", 0.2)
    monkeypatch.setattr(memory, "release_freed_memory", released.release)
    releasing = Releasing(deadlines)
    for _ in range(9):
        releasing.soon()
    assert len(deadlines) == 1
    assert released.acquire(timeout=30)
    releasing.soon()
    assert released.acquire(timeout=30), "and again when it is asked for afterwards"
    assert not released.acquire(blocking=False)


def test_who_asks_shortly_before_it_is_released_has_it_released_again(
    deadlines: Deadlines, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Semaphore(0)
    monkeypatch.setattr(memory, "PAUSE_S", 0.2)
    releasing = Releasing(deadlines)

    asks = iter([releasing.soon])

    def release() -> None:
        for ask in asks:
            ask()
        released.release()

    monkeypatch.setattr(memory, "release_freed_memory", release)
    releasing.soon()
    for _ in range(2):
        assert released.acquire(timeout=30)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="C's library here is not glibc")
def test_what_another_thread_has_freed_is_given_back() -> None:
    """C keeps what small pieces were freed in the middle of."""

    def waste() -> None:
        pieces = [bytes(2000) for _ in range(50_000)]
        kept.append(pieces[-1])

    kept: list[bytes] = []
    release_freed_memory()
    before = resident_bytes()
    thread = threading.Thread(target=waste)
    thread.start()
    thread.join()
    release_freed_memory()
    assert resident_bytes() - before < 20 << 20


ARENAS = """
import ctypes, sys, threading
from structout.processes.usage import share_freed_memory
if sys.argv[1] == "shared":
    share_freed_memory()
barrier = threading.Barrier(4)
def allocate():
    kept = [bytes(2000) for _ in range(100)]
    barrier.wait()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(b"/dev/stdout", b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="C's library here is not glibc")
def test_threads_allocate_from_one_place_once_that_is_asked_for() -> None:
    def arenas(how: str) -> int:
        command = [sys.executable, "-c", ARENAS, how]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.count("<heap nr=")

    assert arenas("apart") > 1
    assert arenas("shared") == 1
