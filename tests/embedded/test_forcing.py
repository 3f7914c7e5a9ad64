"""Tokens that are not sampled, because the grammar leaves one text: they save steps, and change nothing else."""

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from engine_adapter.embedded.engine import Engine, Event, run
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Failed, Finished, FinishReason
from engine_adapter.sampling import SamplingParams
from structout import Choice, ErrorKind, Ok, Status
from structout.compile import Pending
from structout.constraint import AtOffset
from structout.grammar import Grammar
from structout.spec import GrammarSpec
from tests.fakes import BYTES, EOS, ForcingTrieMatcher, TrieMatcher, trie_grammar
from tests.scripted import LongestTokens, ScriptedRunner

LONG = ("colour: red, at the end", "colour: green, at the end")
"""Both begin and end alike; what is between is the model's choice."""


@attrs.define
class Service:
    """Has the grammar of two long texts at once."""

    vocabulary = BYTES
    grammar: Grammar = attrs.field(factory=lambda: trie_grammar(*LONG, matcher=ForcingTrieMatcher))

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        pending: Pending[Grammar] = Pending()
        pending.settle(Ok(self.grammar))
        return pending


@attrs.define
class Counting(ScriptedRunner):
    """Counts forward passes, and the tokens of the longest."""

    passes: int = 0
    longest: int = 0

    def __attrs_post_init__(self) -> None:
        ScriptedRunner.__init__(self, max_len=128)

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> Any:
        self.passes += 1
        return super().prefill(row, tokens, start)

    def decode(self, tokens: Sequence[Sequence[int]]) -> Any:
        self.passes += 1
        self.longest = max(self.longest, sum(map(len, tokens)))
        return super().decode(tokens)


def request(id: str = "a", **fields: Any) -> Request:
    return Request(id=id, prompt=(1, 2, 3), spec=Choice(LONG), **({"max_tokens": 60} | fields))


def outcome(events: Sequence[Event]) -> tuple[list[Delta], Finished]:
    deltas = [event.outcome for event in events if isinstance(event.outcome, Delta)]
    [end] = [event.outcome for event in events if not isinstance(event.outcome, Delta)]
    assert isinstance(end, Finished), end
    assert "".join(delta.text for delta in deltas) == end.text
    assert tuple(token for delta in deltas for token in delta.token_ids) == end.token_ids
    return deltas, end


def generated(request: Request, *, canonical: Any = None, service: Service | None = None, **options: Any) -> Any:
    """How a request ends, and the model that it ran on."""
    runner = Counting()
    engine = Engine(runner, service or Service(), canonical=canonical or LongestTokens(), **options)
    deltas, end = outcome(list(run(engine, [request])))
    engine.close()
    return deltas, end, runner


def test_only_where_there_is_a_choice_is_a_token_sampled() -> None:
    _, end, runner = generated(request())
    assert end.text in LONG
    assert end.reason is FinishReason.STOP
    assert end.usage.completion_tokens == len(end.token_ids) + 1
    # The prompt with all that both texts begin with; one letter and what follows it; the stop token.
    assert runner.passes == 2
    assert runner.longest > 10


def test_what_is_forced_first_is_not_told_before_the_model_has_run() -> None:
    first = LongestTokens().after((), b"colour: ")
    deltas, _, _ = generated(request())
    assert deltas[0].token_ids[: len(first)] == first
    assert len(deltas[0].token_ids) > len(first)
    runner = Counting()
    runner.fail_on = 1
    engine = Engine(runner, Service(), canonical=LongestTokens())
    [event] = list(run(engine, [request()]))
    engine.close()
    assert isinstance(event.outcome, Failed)


@pytest.mark.parametrize("max_tokens", range(1, 30))
def test_forced_tokens_count(max_tokens: int) -> None:
    _, end, _ = generated(request(max_tokens=max_tokens), terminal_rule=lambda payload: None)
    assert len(end.token_ids) <= max_tokens
    assert (end.reason is FinishReason.LENGTH) is (len(end.token_ids) == max_tokens)
    assert any(text.startswith(end.text) for text in LONG)


@pytest.mark.parametrize(("stop", "cut"), [("red, at the end", {"colour: "}), ("t the", set[str]())])
def test_a_stop_string_in_what_is_forced_counts_where_the_text_is_complete(stop: str, cut: set[str]) -> None:
    options = (*LONG, "colour: ")
    service = Service(trie_grammar(*options, matcher=ForcingTrieMatcher))
    requests = [request(stop=(stop,), sampling=SamplingParams(seed=seed)) for seed in range(16)]
    found = [generated(each, service=service)[1] for each in requests]
    assert {end.text for end in found} <= set(options)
    assert {end.text for end in found if end.stop_string} == cut


