"""What is relied on is looked for when a process starts; what holds vLLM's objects together."""

import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType, SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine_adapter.vllm import names
from engine_adapter.vllm.names import Name, Unsupported
from structout.compile import Pending

NAME = Name("engine", "Class.method", ("request",))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module with ``Class.method(self, request)``."""

    class Class:
        def method(self, request: object) -> None: ...

    module: Any = ModuleType("engine")
    module.Class = Class
    monkeypatch.setitem(sys.modules, "engine", module)
    return module  # type: ignore[no-any-return]


def test_what_is_there_is_found_and_can_be_replaced(engine: Any) -> None:
    assert names.find(NAME) is engine.Class.method
    names.replace(NAME, print)
    assert engine.Class.method is print


@pytest.mark.parametrize(
    "name",
    [
        Name("engine", "Class.other"),
        Name("engine", "Other"),
        Name("no_such_engine", "Class"),
        Name("engine", "Class.method", ("request", "deadline")),
    ],
    ids=str,
)
def test_what_is_not_is_named_with_what_to_do(engine: Any, name: Name) -> None:
    with pytest.raises(Unsupported, match=f"{name}.*use vLLM"):
        names.check(NAME, name)


def test_a_manager_compiles_with_what_takes_it_over() -> None:
    executor = ThreadPoolExecutor(1)
    manager, grammars = SimpleNamespace(backend=None, executor=executor), object()
    names.take_over(manager, grammars)
    assert manager.backend is manager.executor is grammars
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(print)


def test_a_manager_without_a_place_for_it_is_not_supported() -> None:
    with pytest.raises(Unsupported, match="executor"):
        names.take_over(SimpleNamespace(backend=None), object())


def test_a_detokenizer_that_looks_in_another_way_is_not_supported() -> None:
    with pytest.raises(Unsupported, match="min_tokens"):
        names.stop_looking(object())


def request(grammar: object) -> Any:
    return SimpleNamespace(structured_output_request=SimpleNamespace(grammar=grammar))


def test_only_what_waits_is_pending() -> None:
    pending = Pending[Any]()
    waiting = request(pending)
    assert names.pending_of(waiting) is pending
    names.give(waiting, "grammar")
    assert names.pending_of(waiting) is None
    assert waiting.structured_output_request.grammar == "grammar"
    assert names.pending_of(SimpleNamespace(structured_output_request=None)) is None


@given(st.lists(st.integers(0, 9)), st.integers(0, 9))
def test_a_request_goes_before_those_that_came_later(times: list[int], time: int) -> None:
    queue = deque(SimpleNamespace(arrival_time=each) for each in sorted(times))
    others, moved = list(queue), SimpleNamespace(arrival_time=time)
    queue.append(moved)
    names.move_to_its_turn(queue, moved)
    assert [each.arrival_time for each in queue] == sorted([*times, time])
    assert [each for each in queue if each is not moved] == others


@pytest.mark.parametrize("make", [list, deque])
def test_another_queue_keeps_its_order(make: Callable[[list[Any]], Any]) -> None:
    first, second = SimpleNamespace(arrival_time=2), SimpleNamespace(arrival_time=1)
    queue = make([first, second])
    names.move_to_its_turn(queue, first)
    assert list(queue) == [first, second]
