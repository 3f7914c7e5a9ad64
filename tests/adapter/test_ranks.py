"""Ranks that agree: whatever each of them comes to and when, all do the same in the same step."""

import time
from collections.abc import Callable, Sequence

import attrs
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from engine_adapter.filling import Filler, wait
from engine_adapter.promotion import Promoter
from engine_adapter.ranks import Agreed, Agreement, Report
from engine_adapter.ranks.leader import Leader
from structout import Err, ErrorKind, Fault, GrammarError, Ok, Status
from structout.compile import Pending
from structout.constraint import Constraint
from tests.adapter.held import gate, held_grammar, matcher
from tests.adapter.rank_threads import ThreadTransport, on_all_ranks
from tests.fakes import BYTES

RANKS = 4
LATE_RANK, FAILING_RANK = 1, 2
FOREVER_S = 3600.0
REFUSED = GrammarError(kind=ErrorKind.INVALID_SPEC, message="no", pointer="/type", detail="of rank 2")


class RankEngine:
    """The part of an engine that agrees: promotes, fills, exchanges, accepts the same token for all."""

    def __init__(self, transport: ThreadTransport) -> None:
        budget_s = 0.05 if transport.rank == LATE_RANK else FOREVER_S
        self.rank = transport.rank
        self.filler = Filler(4, BYTES.bitmask_width, budget_s=budget_s)
        self.agreement = Agreement(transport)
        self.promoter: Promoter[str] = Promoter()
        self.blocked: dict[str, Pending[Constraint]] = {}
        self.started: dict[str, Constraint] = {}
        self.running: dict[str, Constraint] = {}

    def add(self, request_id: str) -> None:
        self.blocked[request_id] = Pending()
        self.agreement.take(request_id, FOREVER_S)
        self.promoter.block(request_id, [self.blocked[request_id]])

    def step(self, token: int) -> Agreed:
        self._promote()
        in_time, late, missed = self._fill()
        agreed = self.agreement.exchange(in_time=in_time, late=late, missed=missed)
        for request_id, constraint in self.running.items():
            if request_id not in agreed.late:
                assert constraint.accept(token) is Status.OK
        for request_id, _ in agreed.ended:
            self.promoter.withdraw(request_id)
            self.running.pop(request_id, None)
        self.running |= {request_id: self.started.pop(request_id) for request_id in agreed.ready}
        return agreed

    def _promote(self) -> None:
        for decision in self.promoter.decided():
            match decision.result:
                case Ok((constraint,)):
                    self.started[decision.key] = constraint
                    self.agreement.ready(decision.key)
                case Err(error):
                    self.agreement.failed(decision.key, error)
            self.promoter.settle(decision.key)

    def _fill(self) -> tuple[list[str], list[str], list[str]]:
        """Whose rows are in time, whose are late, and whose by their own doing."""
        filling = self.filler.begin(list(self.running.values()))
        filled = wait(filling)
        filling.end()
        ids = list(self.running)
        late = [index for index, status in enumerate(filled.statuses) if status is Status.LATE]
        in_time = [request_id for index, request_id in enumerate(ids) if index not in late]
        return in_time, [ids[index] for index in late], [ids[index] for index in sorted(filled.missed)]


