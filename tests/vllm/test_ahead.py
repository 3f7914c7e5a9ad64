"""Rows that are filled together, before they are asked for one by one."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engine_adapter.vllm import names
from engine_adapter.vllm.ahead import FirstRows
from engine_adapter.vllm.grammar import ConstraintGrammar
from structout.backend import Bitmask, Status
from structout.constraint import Constraint
from structout.result import Ok
from tests.adapter.test_masks import BatchBackend, FillRaises, RaisingBatch, constraint, histories
from tests.fakes import BYTES, TrieBackend
from tests.vllm.support import bitmask

WIDTH = BYTES.bitmask_width


def grammar(backend: type[TrieBackend], tokens: Sequence[int] = ()) -> ConstraintGrammar:
    return around(lambda: constraint(backend, tokens))


def around(make: Callable[[], Constraint]) -> ConstraintGrammar:
    return ConstraintGrammar(lambda: Ok(make()), make(), lambda *_: None)


def row_of(grammar: ConstraintGrammar) -> Any:
    rows = bitmask(1, WIDTH)
    grammar.fill_bitmask(rows, 0)
    return rows.numpy()[0]


def alone(grammar: ConstraintGrammar) -> Any:
    row = np.zeros(WIDTH, np.int32)
    grammar.constraint.fill(row)
    return row


made = st.builds(grammar, st.sampled_from([TrieBackend, BatchBackend, RaisingBatch]), histories)


@given(st.lists(made, max_size=6))
def test_each_gets_the_row_it_has_alone(grammars: list[ConstraintGrammar]) -> None:
    with FirstRows(WIDTH).filled(grammars):
        assert all((row_of(each) == alone(each)).all() for each in grammars)


@pytest.mark.parametrize(
    "move",
    [
        lambda each: each.accept_tokens("id", [97]),
        lambda each: each.accept_tokens("id", []),
        lambda each: each.reset(),
        lambda each: each.rollback(0),
    ],
    ids=["accepted", "nothing accepted", "reset", "rolled back"],
)
def test_a_row_is_only_for_the_state_that_it_was_filled_for(move: Callable[[ConstraintGrammar], Any]) -> None:
    grammars = [grammar(BatchBackend), grammar(BatchBackend)]
    with FirstRows(WIDTH).filled(grammars):
        move(grammars[0])
        assert (row_of(grammars[0]) == alone(grammars[0])).all()


def test_what_was_not_asked_for_is_forgotten() -> None:
    rows, first, second = FirstRows(WIDTH), grammar(BatchBackend), grammar(BatchBackend, (97,))
    with rows.filled([first, second]):
        pass
    with rows.filled([second, first]):
        pass
    assert (row_of(first) == alone(first)).all()
    assert (row_of(second) == alone(second)).all()


def test_they_are_filled_by_one_call_and_what_is_alone_by_none() -> None:
    calls: list[int] = []

    class Counting(BatchBackend):
        def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
            calls.append(len(matchers))
            return super().fill_batch(matchers, bitmask, rows)

    first, second = grammar(Counting), grammar(Counting)
    second.constraint.grammar = first.constraint.grammar
    with FirstRows(WIDTH).filled([first, grammar(TrieBackend), second]):
        assert calls == [2]
        row_of(first)
    with FirstRows(WIDTH).filled([first]):
        assert calls == [2]


def test_a_row_that_fails_ends_its_own_sequence_alone() -> None:
    good, failing = grammar(BatchBackend), around(lambda: constraint(BatchBackend, matcher=FillRaises))
    failing.constraint.grammar = good.constraint.grammar
    with FirstRows(WIDTH).filled([good, failing]):
        assert (row_of(good) == alone(good)).all()
        assert (row_of(failing) == -1).all()
    assert good.accept_tokens("id", [97])
    assert not failing.accept_tokens("id", [97])


class Manager:
    """As vLLM's, of what is called: says which grammars are ready while it fills."""

    def __init__(self, reasoner_cls: object) -> None:
        self.reasoner_cls = reasoner_cls
        self.ready: list[Any] = []
        self.seen: list[Any] = []

    def grammar_bitmask(self, requests: Any, structured_output_request_ids: Any, drafts: Any) -> Any:
        self.seen = [requests, structured_output_request_ids, drafts, list(self.ready)]
        return "a bitmask"


@pytest.mark.parametrize(
    ("reasoner_cls", "expected"), [(None, ["done", "thinking", "unknown"]), (object, ["done"])], ids=["none", "one"]
)
def test_who_still_reasons_is_not_asked_for_a_row(reasoner_cls: object, expected: list[str]) -> None:
    manager = Manager(reasoner_cls)

    @contextmanager
    def filled(grammars: Sequence[Any]) -> Any:
        manager.ready = list(grammars)
        yield
        manager.ready = []

    names.fill_ahead(manager, filled)
    ended = {"done": True, "thinking": False, "unknown": None}
    requests = {
        name: SimpleNamespace(structured_output_request=SimpleNamespace(grammar=name, reasoning_ended=has_ended))
        for name, has_ended in ended.items()
    }
    assert manager.grammar_bitmask(requests, list(requests), {"done": [1]}) == "a bitmask"
    assert manager.seen == [requests, list(requests), {"done": [1]}, expected]
    assert manager.ready == []


def test_a_manager_that_fills_in_another_way_is_not_supported() -> None:
    with pytest.raises(names.Unsupported, match="grammar_bitmask"):
        names.fill_ahead(SimpleNamespace(), lambda _: pytest.fail("nothing is filled"))
