"""Promotion as a state machine: whatever resources do, each request is decided once, rightly, in order of arrival."""

import threading
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from engine_adapter.promotion import Promoter
from structout import Err, ErrorKind, GrammarError, Ok, Result
from structout.compile import Pending

FAILURE = GrammarError(kind=ErrorKind.INVALID_SPEC, message="no")


class PropertyRaises:
    """A resource of the kind that a future is: asking a failed one for its result raises."""

    def __init__(self) -> None:
        self.failed = False
        self.cancelled = False
        self._callbacks: list[Callable[[], None]] = []

    def result(self) -> Result[int, GrammarError] | None:
        if self.failed:
            raise ValueError("the future failed")
        return None

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        self._callbacks.append(callback)

    def cancel(self) -> None:
        self.cancelled = True

    def fail(self) -> None:
        self.failed = True
        for callback in self._callbacks:
            callback()


class CannotBeWaitedFor(PropertyRaises):
    """Raises when somebody wants to hear of it."""

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        raise ConnectionError("gone")


class Panic(BaseException):
    """No `Exception`, like a panic in Rust; and it cannot even be shown."""

    def __str__(self) -> str:
        raise self


class Panics(PropertyRaises):
    """Panics in the calls that are named."""

    def __init__(self, *calls: str) -> None:
        super().__init__()
        self.calls = calls

    def _panic(self, call: str) -> None:
        if call in self.calls:
            raise Panic

    def result(self) -> Result[int, GrammarError] | None:
        self._panic("result")
        return None

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        self._panic("add_done_callback")
        callback()

    def cancel(self) -> None:
        self._panic("cancel")


@attrs.frozen(eq=False)
class Held:
    """A resource that keeps nothing alive but itself."""

    resource: Pending[int]

    def result(self) -> Result[int, GrammarError] | None:
        return self.resource.result()

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        self.resource.add_done_callback(callback)

    def cancel(self) -> None:
        self.resource.cancel()


def decide(promoter: Promoter[str]) -> dict[str, Result[tuple[Any, ...], GrammarError]]:
    decisions = {decision.key: decision.result for decision in promoter.decided()}
    for key in decisions:
        promoter.settle(key)
    return decisions


def error_kind(result: Result[Any, GrammarError] | None) -> ErrorKind | None:
    return result.error.kind if isinstance(result, Err) else None


def test_mistake_a_property_that_raises_on_a_failed_future() -> None:
    """The future's exception becomes the request's failure; the promotion of the others goes on."""
    promoter: Promoter[str] = Promoter()
    raises, fine = PropertyRaises(), Pending[int]()
    promoter.block("raises", [raises])
    promoter.block("fine", [fine])
    raises.fail()
    fine.settle(Ok(1))
    decisions = decide(promoter)
    assert error_kind(decisions["raises"]) is ErrorKind.ENGINE_FAILURE
    assert decisions["fine"] == Ok((1,))
    assert len(promoter) == 0


def test_mistake_a_side_list_that_a_later_call_clears() -> None:
    """A decision that nobody settled (an exception came between) is made again, as often as it takes."""
    promoter: Promoter[str] = Promoter()
    first, second = Pending[int](), Pending[int]()
    promoter.block("a", [first])
    promoter.block("b", [second])
    first.settle(Err(FAILURE))
    assert [decision.key for decision in promoter.decided()] == ["a"]
    second.settle(Ok(2))
    assert [decision.key for decision in promoter.decided()] == ["a", "b"]
    promoter.settle("a")
    assert [(decision.key, decision.result) for decision in promoter.decided()] == [("b", Ok((2,)))]


def test_a_request_that_waits_for_nothing_is_ready() -> None:
    promoter: Promoter[str] = Promoter()
    promoter.block("a", [])
    assert decide(promoter) == {"a": Ok(())}


def test_a_resource_that_cannot_be_waited_for_fails_its_request() -> None:
    promoter: Promoter[str] = Promoter()
    promoter.block("a", [Pending[int](), CannotBeWaitedFor()])
    assert error_kind(decide(promoter)["a"]) is ErrorKind.ENGINE_FAILURE


