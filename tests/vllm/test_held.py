"""Requests that wait for their grammars: each comes out once, in order, whatever happens in between."""

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine_adapter.vllm.held import Held
from structout import Err, ErrorKind, GrammarError, Ok
from structout.compile import Pending
from structout.grammar import Grammar
from tests.fakes import trie_grammar

GRAMMAR = trie_grammar("a")
FAILURE = GrammarError(kind=ErrorKind.UNSUPPORTED, message="no")


class Holding(RuleBasedStateMachine):
    """A model in which each request is waiting, decided, or gone."""

    def __init__(self) -> None:
        super().__init__()
        self.held = Held[str]()
        self.pendings: dict[str, Pending[Grammar]] = {}
        self.parts: dict[str, list[str]] = {}
        self.outcomes: dict[str, bool] = {}
        self.came = 0

    @rule()
    def comes(self) -> None:
        request_id = f"r{self.came}"
        self.came += 1
        self.pendings[request_id], self.parts[request_id] = Pending(), [request_id]
        self.held.hold(request_id, request_id, self.pendings[request_id])

    @precondition(lambda self: self.parts)
    @rule(data=st.data())
    def goes_on(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(list(self.parts)))
        part = f"{request_id}.{len(self.parts[request_id])}"
        self.parts[request_id].append(part)
        self.held.join(request_id, part)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), succeeds=st.booleans())
    def is_decided(self, data: st.DataObject, succeeds: bool) -> None:
        request_id = data.draw(st.sampled_from(self.waiting()))
        self.pendings[request_id].settle(Ok(GRAMMAR) if succeeds else Err(FAILURE))
        self.outcomes[request_id] = succeeds

    @precondition(lambda self: True in self.outcomes.values())
    @rule(data=st.data())
    def cannot_be_started(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from([each for each, succeeds in self.outcomes.items() if succeeds]))
        self.held.fail(request_id, FAILURE)
        self.outcomes[request_id] = False
        self.parts = {each: parts for each, parts in self.parts.items() if each != request_id} | {
            request_id: self.parts[request_id]
        }

    @precondition(lambda self: self.outcomes)
    @rule(data=st.data())
    def is_released(self, data: st.DataObject) -> None:
        request_id = data.draw(st.sampled_from(list(self.outcomes)))
        self.held.release(request_id)
        del self.parts[request_id], self.outcomes[request_id]

    @precondition(lambda self: self.parts)
    @rule(data=st.data())
    def is_withdrawn(self, data: st.DataObject) -> None:
        ids = data.draw(st.none() | st.lists(st.sampled_from([*self.parts, "nobody"]), unique=True))
        gone = [each for each in (list(self.parts) if ids is None else ids) if each in self.parts]
        assert self.held.withdraw(ids) == [self.parts[each] for each in gone] or ids is None
        for request_id in gone:
            assert self.pendings[request_id].result() is not None, "somebody would still compile it"
            del self.parts[request_id]
            self.outcomes.pop(request_id, None)

    def waiting(self) -> list[str]:
        return [each for each in self.parts if each not in self.outcomes]

    @invariant()
    def what_is_decided_comes_out_in_order(self) -> None:
        ready, failed = self.held.ready(), self.held.failed()
        assert [each.request_id for each in ready] == [each for each in self.parts if self.outcomes.get(each) is True]
        assert [each.request_id for each in failed] == [each for each in self.parts if self.outcomes.get(each) is False]
        assert all(each.parts == self.parts[each.request_id] for each in ready)
        assert all(each.parts == self.parts[each.request_id] for each in failed)

    @invariant()
    def it_knows_whom_it_holds(self) -> None:
        assert len(self.held) == len(self.parts)
        assert all(each in self.held for each in self.parts)


TestHolding = Holding.TestCase
