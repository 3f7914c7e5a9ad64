"""An embedding is the mean of the prompt's last hidden states at length 1, whatever runs beside it and however the
prompt is cut; and it holds up nobody for longer than a step's budget of tokens."""

import math
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from engine_adapter.embedded.engine import Engine, run
from engine_adapter.embedded.model import ModelRunner
from engine_adapter.embedded.request import Request
from engine_adapter.embedded.scheduler import POOLED_PART
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, Outcome
from engine_adapter.sampling import SamplingParams
from engine_adapter.terminal import EMPTY, Payload
from structout import Choice, Err, ErrorKind, GrammarError, Ok
from tests.embedded.test_engine_machine import ManualService
from tests.embedded.test_model import LLAMA, make_runner
from tests.scripted import ScriptedRunner, states_after


def engine_of(runner: ModelRunner | None = None, **options: Any) -> Engine:
    return Engine(runner or ScriptedRunner(max_rows=3, max_len=24), ManualService(), **options)


def embed(prompt: Sequence[int], id: str = "it", **fields: Any) -> Request:
    return Request(id=id, prompt=tuple(prompt), embed=True, **fields)


def text(prompt: Sequence[int], id: str, **fields: Any) -> Request:
    return Request(id=id, prompt=tuple(prompt), sampling=SamplingParams(seed=1), **fields)


def ends(engine: Engine, requests: Sequence[Request]) -> dict[str, list[Outcome]]:
    said: dict[str, list[Outcome]] = {}
    for event in run(engine, requests):
        said.setdefault(event.request_id, []).append(event.outcome)
    engine.close()
    return said


def expected(prompt: Sequence[int]) -> list[float]:
    """By the definition."""
    states = torch.stack([states_after(prompt[:end]) for end in range(1, len(prompt) + 1)])
    mean = states.double().mean(dim=0)
    return [float(each) for each in mean / mean.norm()]


PROMPTS = st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=20), min_size=1, max_size=6)


@settings(max_examples=60)
@given(PROMPTS, PROMPTS, st.integers(1, 12), st.integers(24, 60))
def test_it_is_the_mean_of_the_last_hidden_states_whatever_runs_beside_it(
    prompts: list[list[int]], others: list[list[int]], step_tokens: int, kv_tokens: int
) -> None:
    texts = [text(prompt, f"text {index}", max_tokens=4) for index, prompt in enumerate(others)]
    vectors = [embed(prompt, f"vector {index}") for index, prompt in enumerate(prompts)]
    mixed = [each for pair in zip(texts, vectors, strict=False) for each in pair]
    mixed += [each for each in (*texts, *vectors) if each not in mixed]
    said = ends(engine_of(step_tokens=step_tokens, kv_tokens=kv_tokens), mixed)
    alone = ends(engine_of(), texts)
    assert {id: outcomes[-1] for id, outcomes in said.items() if id in alone} == {
        id: outcomes[-1] for id, outcomes in alone.items()
    }
    for index, prompt in enumerate(prompts):
        [end] = said[f"vector {index}"]
        assert isinstance(end, Finished)
        assert (end.text, end.token_ids) == ("", ())
        assert (end.usage.prompt_tokens, end.usage.completion_tokens) == (len(prompt), 0)
        assert end.vector is not None
        assert end.vector == pytest.approx(expected(prompt), abs=1e-6)
        assert math.hypot(*end.vector) == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 95), min_size=1, max_size=40), st.integers(1, 40))
def test_a_real_model_pools_in_chunks_what_it_pools_at_once(prompt: list[int], chunk: int) -> None:
    runner = make_runner()
    total = sum(
        (runner.prefill_pooled(0, prompt[start : start + chunk], start) for start in range(0, len(prompt), chunk)),
        start=torch.zeros(32, dtype=torch.float64),
    )
    with torch.no_grad():
        states = LLAMA(input_ids=torch.tensor([prompt]), use_cache=False, output_hidden_states=True).hidden_states
    torch.testing.assert_close(total, states[-1][0].double().sum(dim=0), atol=1e-3, rtol=1e-4)
    with pytest.raises(ValueError, match="does not continue"):
        runner.prefill_pooled(0, [1], 0)