@pytest.mark.parametrize("call", ["result", "add_done_callback"])
def test_a_resource_that_panics_fails_its_request_alone(call: str) -> None:
    promoter: Promoter[str] = Promoter()
    fine = Pending[int]()
    promoter.block("bad", [Panics(call)])
    promoter.block("fine", [fine])
    fine.settle(Ok(1))
    decisions = decide(promoter)
    bad = decisions["bad"]
    assert isinstance(bad, Err)
    assert (bad.error.kind, bad.error.detail) == (ErrorKind.ENGINE_FAILURE, "Panics: Panic")
    assert decisions["fine"] == Ok((1,))


def test_a_resource_that_panics_when_it_is_given_up_is_given_up() -> None:
    promoter: Promoter[str] = Promoter()
    promoter.block("a", [Panics("cancel")])
    assert promoter.withdraw("a")
    assert not promoter.decided()


def test_the_users_interrupt_is_not_a_failure_of_a_resource() -> None:
    class Interrupted(PropertyRaises):
        def result(self) -> Result[int, GrammarError] | None:
            raise KeyboardInterrupt

    promoter: Promoter[str] = Promoter()
    resource = Interrupted()
    promoter.block("a", [resource])
    with pytest.raises(KeyboardInterrupt):
        resource.fail()
    assert promoter.has_signals
    with pytest.raises(KeyboardInterrupt):
        promoter.decided()
    assert "a" in promoter


def test_what_the_interrupt_kept_a_signal_from_is_done_in_the_step() -> None:
    class InterruptedOnce(Pending[int]):
        asked = 0

        def result(self) -> Result[int, GrammarError] | None:
            self.asked += 1
            if self.asked == 1:
                raise KeyboardInterrupt
            return super().result()

    promoter: Promoter[str] = Promoter()
    resource = InterruptedOnce()
    promoter.block("a", [resource])
    resource.settle(Ok(1))  # which logs what a callback raises
    assert decide(promoter) == {"a": Ok((1,))}


def test_the_first_failure_decides_and_gives_the_other_resources_up() -> None:
    promoter: Promoter[str] = Promoter()
    failed, other = Pending[int](), Pending[int]()
    promoter.block("a", [other, failed])
    failed.settle(Err(FAILURE))
    assert decide(promoter) == {"a": Err(FAILURE)}
    assert error_kind(other.result()) is ErrorKind.CANCELLED


def test_a_decision_stays_what_it_is() -> None:
    promoter: Promoter[str] = Promoter()
    first, second = Pending[int](), Pending[int]()
    promoter.block("a", [first, second])
    second.settle(Err(FAILURE))
    decisions = promoter.decided()
    first.settle(Err(attrs.evolve(FAILURE, message="no, neither")))
    assert promoter.decided() == decisions


def test_a_ready_request_lets_go_of_what_it_waited_for() -> None:
    promoter: Promoter[str] = Promoter()
    resource = Pending[int]()
    held = Held(resource)
    promoter.block("a", [held])
    gone = weakref.ref(held)
    del held
    resource.settle(Ok(1))
    assert gone() is None
    assert decide(promoter) == {"a": Ok((1,))}


def test_resources_that_signal_at_the_same_time_decide_once_and_rightly() -> None:
    promoter: Promoter[int] = Promoter()
    count = 300
    pairs = [(Pending[int](), Pending[int]()) for _ in range(count)]
    for key, pair in enumerate(pairs):
        promoter.block(key, pair)
    start = threading.Barrier(2)

    def settle(side: int) -> None:
        for pair in pairs:
            start.wait()
            pair[side].settle(Ok(side))

    threads = [threading.Thread(target=settle, args=(side,)) for side in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(each.key, each.result) for each in promoter.decided()] == [(key, Ok((0, 1))) for key in range(count)]


def test_blocking_twice_is_a_bug_of_the_engine() -> None:
    promoter: Promoter[str] = Promoter()
    promoter.block("a", [Pending[int]()])
    with pytest.raises(ValueError, match="blocked already"):
        promoter.block("a", [])


def test_the_engine_is_woken_from_the_thread_that_settles() -> None:
    woken: list[int] = []
    promoter: Promoter[str] = Promoter(wake=lambda: woken.append(1))
    pending = Pending[int]()
    promoter.block("a", [pending])
    assert not woken
    pending.settle(Ok(1))
    assert woken
    assert promoter.has_signals


