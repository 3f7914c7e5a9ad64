"""A result that is settled once, and callbacks that cannot hurt."""

import gc
import math
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial

import hypothesis.strategies as st
import pytest
from hypothesis import given

from structout import Err, ErrorKind, Ok
from structout.compile import Pending
from structout.compile.deadlines import Deadlines


@given(st.lists(st.sampled_from(["ok", "cancel"]), min_size=1), st.integers(0, 3), st.integers(0, 3))
def test_the_first_settles_it_and_every_callback_is_called_once(moves: list[str], before: int, after: int) -> None:
    pending = Pending[str]()
    called: list[int] = []
    for number in range(before):
        pending.add_done_callback(partial(called.append, number))
    for move in moves:
        if move == "cancel":
            pending.cancel()
        else:
            pending.settle(Ok("ok"))
    for number in range(before, before + after):
        pending.add_done_callback(partial(called.append, number))
    result = pending.result()
    if moves[0] == "ok":
        assert result == Ok("ok")
    else:
        assert isinstance(result, Err)
        assert result.error.kind is ErrorKind.CANCELLED
    assert called == list(range(before + after))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise self


def raising(exc: BaseException) -> Callable[[], None]:
    def callback() -> None:
        raise exc

    return callback


@pytest.mark.parametrize("exc", [RuntimeError(), SystemExit(1), KeyboardInterrupt(), Unspeakable()], ids=type)
def test_a_callback_that_raises_keeps_nothing_from_the_others(exc: BaseException) -> None:
    pending, called = Pending[int](), list[int]()
    pending.add_done_callback(raising(exc))
    pending.add_done_callback(lambda: called.append(1))
    assert pending.settle(Ok(1))
    assert not pending.settle(Ok(2))
    assert called == [1]
    assert pending.wait(0) == Ok(1)


def test_one_of_many_threads_settles_it() -> None:
    pending, start, wins = Pending[int](), threading.Barrier(8), list[bool]()

    def race(number: int) -> None:
        start.wait()
        wins.append(pending.settle(Ok(number)))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(wins) == [False] * 7 + [True]


def test_deadlines_call_back_in_order_and_not_after_close() -> None:
    deadlines, called, last = Deadlines(), list[int](), threading.Event()
    deadlines.call_at(0.2, last.set)
    deadlines.call_at(0.1, partial(called.append, 1))
    assert last.wait(30)
    assert called == [1]
    deadlines.close()
    deadlines.call_at(0.0, partial(called.append, 3))
    assert called == [1]


@pytest.mark.parametrize("exc", [RuntimeError(), SystemExit(1), Unspeakable()], ids=type)
def test_a_deadline_that_raises_ends_no_other(exc: BaseException) -> None:
    deadlines, last = Deadlines(), threading.Event()
    deadlines.call_at(0.0, raising(exc))
    deadlines.call_at(0.1, last.set)
    assert last.wait(30)
    deadlines.close()


def test_a_deadline_farther_off_than_the_platform_can_wait_blocks_none() -> None:
    deadlines, far, near = Deadlines(), threading.Event(), threading.Event()
    deadlines.call_at(1e300, far.set)
    deadlines.call_at(time.monotonic() + 0.05, near.set)
    assert near.wait(30)
    assert not far.is_set()
    deadlines.close()


def test_a_deadline_that_was_taken_back_is_not_called_and_keeps_nothing_alive() -> None:
    class Held:
        def touch(self) -> None:
            called.append(self)

    deadlines, called, last, held = Deadlines(), list[Held](), threading.Event(), Held()
    reference = weakref.ref(held)
    soon, later = (deadlines.call_at(time.monotonic() + after, held.touch) for after in (0.05, 3600))
    del held
    for deadline in (soon, later, later):
        deadlines.cancel(deadline)
    gc.collect()
    assert reference() is None
    deadlines.call_at(time.monotonic() + 0.1, last.set)
    assert last.wait(30)
    assert not called
    deadlines.close()


def test_the_places_of_deadlines_that_were_taken_back_are_used_again() -> None:
    deadlines = Deadlines()
    kept = [deadlines.call_at(time.monotonic() + 3600, math.inf.hex) for _ in range(10)]
    for _ in range(10_000):
        deadlines.cancel(deadlines.call_at(time.monotonic() + 3600, math.inf.hex))
    assert len(kept) <= len(deadlines) < 1000
    deadlines.close()