def test_ranks_that_finish_at_different_times_one_failing_one_missing_a_budget() -> None:
    def body(transport: ThreadTransport) -> tuple[list[Agreed], list[bytes], bool]:
        engine = RankEngine(transport)
        grammar = held_grammar()
        for request_id in ("slow", "fails", "quick"):
            engine.add(request_id)
        engine.blocked["quick"].settle(Ok(grammar.start().unwrap()))
        seen = [engine.step(ord("a"))]  # quick is ready everywhere, and runs from now on
        is_failing = transport.rank == FAILING_RANK
        engine.blocked["fails"].settle(Err(REFUSED) if is_failing else Ok(grammar.start().unwrap()))
        if transport.rank == LATE_RANK:
            gate(engine.running["quick"]).hold()
        for step in range(RANKS):
            if step == transport.rank:
                engine.blocked["slow"].settle(Ok(grammar.start().unwrap()))
            seen.append(engine.step(b"abcd"[max(0, step - 1)]))
            gate(engine.running["quick"]).release()
            while engine.filler.is_busy(engine.running["quick"]):
                time.sleep(0.001)
        engine.filler.close()
        quick = engine.running["quick"]
        return seen, [bytes(constraint.tokens) for constraint in engine.running.values()], not matcher(quick).touches

    ranks = on_all_ranks(RANKS, body)
    expected = [
        Agreed(ready=("quick",)),
        Agreed(ended=(("fails", REFUSED),), late=("quick",)),
        Agreed(),
        Agreed(),
        Agreed(ready=("slow",)),
    ]
    for seen, running, is_untouched in ranks:
        assert seen == expected
        assert running == [b"abc", b""]
        assert is_untouched


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def alone() -> tuple[Leader, Clock]:
    """A leader of two ranks that knows one request."""
    clock = Clock()
    leader = Leader(2, max_misses=2, clock=clock)
    leader.take("a", 10.0)
    return leader, clock


def ends(agreed: Agreed) -> dict[str, tuple[ErrorKind, Fault]]:
    return {request_id: (error.kind, error.fault) for request_id, error in agreed.ended}


def test_the_error_is_that_of_the_lowest_rank() -> None:
    leader, _ = alone()
    other = attrs.evolve(REFUSED, message="nor here")
    assert leader.decide([Report(failed=(("a", REFUSED),)), Report(failed=(("a", other),))], ()).ended == (
        ("a", REFUSED),
    )


def test_a_rank_that_never_answers_is_covered_by_the_deadline() -> None:
    leader, clock = alone()
    assert leader.decide([Report(ready=("a",)), Report()], ()) == Agreed()
    clock.now = 9.9
    assert leader.decide([Report(), Report()], ()) == Agreed()
    clock.now = 10.0
    assert ends(leader.decide([Report(), Report()], ())) == {"a": (ErrorKind.TIMED_OUT, Fault.SERVICE)}
    assert leader.decide([Report(), Report()], ()) == Agreed()


def test_what_is_ready_has_no_deadline_any_more() -> None:
    leader, clock = alone()
    clock.now = 10.0
    assert leader.decide([Report(ready=("a",)), Report(ready=("a",))], ()) == Agreed(ready=("a",))
    clock.now = 20.0
    assert leader.decide([Report(), Report()], ()) == Agreed()


def test_an_id_that_is_used_again_has_its_own_deadline() -> None:
    leader, clock = alone()
    leader.forget("a")
    clock.now = 5.0
    leader.take("a", 10.0)
    clock.now = 10.0
    assert leader.decide([Report(), Report()], ()) == Agreed()
    clock.now = 15.0
    assert ends(leader.decide([Report(), Report()], ())) == {"a": (ErrorKind.TIMED_OUT, Fault.SERVICE)}


def test_only_misses_in_a_row_count() -> None:
    leader, _ = alone()
    late = [Report(), Report(late=("a",), missed=("a",))]
    for _ in range(2):
        assert leader.decide(late, ["a"]).late == ("a",)
    assert leader.decide([Report(), Report()], ["a"]) == Agreed()
    for _ in range(2):
        assert leader.decide(late, ["a"]).late == ("a",)
        assert leader.decide([Report(), Report()], ()) == Agreed()  # a step without it changes nothing
        innocent = [Report(late=("a",)), Report()]  # nor does one in which it waits for another
        assert leader.decide(innocent, ()) == Agreed(late=("a",))
    on_both = [Report(late=("a",), missed=("a",)), Report(late=("a",), missed=("a",))]
    agreed = leader.decide(on_both, ())
    assert (ends(agreed), agreed.late) == ({"a": (ErrorKind.TIMED_OUT, Fault.CALLER)}, ())


