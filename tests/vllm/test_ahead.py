"""Rows that are filled together, before they are asked for one by one."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import attrs
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engine_adapter.vllm import names
from engine_adapter.vllm.ahead import FirstRows
from engine_adapter.vllm.grammar import ConstraintGrammar
from structout.backend import Bitmask, BitmaskRow, Status
from structout.constraint import Constraint
from structout.errors import ErrorKind, GrammarError
from structout.grammar import Grammar
from structout.result import Result
from tests.adapter.test_masks import BatchBackend, RaisingBatch, constraint, histories
from tests.fakes import BYTES, TrieBackend, TrieMatcher
from tests.vllm.support import bitmask

WIDTH = BYTES.bitmask_width


GRAMMARS: dict[tuple[type, type], Grammar] = {}
"""One for all of a backend: it fills those together that it has compiled itself."""


def grammar(
    backend: type[TrieBackend],
    tokens: Sequence[int] = (),
    matcher: type[TrieMatcher] = TrieMatcher,
    told: dict[str, GrammarError] | None = None,
) -> ConstraintGrammar:
    compiled = GRAMMARS.setdefault((backend, matcher), constraint(backend, matcher=matcher).grammar)

    def start() -> Result[Constraint, GrammarError]:
        return compiled.start(max_rollback=4)

    refused = dict[str, GrammarError]().__setitem__ if told is None else told.__setitem__
    made = ConstraintGrammar(start, start().unwrap(), refused)
    assert made.accept_tokens("id", tokens)
    return made


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
        lambda each: each.accept_tokens("id", [98]),
        lambda each: each.reset(),
        lambda each: each.rollback(1),
    ],
    ids=["accepted", "reset", "rolled back"],
)
def test_a_row_is_only_for_the_state_that_it_was_filled_for(move: Callable[[ConstraintGrammar], Any]) -> None:
    moved, other = grammar(BatchBackend, (97,)), grammar(BatchBackend, (97,))
    with FirstRows(WIDTH).filled([moved, other]):
        move(moved)
        assert (row_of(moved) == alone(moved)).all()
        assert (row_of(moved) != alone(other)).any()


def test_what_was_not_asked_for_is_forgotten() -> None:
    rows, unasked = FirstRows(WIDTH), grammar(BatchBackend)
    with rows.filled([unasked, grammar(BatchBackend)]):
        pass
    with rows.filled([grammar(BatchBackend, (97,)) for _ in range(2)]):
        pass
    assert (row_of(unasked) == alone(unasked)).all()


def test_they_are_filled_by_one_call_and_what_is_alone_by_none() -> None:
    calls: list[int] = []

    class Counting(BatchBackend):
        def fill_batch(self, matchers: Sequence[Any], bitmask: Bitmask, rows: Sequence[int]) -> Sequence[Status]:
            calls.append(len(matchers))
            return super().fill_batch(matchers, bitmask, rows)

    first, second = grammar(Counting), grammar(Counting)
    with FirstRows(WIDTH).filled([first, grammar(TrieBackend), second]):
        assert calls == [2]
        row_of(first)
    with FirstRows(WIDTH).filled([first]):
        assert calls == [2]


@attrs.define(eq=False)
class Told(TrieMatcher):
    """Does when it fills what it is told to."""

    deed: Callable[[], Status] | None = None

    def fill(self, row: BitmaskRow) -> Status:
        return self.deed() if self.deed else super().fill(row)


def fail() -> Status:
    raise RuntimeError("no")


@pytest.mark.parametrize(
    ("deed", "kind"),
    [(fail, ErrorKind.BACKEND_FAILURE), (lambda: Status.DEAD_END, ErrorKind.DEAD_END)],
    ids=["failing", "dead end"],
)
def test_a_row_that_is_not_ok_ends_its_own_sequence_alone(deed: Callable[[], Status], kind: ErrorKind) -> None:
    told = dict[str, GrammarError]()
    good, bad, other = (grammar(BatchBackend, tokens, Told, told) for tokens in ((), (), (97,)))
    assert isinstance(bad.constraint.matcher, Told)
    bad.constraint.matcher.deed = deed
    with FirstRows(WIDTH).filled([good, bad, other]):
        assert (row_of(good) == alone(good)).all()
        assert (row_of(bad) == -1).all()
        assert (row_of(other) == alone(other)).all()
    assert good.accept_tokens("good", [97])
    assert not bad.accept_tokens("bad", [97])
    assert {name: error.kind for name, error in told.items()} == {"bad": kind}


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
