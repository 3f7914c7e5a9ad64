"""The oracles: silent on good backends, and on a faulty one each names the law that is broken."""

import random
from collections.abc import Collection, Sequence

import attrs
import pytest

from structout import Choice, Err, ErrorKind, GrammarError, GrammarSpec, JsonSchema, Result
from structout.backend import Backend, CompiledGrammar, Finding, Matcher
from structout.fuzz.case import Case, Text
from structout.fuzz.examine import examine
from structout.fuzz.law import Broken, Law
from structout.fuzz.oracles import ORACLES, Oracle, oracles_for
from structout.fuzz.oracles.language import members_are_accepted, strangers_are_refused, walks_end_in_the_language
from structout.fuzz.oracles.memory import nothing_is_left_behind
from structout.fuzz.oracles.saying import check_refusal, size_is_a_number
from structout.fuzz.trial import Trial, trial_of
from structout.fuzz.vocabulary import small_vocabulary
from structout.grammar import BoundBackend
from structout.vocabulary import Vocabulary
from tests.fakes import ForkTrieMatcher, RollbackTrieMatcher, TrieMatcher
from tests.fuzz import faulty
from tests.fuzz.faulty import CASE, GoodMatcher, bound, with_matcher

SEEDS = range(6)
"""A fault that shows in some states only is found in one of so many cases."""


def broken(backend: BoundBackend, laws: Collection[Law], case: Case = CASE) -> set[Law]:
    """The laws that are found to be broken when these are looked at."""
    reports = (examine(backend, attrs.evolve(case, seed=seed), laws, mask_budget_s=60.0) for seed in SEEDS)
    return {violation.law for report in reports for violation in report.violations}


@pytest.mark.parametrize("matcher", [TrieMatcher, RollbackTrieMatcher, ForkTrieMatcher, GoodMatcher])
def test_a_good_backend_breaks_no_law(matcher: type[Matcher]) -> None:
    assert broken(with_matcher(matcher), set(Law) - {Law.LEAK}) == set()


def test_neither_does_one_whose_grammars_are_saved_and_loaded() -> None:
    assert broken(bound(faulty.Saves), {Law.DETERMINISM}) == set()


@pytest.mark.parametrize("options", [("",), ("", "a"), ("a",), ("a\0b", '"', "\\")])
def test_neither_do_small_and_odd_languages(options: tuple[str, ...]) -> None:
    case = Case(Choice(options), members=tuple(Text(option, "plain") for option in options))
    assert broken(bound(), set(Law) - {Law.LEAK}, case) == set()