def test_a_miss_on_several_ranks_is_one() -> None:
    leader, _ = alone()
    on_both = [Report(late=("a",), missed=("a",)), Report(late=("a",), missed=("a",))]
    for _ in range(2):
        assert leader.decide(on_both, ()) == Agreed(late=("a",))


def test_a_request_that_the_leader_does_not_know_ends() -> None:
    leader, _ = alone()
    agreed = leader.decide([Report(), Report(ready=("b",))], ())
    assert ends(agreed) == {"b": (ErrorKind.ENGINE_FAILURE, Fault.SERVICE)}


def test_all_is_told_in_order_of_arrival() -> None:
    leader, _ = alone()
    for request_id in "bcd":
        leader.take(request_id, 10.0)
    reports = [
        Report(ready=("b", "a"), failed=(("d", REFUSED), ("c", REFUSED))),
        Report(ready=("b", "a")),
    ]
    agreed = leader.decide(reports, ())
    assert agreed.ready == ("a", "b")
    assert [request_id for request_id, _ in agreed.ended] == ["c", "d"]


def test_nothing_is_told_twice() -> None:
    def body(transport: ThreadTransport) -> list[bytes]:
        agreement = Agreement(transport)
        agreement.take("a", FOREVER_S)
        agreement.take("b", FOREVER_S)
        agreement.failed("a", REFUSED)
        if transport.rank:
            agreement.ready("b")
        told = []
        for _ in range(2):
            agreement.exchange()
            told.append(transport.meeting.messages[transport.rank])
        agreement.ready("a")
        agreement.failed("a", REFUSED)
        assert agreement.exchange() == Agreed()
        return told

    told = on_all_ranks(2, body)
    assert [Report.from_bytes(first) for first, _ in told] == [
        Report(failed=(("a", REFUSED),)),
        Report(ready=("b",), failed=(("a", REFUSED),)),
    ]
    assert [Report.from_bytes(second) for _, second in told] == [Report(), Report()]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"ready":[1],"failed":[],"late":[],"missed":[]}',
        b'{"ready":"ab","failed":[],"late":[],"missed":[]}',
        b'{"ready":[],"failed":[["a",{"kind":"no"}]],"late":[],"missed":[]}',
        b'{"ready":[],"failed":[[1,{}]],"late":[],"missed":[]}',
    ],
)
def test_what_no_rank_says_is_refused(text: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        Report.from_bytes(text)


def test_taking_an_id_twice_is_a_bug_of_the_engine() -> None:
    def body(transport: ThreadTransport) -> None:
        agreement = Agreement(transport)
        agreement.take("a", 1.0)
        with pytest.raises(ValueError, match="already"):
            agreement.take("a", 1.0)

    on_all_ranks(1, body)


# ---- whatever the order and timing --------------------------------------------------------------------------------

STEPS = 6
MAX_MISSES = 1
_soon = st.integers(0, 2)
_event = st.one_of(st.none(), st.integers(0, STEPS - 1))


@attrs.frozen
class Life:
    """One request: what each rank comes to and when, in steps; None for never.

    Attributes:
        taken: the step in which it comes.
        ready: by rank, how many steps later.
        failed: by rank, in which step it fails there, waiting or running.
        deadline: how many steps later it times out.
        late: by rank, in which of the steps in which it runs its row misses the budget there.
    """

    taken: int
    ready: Sequence[int | None]
    failed: Sequence[int | None]
    deadline: int
    late: Sequence[frozenset[int]]


_lives = st.builds(
    Life,
    taken=st.integers(0, STEPS - 1),
    ready=st.lists(st.one_of(_soon, _soon, _soon, _event), min_size=RANKS, max_size=RANKS),
    failed=st.lists(st.one_of(st.none(), st.none(), _event), min_size=RANKS, max_size=RANKS),
    deadline=st.integers(1, STEPS),
    late=st.lists(st.frozensets(st.integers(0, STEPS - 1), max_size=2), min_size=RANKS, max_size=RANKS),
)


def failure(rank: int) -> GrammarError:
    return GrammarError(kind=ErrorKind.BACKEND_FAILURE, message=f"on rank {rank}")


def play(transport: ThreadTransport, lives: Sequence[Life], pause: Callable[[int], float]) -> list[Agreed]:
    """What one rank hears while it comes to what the lives say."""
    rank, clock = transport.rank, Clock()
    agreement = Agreement(transport, max_misses=MAX_MISSES, clock=clock)
    seen: list[Agreed] = []
    running: list[str] = []
    for step in range(2 * STEPS):
        clock.now = step
        time.sleep(pause(step))
        for number, life in enumerate(lives):
            if life.taken == step:
                agreement.take(str(number), life.deadline)
            if life.ready[rank] is not None and life.taken + (life.ready[rank] or 0) == step:
                agreement.ready(str(number))
            if life.failed[rank] == step:
                agreement.failed(str(number), failure(rank))
        late = [each for each in running if step in lives[int(each)].late[rank]]
        in_time = [each for each in running if each not in late]
        seen.append(agreement.exchange(in_time=in_time, late=late, missed=late))
        running = [each for each in (*running, *seen[-1].ready) if each not in dict(seen[-1].ended)]
    return seen


def expected_end(life: Life, ready_at: int | None) -> tuple[int, str] | None:
    """By the rules alone: the step in which a request ends, and of what; None if it runs to the last step."""
    ends: list[tuple[int, int, str]] = []
    for rank, step in enumerate(life.failed):
        if step is not None and step >= life.taken:
            ends.append((step, rank, f"on rank {rank}"))
    if ready_at is None or ready_at > life.taken + life.deadline:
        ends.append((life.taken + life.deadline, RANKS, "within"))
    if ready_at is not None:
        row = 0
        for step in range(ready_at + 1, 2 * STEPS):
            row = row + 1 if any(step in late for late in life.late) else 0
            if row > MAX_MISSES:
                ends.append((step, RANKS, "in a row"))
                break
    step, _, why = min(ends, default=(2 * STEPS, 0, ""))
    return (step, why) if step < 2 * STEPS else None


def ready_on_all(life: Life) -> int | None:
    steps = [life.taken + step for step in life.ready if step is not None]
    return max(steps) if len(steps) == RANKS else None


@settings(max_examples=60)
@given(
    lives=st.lists(_lives, max_size=6), slow=st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.001]), min_size=8, max_size=8)
)
def test_all_ranks_see_the_same_and_every_request_ends_once(lives: list[Life], slow: list[float]) -> None:
    def body(transport: ThreadTransport) -> list[Agreed]:
        return play(transport, lives, lambda step: slow[(step + transport.rank) % len(slow)])

    ranks = on_all_ranks(RANKS, body)
    assert all(seen == ranks[0] for seen in ranks)
    order = sorted(range(len(lives)), key=lambda number: (lives[number].taken, number))
    for step, agreed in enumerate(ranks[0]):
        ready, ended, late = [], [], set()
        for number in order:
            life, ready_at = lives[number], ready_on_all(lives[number])
            end = expected_end(life, ready_at)
            if end is not None and end[0] == step:
                ended.append((str(number), end[1]))
            elif ready_at == step and (end is None or step < end[0]):
                ready.append(str(number))
            elif ready_at is not None and ready_at < step and (end is None or step < end[0]):
                late |= {str(number)} if any(step in each for each in life.late) else set()
        assert agreed.ready == tuple(ready)
        assert [request_id for request_id, _ in agreed.ended] == [request_id for request_id, _ in ended]
        for (_, error), (_, why) in zip(agreed.ended, ended, strict=True):
            assert why in error.message
        assert set(agreed.late) == late