def test_what_is_undecided_is_not_looked_at_again() -> None:
    """The cost of a step depends on the signals, not on who is blocked."""

    class Counts(Pending[int]):
        looked_at = 0

        def result(self) -> Result[int, GrammarError] | None:
            Counts.looked_at += 1
            return super().result()

    promoter: Promoter[int] = Promoter()
    for key in range(1000):
        promoter.block(key, [Counts()])
    ready = Counts()
    promoter.block(-1, [ready])
    ready.settle(Ok(0))
    Counts.looked_at = 0
    assert [decision.key for decision in promoter.decided()] == [-1]
    assert promoter.decided()
    assert Counts.looked_at <= 2


class PromotionMachine(RuleBasedStateMachine):
    """Requests block on up to three resources of two kinds; resources succeed, fail and raise in any order."""

    resources: Bundle[Pending[int]] = Bundle("resources")
    raisers: Bundle[PropertyRaises] = Bundle("raisers")

    def __init__(self) -> None:
        super().__init__()
        self.promoter: Promoter[int] = Promoter()
        self.waits_for: dict[int, list[Pending[int] | PropertyRaises]] = {}
        self.arrivals = 0
        self.done: set[int] = set()

    @rule(target=resources, count=st.integers(0, 3))
    def new_resources(self, count: int) -> Any:
        return multiple(*(Pending[int]() for _ in range(count)))

    @rule(target=raisers)
    def new_raiser(self) -> PropertyRaises:
        return PropertyRaises()

    @rule(waited=st.lists(resources, max_size=3), raiser=st.one_of(st.none(), raisers))
    def block(self, waited: list[Pending[int]], raiser: PropertyRaises | None) -> None:
        key = self.arrivals
        self.arrivals += 1
        self.waits_for[key] = [*waited, *([raiser] if raiser else [])]
        self.promoter.block(key, self.waits_for[key])

    @rule(resource=resources, value=st.one_of(st.integers(), st.none()))
    def settle_resource(self, resource: Pending[int], value: int | None) -> None:
        resource.settle(Err(FAILURE) if value is None else Ok(value))

    @rule(raiser=consumes(raisers))
    def raiser_fails(self, raiser: PropertyRaises) -> None:
        raiser.fail()

    @precondition(lambda self: self.waits_for)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.waits_for)))
        assert self.promoter.withdraw(key)
        assert not self.promoter.withdraw(key)
        self._gone(key)

    @rule(interrupted_after=st.one_of(st.none(), st.integers(0, 3)))
    def step(self, interrupted_after: int | None) -> None:
        """Moves what was decided; an exception may end the loop after some of them."""
        decisions = self.promoter.decided()
        assert [decision.key for decision in decisions] == sorted(self._expected())
        for decision in decisions[:interrupted_after]:
            self._check(decision.key, decision.result)
            self.promoter.settle(decision.key)
            self._gone(decision.key)

    def _gone(self, key: int) -> None:
        assert key not in self.done
        self.done.add(key)
        for resource in self.waits_for.pop(key):
            # It gives up what it waited for, and so fails the others that wait for the very same thing.
            assert isinstance(resource, PropertyRaises) or resource.result() is not None

    def _expected(self) -> set[int]:
        """The requests that have no resource left to wait for, or one that failed."""
        return {key for key, waited in self.waits_for.items() if self._failed(waited) or self._ready(waited)}

    @staticmethod
    def _failed(waited: list[Pending[int] | PropertyRaises]) -> bool:
        return any(
            each.failed if isinstance(each, PropertyRaises) else isinstance(each.result(), Err) for each in waited
        )

    @staticmethod
    def _ready(waited: list[Pending[int] | PropertyRaises]) -> bool:
        return all(isinstance(each, Pending) and isinstance(each.result(), Ok) for each in waited)

    def _check(self, key: int, result: Result[tuple[Any, ...], GrammarError]) -> None:
        waited = self.waits_for[key]
        match result:
            case Ok(values):
                assert self._ready(waited)
                results = [each.result() for each in waited]
                assert values == tuple(each.value for each in results if isinstance(each, Ok))
            case Err(error):
                assert self._failed(waited)
                assert error.kind in (ErrorKind.INVALID_SPEC, ErrorKind.ENGINE_FAILURE, ErrorKind.CANCELLED)

    @invariant()
    def nobody_is_lost(self) -> None:
        assert len(self.promoter) == len(self.waits_for)
        assert all(key in self.promoter for key in self.waits_for)


TestPromotionMachine = PromotionMachine.TestCase