STEP = 2 * POOLED_PART
"""Tokens a step, of which embeddings get two while there are others."""


def no_time() -> float:
    """A clock by which nothing takes any time."""
    return 0.0


def test_many_prompts_leave_room_for_who_decodes_in_every_step() -> None:
    runner = ScriptedRunner(max_rows=4, max_len=24)
    engine = engine_of(runner, step_tokens=STEP, clock=no_time)
    engine.add(text([1], "text", max_tokens=20)).unwrap()
    engine.step()
    engine.add(embed(range(9), "first")).unwrap()
    engine.add(embed(range(5), "second")).unwrap()
    steps, computed = [], []
    for _ in range(8):
        before = runner.prefilled
        steps.append([event.request_id for event in engine.step().events])
        computed.append(runner.prefilled - before)
    assert [events.count("text") for events in steps] == [1] * 8
    assert computed == [2, 2, 2, 2, 1, 2, 2, 1], "a chunk of one of them in each"
    assert [[id for id in events if id != "text"] for events in steps] == [[]] * 4 + [["first"], [], [], ["second"]]
    engine.close()


class Timed(ScriptedRunner):
    """A model by whose clock its calls take what they are said to take, in seconds."""

    def __init__(self, decode_s: float, pooled_s: float) -> None:
        super().__init__(max_rows=4)
        self.decode_s, self.pooled_s = decode_s, pooled_s
        self.now = self.pooling_s = 0.0

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        self.now += self.decode_s
        return super().decode(tokens)

    def prefill_pooled(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        self.now += self.pooled_s
        self.pooling_s += self.pooled_s
        return super().prefill_pooled(row, tokens, start)


COSTS = st.floats(0.001, 1.0)
TINY = 1e-9


@settings(max_examples=60)
@given(COSTS, COSTS, st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_beside_who_decodes_they_have_half_of_the_time_whatever_costs_what(
    decode_s: float, pooled_s: float, lengths: list[int]
) -> None:
    """No more, but for a chunk; and no less, but for a step, unless they have one in each."""
    runner = Timed(decode_s, pooled_s)
    engine = engine_of(runner, step_tokens=STEP, clock=lambda: runner.now)
    engine.add(text([1], "text", max_tokens=60, stop_token_ids=())).unwrap()
    engine.step()
    for index, length in enumerate(lengths):
        engine.add(embed(range(length), f"vector {index}")).unwrap()
    for step in range(1, 59):
        engine.step()
        others_s = step * decode_s
        assert runner.pooling_s <= others_s + pooled_s + TINY
        wanted = engine.unfinished > 1
        assert not wanted or runner.pooling_s >= min(others_s - 2 * decode_s, step * pooled_s) - TINY
    engine.close()


def test_who_waits_for_a_row_that_they_hold_holds_them_up_in_no_way() -> None:
    runner = Timed(1.0, 1.0)
    engine = Engine(runner, ManualService(), step_tokens=STEP, kv_tokens=64, clock=lambda: runner.now)
    for index in range(4):
        engine.add(embed(range(40), f"vector {index}")).unwrap()
    engine.step()
    engine.add(text([1] * 30, "text", max_tokens=2)).unwrap()
    for _ in range(200):
        engine.step()
    assert engine.unfinished == 0
    engine.close()


def test_who_comes_later_waits_for_no_prompt_that_is_embedded() -> None:
    engine = engine_of(ScriptedRunner(max_rows=4, max_len=24), step_tokens=STEP)
    for index in range(3):
        engine.add(embed(range(20), f"vector {index}")).unwrap()
    engine.step()
    engine.add(text(range(STEP - 2), "text", max_tokens=1)).unwrap()
    assert [event.request_id for event in engine.step().events] == ["text", "text"], "its token, and its end"
    engine.close()


def test_alone_they_have_all_the_step() -> None:
    runner = ScriptedRunner(max_rows=3, max_len=24)
    engine = engine_of(runner, step_tokens=STEP)
    engine.add(embed(range(20))).unwrap()
    engine.step()
    assert runner.prefilled == STEP
    engine.close()


class Broken(ScriptedRunner):
    """Pools to numbers that are none, or to nothing."""

    def __init__(self, states: torch.Tensor) -> None:
        super().__init__()
        self.states = states

    def prefill_pooled(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        self.prefill(row, tokens, start)
        return self.states


@pytest.mark.parametrize(
    "states", [torch.tensor([1.0, torch.nan]), torch.tensor([torch.inf, 1.0]), torch.zeros(3), torch.zeros(0)], ids=str
)
def test_a_vector_that_is_not_one_of_numbers_is_an_error(states: torch.Tensor) -> None:
    [end] = ends(engine_of(Broken(states)), [embed([1, 2])])["it"]
    assert isinstance(end, Failed)
    assert (end.error.kind, end.error.message) == (ErrorKind.UNUSABLE_RESPONSE, EMPTY)


def test_another_rule_decides_about_vectors_too() -> None:
    refused = GrammarError(kind=ErrorKind.UNUSABLE_RESPONSE, message="too short")

    def rule(payload: Payload) -> GrammarError | None:
        return refused if 0 < payload.vector < 99 else None

    assert ends(engine_of(terminal_rule=rule), [embed([1, 2])])["it"] == [Failed(refused)]


def test_a_model_that_fails_ends_the_embedding_and_nobody_else() -> None:
    runner = ScriptedRunner()
    runner.fail_on = 9
    said = ends(engine_of(runner), [embed([1, 9]), text([1], "text", max_tokens=3)])
    [end] = said["it"]
    assert isinstance(end, Failed)
    assert end.error.kind is ErrorKind.ENGINE_FAILURE
    assert isinstance(said["text"][-1], Finished)


def test_it_can_be_aborted_and_gives_its_row_back() -> None:
    runner = ScriptedRunner(max_rows=1)
    engine = engine_of(runner, step_tokens=2)
    engine.add(embed(range(9))).unwrap()
    assert engine.step().events == ()
    engine.abort("it")
    assert [event.outcome for event in engine.step().events] == [Aborted()]
    assert (engine.unfinished, runner.length(0)) == (0, 0)
    engine.close()


class WithoutPooling:
    """A runner that only generates."""

    def __init__(self) -> None:
        runner = ScriptedRunner()
        self.logit_width, self.max_rows, self.max_len, self.device = (
            runner.logit_width,
            runner.max_rows,
            runner.max_len,
            runner.device,
        )
        self.prefill, self.decode, self.swap = runner.prefill, runner.decode, runner.swap
        self.truncate, self.length = runner.truncate, runner.length


def test_what_cannot_be_embedded_is_refused_at_once() -> None:
    engine = engine_of()
    for request, keyword in (
        (embed([]), "prompt"),
        (embed([1], spec=Choice(("a",))), "spec"),
        (embed([1] * 25), "prompt"),
        (Request(id="it", prompt=(1,), embed=1), "embed"),  # type: ignore[arg-type]
    ):
        refused = engine.add(request)
        assert isinstance(refused, Err)
        assert (refused.error.kind, refused.error.keyword) == (ErrorKind.INVALID_SPEC, keyword)
    engine.close()
    engine = engine_of(WithoutPooling())
    refused = engine.add(embed([1]))
    assert isinstance(refused, Err)
    assert (refused.error.kind, refused.error.keyword) == (ErrorKind.UNSUPPORTED, "embed")
    assert isinstance(engine.add(text([1], "text")), Ok)
    engine.close()
    assert not any(isinstance(each, Delta) for each in ends(engine_of(), [embed([1])])["it"])