@pytest.mark.parametrize(
    "sampling", [SamplingParams(logprobs=2), SamplingParams(logit_bias={ord("c"): -1.0})], ids=["logprobs", "bias"]
)
def test_who_asks_for_more_than_text_has_every_token_sampled(sampling: SamplingParams) -> None:
    deltas, end, runner = generated(request(sampling=sampling))
    assert runner.passes == len(end.token_ids) + 1
    if sampling.logprobs is not None:
        assert [logprob.token_id for delta in deltas for logprob in delta.logprobs] == list(end.token_ids)


def test_a_risky_grammar_is_not_asked() -> None:
    class Unasked(ForcingTrieMatcher):
        def forced_text(self, limit: int) -> bytes:
            raise AssertionError("asked")

    risky = attrs.evolve(trie_grammar(*LONG, matcher=Unasked), is_risky=True)
    _, end, runner = generated(request(), service=Service(risky))
    assert runner.passes == len(end.token_ids) + 1


def test_nothing_is_forced_before_a_grammar_begins() -> None:
    deltas, _, _ = generated(request(activation=AtOffset(2), max_tokens=80))
    assert [len(delta.token_ids) for delta in deltas[:2]] == [1, 1 + len(LongestTokens().after((), b"colour: "))]


def test_a_stop_token_is_never_forced() -> None:
    [stop] = LongestTokens().after((), b"ab")
    service = Service(trie_grammar("abc", "abd", matcher=ForcingTrieMatcher))
    _, end, _ = generated(request(stop_token_ids=(stop, EOS)), service=service)
    assert stop not in end.token_ids
    assert end.text in ("abc", "abd")


def test_what_is_forced_is_computed_within_the_budget_of_a_step() -> None:
    _, end, runner = generated(request(), step_tokens=4)
    assert end.text in LONG
    assert runner.longest == 4


class Lies(ForcingTrieMatcher):
    """Calls forced what it does not take."""

    def forced_text(self, limit: int) -> bytes:
        return b"colour? "


class Raises(ForcingTrieMatcher):
    def forced_text(self, limit: int) -> bytes:
        raise MemoryError


class ReturnsText(ForcingTrieMatcher):
    def forced_text(self, limit: int) -> Any:
        return "colour"


def test_what_a_matcher_does_not_take_is_sampled() -> None:
    _, end, _ = generated(request(), service=Service(trie_grammar(*LONG, matcher=Lies)))
    assert end.text in LONG


@pytest.mark.parametrize("matcher", [Raises, ReturnsText])
def test_a_matcher_that_cannot_say_what_is_forced_has_failed(matcher: type[TrieMatcher]) -> None:
    engine = Engine(Counting(), Service(trie_grammar(*LONG, matcher=matcher)), canonical=LongestTokens())
    [event] = list(run(engine, [request()]))
    engine.close()
    assert isinstance(event.outcome, Failed)
    assert event.outcome.error.kind is ErrorKind.BACKEND_FAILURE
    assert "forced_text" in event.outcome.error.message


def test_what_is_forced_on_one_keeps_no_other_from_going_on() -> None:
    """Nobody's prompt, and no other row, waits for one whose text is all forced."""
    long = "a" * 3000 + "bcd"
    runner = ScriptedRunner(max_rows=4, max_len=4096)
    service = Service(trie_grammar(long, "x" + long, matcher=ForcingTrieMatcher))
    engine = Engine(runner, service, step_tokens=32, canonical=LongestTokens())
    for id in ("a", "b"):
        engine.add(Request(id=id, prompt=(1,), spec=Choice(LONG), max_tokens=3500)).unwrap()
    told: dict[str, int] = {}
    for step in range(60):
        if step == 10:
            engine.add(Request(id="free", prompt=tuple(range(1, 11)), max_tokens=2)).unwrap()
        for event in engine.step().events:
            told.setdefault(event.request_id, step)
    engine.close()
    assert abs(told["a"] - told["b"]) <= 1
    assert told["free"] - 10 <= 4


def test_a_first_token_that_is_refused_is_a_failure_that_has_said_nothing() -> None:
    class Refuses(ForcingTrieMatcher):
        def accept(self, token: int) -> Status:
            if self.text == b"colour: ":
                raise MemoryError
            return super().accept(token)

    engine = Engine(Counting(), Service(trie_grammar(*LONG, matcher=Refuses)), canonical=LongestTokens())
    [event] = list(run(engine, [request()]))
    engine.close()
    assert isinstance(event.outcome, Failed)