MATCHERS: list[tuple[type[Matcher], Law, set[Law]]] = [
    (faulty.AcceptsTwoLetters, Law.MASK_IS_ACCEPT, {Law.MASK_IS_ACCEPT}),
    (faulty.AcceptsTwoLetters, Law.REFUSED_TOKEN, {Law.MASK_IS_ACCEPT}),
    (faulty.RefusesMergedTokens, Law.TOKENIZATION, {Law.TOKENIZATION}),
    (faulty.RefusesMergedTokens, Law.WRONG_REJECTION, {Law.WRONG_REJECTION}),
    (faulty.FillMovesOn, Law.FILL_IS_PURE, {Law.FILL_IS_PURE}),
    (faulty.ForgetsAToken, Law.ROLLBACK, {Law.ROLLBACK}),
    (faulty.CannotUndoTheEnd, Law.ROLLBACK, {Law.ROLLBACK}),
    (faulty.RollbackIsRefused, Law.ROLLBACK, {Law.ROLLBACK}),
    (faulty.ForkIsItself, Law.FORK, {Law.FORK}),
    (faulty.ForksShareTheirPast, Law.FORK, {Law.FORK}),
    (faulty.ForkStartsAnew, Law.FORK, {Law.FORK}),
    (faulty.IgnoresLargeIds, Law.TOKEN_IDS, {Law.TOKEN_IDS}),
    (faulty.IgnoresDuplicates, Law.TOKEN_IDS, {Law.TOKEN_IDS}),
    (faulty.LargeIdsAreOutOfTheRow, Law.TOKEN_IDS, {Law.TOKEN_IDS}),
    (faulty.ForkStartsAnew, Law.DRAFTS, {Law.DRAFTS}),
    (faulty.ForkIsNoMatcher, Law.FORK, {Law.RESULT_DISCIPLINE}),
    (faulty.RefusedTokenResets, Law.REFUSED_TOKEN, {Law.REFUSED_TOKEN}),
    (faulty.RefusedTokenResets, Law.MASK_IS_ACCEPT, {Law.MASK_IS_ACCEPT}),
    (faulty.RefusedTokenResets, Law.STOP_TOKENS, {Law.REFUSED_TOKEN}),
    (faulty.StopsAnywhere, Law.STOP_TOKENS, {Law.STOP_TOKENS}),
    (faulty.StopsLate, Law.STOP_TOKENS, {Law.STOP_TOKENS}),
    (faulty.AcceptsAfterTheEnd, Law.AFTER_END, {Law.AFTER_END}),
    (faulty.FillsAfterTheEnd, Law.AFTER_END, {Law.AFTER_END}),
    (faulty.IncompleteAfterTheEnd, Law.AFTER_END, {Law.AFTER_END}),
    (faulty.DeadEnd, Law.LIVENESS, {Law.LIVENESS}),
    (faulty.DeadEnd, Law.OVER_ACCEPTANCE, {Law.LIVENESS}),
    (faulty.ForcesTheFirst, Law.FORCED_TEXT, {Law.FORCED_TEXT}),
    (faulty.ForcesNothingToSpeakOf, Law.FORCED_TEXT, {Law.RESULT_DISCIPLINE}),
    (faulty.DependsOnOthers, Law.ISOLATION, {Law.ISOLATION}),
    (faulty.SetsPadding, Law.ROW, {Law.ROW}),
    (faulty.AcceptIsOutOfMemory, Law.WRONG_REJECTION, {Law.MEMORY}),
]
BACKENDS: list[tuple[type[Backend], Law, set[Law]]] = [
    (faulty.LosesAnOption, Law.WRONG_REJECTION, {Law.WRONG_REJECTION}),
    (faulty.AddsAnOption, Law.OVER_ACCEPTANCE, {Law.OVER_ACCEPTANCE}),
    (faulty.CallsBeginningsComplete, Law.OVER_ACCEPTANCE, {Law.OVER_ACCEPTANCE}),
    (faulty.CompilesByTurns, Law.DETERMINISM, {Law.DETERMINISM}),
    (faulty.RefusesTheSecondTime, Law.DETERMINISM, {Law.DETERMINISM}),
    (faulty.LoadsLess, Law.DETERMINISM, {Law.DETERMINISM}),
    (faulty.LoadsNothing, Law.DETERMINISM, {Law.DETERMINISM}),
    (faulty.LoadsWhatIsDamaged, Law.DETERMINISM, {Law.RESULT_DISCIPLINE}),
    (faulty.LoadsWhatIsForeign, Law.DETERMINISM, {Law.RESULT_DISCIPLINE}),
    (faulty.LoadsWhatItHas, Law.DETERMINISM, {Law.RESULT_DISCIPLINE}),
    (faulty.SavesText, Law.DETERMINISM, {Law.RESULT_DISCIPLINE}),
    (faulty.CachesByLength, Law.CACHE, {Law.CACHE}),
    (faulty.Races, Law.CONCURRENCY, {Law.CONCURRENCY}),
    (faulty.SwapsRows, Law.BATCH_FILL, {Law.BATCH_FILL}),
    (faulty.IgnoresTheRows, Law.BATCH_FILL, {Law.BATCH_FILL}),
    (faulty.AlwaysOk, Law.BATCH_FILL, {Law.BATCH_FILL}),
    (faulty.AnswersOnce, Law.BATCH_FILL, {Law.BATCH_FILL}),
    (faulty.AnswersNothing, Law.BATCH_FILL, {Law.RESULT_DISCIPLINE}),
]


