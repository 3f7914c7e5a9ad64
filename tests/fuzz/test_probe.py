"""The probe sees what a matcher does wrong, where the core's guard would repair it."""

import pytest

from structout.backend import Matcher, Status
from structout.fuzz.law import Broken, Law
from structout.fuzz.probe import Probe, Probed, call
from structout.fuzz.vocabulary import small_vocabulary
from tests.fakes import ForkTrieMatcher, RollbackTrieMatcher, TrieMatcher
from tests.fuzz import faulty
from tests.fuzz.faulty import CASE, GoodMatcher, with_matcher

[EOS] = small_vocabulary().eos_token_ids


def probe(matcher: type[Matcher] = GoodMatcher) -> Probe:
    grammar = with_matcher(matcher).compile(CASE.spec).unwrap()
    return Probed(grammar.compiled, grammar.vocabulary).start()


def law_of(caught: pytest.ExceptionInfo[Broken]) -> Law:
    return caught.value.violation.law


@pytest.mark.parametrize(
    ("matcher", "law", "message"),
    [
        (faulty.SetsPadding, Law.ROW, "allows padding, a hole or a control token"),
        (faulty.AllowsControl, Law.ROW, "allows padding, a hole or a control token"),
        (faulty.LeavesAWord, Law.ROW, "another row"),
        (faulty.OrsIntoTheRow, Law.ROW, ""),
        (faulty.WritesBesideTheRow, Law.ROW, "beside its row"),
        (faulty.FillRaises, Law.RESULT_DISCIPLINE, "fill() raised BaseException: a panic"),
        (faulty.FillReturnsANumber, Law.RESULT_DISCIPLINE, "fill() returned int"),
        (faulty.FillIsLate, Law.RESULT_DISCIPLINE, "returned LATE before the end"),
        (faulty.FillFindsADeadEnd, Law.LIVENESS, "returned DEAD_END"),
    ],
)
def test_a_faulty_fill_is_seen(matcher: type[Matcher], law: Law, message: str) -> None:
    with pytest.raises(Broken) as caught:
        probe(matcher).fill()
    assert law_of(caught) is law
    assert message in caught.value.violation.message


def test_a_fill_that_moves_on_is_seen() -> None:
    moved = probe(faulty.FillMovesOn)
    moved.accept(ord("a"))
    with pytest.raises(Broken) as caught:
        moved.fill()
    assert law_of(caught) is Law.FILL_IS_PURE


@pytest.mark.parametrize(
    ("matcher", "law"),
    [(faulty.AcceptReturnsFree, Law.RESULT_DISCIPLINE), (faulty.AcceptIsOutOfMemory, Law.MEMORY)],
)
def test_a_faulty_accept_is_seen(matcher: type[Matcher], law: Law) -> None:
    with pytest.raises(Broken) as caught:
        probe(matcher).accept(ord("a"))
    assert law_of(caught) is law


def test_a_flag_that_is_none_is_seen() -> None:
    with pytest.raises(Broken) as caught:
        assert probe(faulty.AcceptingIsANumber).is_accepting
    assert law_of(caught) is Law.RESULT_DISCIPLINE


def test_a_rollback_that_is_refused_is_seen() -> None:
    refused = probe(faulty.RollbackIsRefused)
    refused.accept(ord("a"))
    with pytest.raises(Broken) as caught:
        refused.rollback(1)
    assert law_of(caught) is Law.ROLLBACK


def test_a_users_interrupt_is_none_of_this() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call("it", interrupted)


def test_it_follows_a_good_matcher() -> None:
    good = probe()
    assert good.feed([ord("a"), ord("b"), ord("z")]) == 2
    assert good.text == b"ab"
    bits = good.fill()
    assert len(bits) == small_vocabulary().padded_size
    assert bits.nonzero()[0].tolist() == [ord("c"), ord("d")]
    fork, twin = good.fork(), good.replayed()
    assert good.accept(ord("c")) is Status.OK
    assert good.is_accepting
    assert good.accept(EOS) is Status.OK
    assert good.is_terminated
    assert good.text == b"abc"
    assert good.try_fill()[0] is Status.TERMINATED
    assert fork.text == twin.text == b"ab"
    good.rollback(2)
    assert good.tokens == [ord("a"), ord("b")]
    assert not good.is_terminated
    assert good.probed.times.fills == 2


def test_it_tells_abilities_apart() -> None:
    abilities = {
        matcher: (probe(matcher).can_roll_back, probe(matcher).can_fork)
        for matcher in (TrieMatcher, RollbackTrieMatcher, ForkTrieMatcher, GoodMatcher)
    }
    assert list(abilities.values()) == [(False, False), (True, False), (False, True), (True, True)]


def test_another_sequence_that_refuses_the_same_tokens_is_seen() -> None:
    faulty.DependsOnOthers.last = b""
    first = probe(faulty.DependsOnOthers)
    first.accept(ord("a"))
    with pytest.raises(Broken) as caught:
        first.replayed()
    assert law_of(caught) is Law.DETERMINISM