@pytest.mark.parametrize(("matcher", "law", "named"), MATCHERS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_faulty_matcher_is_found(matcher: type[Matcher], law: Law, named: set[Law]) -> None:
    faulty.DependsOnOthers.last = b""
    assert broken(with_matcher(matcher), {law}) == named


@pytest.mark.parametrize(("backend", "law", "named"), BACKENDS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_faulty_backend_is_found(backend: type[Backend], law: Law, named: set[Law]) -> None:
    for seed in SEEDS:
        if found := broken(bound(backend), {law}, attrs.evolve(CASE, seed=seed)):
            assert found == named
            return
    pytest.fail("nothing was found")


@pytest.mark.parametrize(
    ("case", "named"),
    [
        (attrs.evolve(CASE, strangers=()), {Law.OVER_ACCEPTANCE}),
        (attrs.evolve(CASE, members=()), {Law.OVER_ACCEPTANCE}),
    ],
    ids=["by walks", "by strangers"],
)
def test_what_is_accepted_too_much_is_found_in_two_ways(case: Case, named: set[Law]) -> None:
    assert broken(bound(faulty.AddsAnOption), {Law.OVER_ACCEPTANCE}, case) == named


def test_a_row_over_its_budget_is_a_breach() -> None:
    [violation] = examine(bound(), CASE, {Law.MASK_TIME}, mask_budget_s=0.0).violations
    assert violation.law is Law.MASK_TIME
    assert examine(bound(), CASE, {Law.MASK_TIME}, mask_budget_s=3600.0).violations == ()


LISTED = (Finding("", "minLength", "is ignored"),)


def of(
    backend: type[Backend], case: Case, unenforced: Sequence[Finding] = (), narrowed: Sequence[Finding] = ()
) -> Trial:
    """A trial of a grammar that lists findings."""
    grammar = bound(backend).compile(case.spec).unwrap()
    listing = attrs.evolve(grammar, unenforced=tuple(unenforced), narrowed=tuple(narrowed))
    return trial_of(listing, case, random.Random(0))


def test_what_is_listed_as_narrowed_is_no_wrong_rejection() -> None:
    members_are_accepted(of(faulty.LosesAnOption, CASE, narrowed=LISTED))
    with pytest.raises(Broken):
        members_are_accepted(of(faulty.LosesAnOption, CASE, unenforced=LISTED))


def test_what_is_listed_as_unenforced_is_no_over_acceptance() -> None:
    case = attrs.evolve(CASE, strangers=(Text("no", "minLength"),))
    for oracle in (strangers_are_refused, walks_end_in_the_language):
        oracle(of(faulty.AddsAnOption, case, unenforced=LISTED))
        with pytest.raises(Broken):
            _again_and_again(oracle, of(faulty.AddsAnOption, case, narrowed=LISTED))
    other = attrs.evolve(CASE, strangers=(Text("no", "maxLength"),))
    with pytest.raises(Broken):
        strangers_are_refused(of(faulty.AddsAnOption, other, unenforced=LISTED))


def _again_and_again(oracle: Oracle, trial: Trial) -> None:
    for _ in range(20):
        oracle(trial)


def test_a_member_in_a_form_that_nobody_promised_may_be_refused() -> None:
    case = attrs.evolve(CASE, members=(Text("elsewhere", "number form"),))
    assert broken(bound(), {Law.WRONG_REJECTION}, case) == set()
    written = attrs.evolve(CASE, members=(Text("elsewhere", "white space"),))
    assert broken(bound(), {Law.WRONG_REJECTION}, written) == {Law.SERIALIZATION}


REFUSALS = [
    (GrammarError(kind=ErrorKind.UNSUPPORTED, message="No.", hint="ask another"), None),
    (GrammarError(kind=ErrorKind.UNSUPPORTED, message="No.", pointer=""), None),
    (GrammarError(kind=ErrorKind.TOO_COMPLEX, message="Too long."), None),
    (GrammarError(kind=ErrorKind.TOO_COMPLEX, message="Too long.", offset=0), None),
    (GrammarError(kind=ErrorKind.TOO_COMPLEX, message="Too long.", offset=3), None),
    (GrammarError(kind=ErrorKind.TOO_COMPLEX, message="Too long.", offset=4), Law.RESULT_DISCIPLINE),
    (GrammarError(kind=ErrorKind.TOO_COMPLEX, message="Too long.", offset=-1), Law.RESULT_DISCIPLINE),
    (GrammarError(kind=ErrorKind.UNSUPPORTED, message="No."), Law.RESULT_DISCIPLINE),
    (GrammarError(kind=ErrorKind.TOO_COMPLEX, message=" "), Law.RESULT_DISCIPLINE),
    (GrammarError(kind=ErrorKind.INVALID_SPEC, message="Bad."), Law.RESULT_DISCIPLINE),
    (GrammarError(kind=ErrorKind.ENGINE_FAILURE, message="Oh."), Law.RESULT_DISCIPLINE),
    (GrammarError(kind=ErrorKind.UNSATISFIABLE, message="Empty."), Law.WRONG_REJECTION),
    (GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="Oh.", detail="KeyError: 1"), Law.RESULT_DISCIPLINE),
    (GrammarError(kind=ErrorKind.BACKEND_FAILURE, message="Oh.", detail="MemoryError: "), Law.MEMORY),
    *(
        (GrammarError(kind=ErrorKind.TOO_COMPLEX, message=internals), Law.RESULT_DISCIPLINE)
        for internals in (
            "Traceback (most recent call last)",
            "at grammar.cc:61",
            "in /usr/lib/x",
            "<A object at 0x7f00deadbeef>",
            "thread panicked",
        )
    ),
]


@pytest.mark.parametrize(("error", "law"), REFUSALS, ids=lambda each: str(each))
def test_a_refusal_has_to_be_of_use(error: GrammarError, law: Law | None) -> None:
    if law is None:
        check_refusal(error, CASE)
        return
    with pytest.raises(Broken) as caught:
        check_refusal(error, CASE)
    assert caught.value.violation.law is law


@pytest.mark.parametrize(
    ("pointer", "keyword", "is_there"),
    [
        ("/items", "maximum", True),
        ("/items", "type", True),
        ("", "maximum", True),
        ("", "whitespace", True),
        ("/items", None, True),
        ("/items", "minimum", False),
        ("/nowhere", None, False),
        ("/items/maximum", "maximum", False),
    ],
)
def test_a_refusal_has_to_point_to_what_is_there(pointer: str, keyword: str | None, is_there: bool) -> None:
    case = Case(JsonSchema('{"items": {"maximum": 1}}'))
    error = GrammarError(kind=ErrorKind.UNSUPPORTED, message="No.", pointer=pointer, keyword=keyword)
    if is_there:
        check_refusal(error, case)
        return
    with pytest.raises(Broken, match="points to where nothing is"):
        check_refusal(error, case)


@pytest.mark.parametrize(("size", "is_one"), [(0, True), (1 << 40, True), (-1, False), (True, False), ("1 KiB", False)])
def test_a_size_has_to_be_a_number_of_bytes(size: object, is_one: bool) -> None:
    trial = of(faulty.GoodBackend, CASE)
    sized = type("Sized", (), {"size_bytes": size})()
    trial.grammar = attrs.evolve(trial.grammar, compiled=sized)
    if is_one:
        size_is_a_number(trial)
        return
    with pytest.raises(Broken, match="size_bytes"):
        size_is_a_number(trial)


def test_a_backend_has_to_start_for_a_second_vocabulary() -> None:
    class StartsOnce(faulty.GoodBackend):
        def __init__(self, vocabulary: Vocabulary) -> None:
            if vocabulary.padded_size != small_vocabulary().padded_size:
                raise RuntimeError("one is enough")
            super().__init__(vocabulary)

    [violation] = examine(bound(StartsOnce), CASE, {Law.CACHE}).violations
    assert violation.law is Law.RESULT_DISCIPLINE
    assert "one is enough" in violation.message


def test_what_has_no_members_may_be_called_unsatisfiable() -> None:
    check_refusal(GrammarError(kind=ErrorKind.UNSATISFIABLE, message="Empty."), attrs.evolve(CASE, members=()))


def test_a_refusal_that_breaks_a_law_compiles_nothing() -> None:
    class Refuses(faulty.GoodBackend):
        def compile(self, spec: GrammarSpec) -> Result[CompiledGrammar, GrammarError]:
            return Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="No."))

    report = examine(bound(Refuses), CASE, set(Law))
    assert [violation.law for violation in report.violations] == [Law.RESULT_DISCIPLINE]
    assert report.error is not None
    assert not report.compiled


def test_every_law_is_looked_for_alone() -> None:
    """A saved fault is replayed with its own law only."""
    for law in Law:
        assert oracles_for({law})
    assert oracles_for({Law.ROLLBACK}) == list(ORACLES[Law.ROLLBACK])
    assert oracles_for({Law.ROLLBACK, Law.ROW}) == list(ORACLES[Law.ROLLBACK])
    assert set(oracles_for({Law.SERIALIZATION})) == {members_are_accepted, walks_end_in_the_language}
    everything = oracles_for(set(Law))
    assert len(everything) == len(set(everything)) == sum(map(len, ORACLES.values()))
    assert nothing_is_left_behind not in oracles_for({Law.CRASH})


@pytest.mark.parametrize("seed", SEEDS)
def test_what_an_oracle_finds_does_not_depend_on_the_others(seed: int) -> None:
    case = attrs.evolve(CASE, seed=seed, strangers=())
    laws = {Law.OVER_ACCEPTANCE, Law.ROLLBACK, Law.MASK_IS_ACCEPT, Law.BATCH_FILL}
    together = examine(bound(faulty.AddsAnOption), case, laws).violations
    assert examine(bound(faulty.AddsAnOption), case, {Law.OVER_ACCEPTANCE}).violations == together
