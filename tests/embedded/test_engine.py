"""The embedded engine, driven by a scripted model: every request ends once, rightly, whatever happens to the others."""

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine_adapter.embedded import forward as forward_module
from engine_adapter.embedded.detokenize import Detokenizer
from engine_adapter.embedded.engine import Engine, Event, run
from engine_adapter.embedded.request import (
    Blocked,
    Decoding,
    Ended,
    Prefilling,
    Request,
    Sequence,
    State,
    Waiting,
    moved,
)
from engine_adapter.embedded.scheduler import LEAST_PART, Chunk, Scheduler
from engine_adapter.outcome import Aborted, Delta, Failed, Finished, FinishReason
from engine_adapter.sampling import SamplingParams
from engine_adapter.sampling.batch import SamplingBatch
from engine_adapter.sampling.sampled import SampledRows
from structout import Choice, Err, ErrorKind, GrammarError, Ok, Status
from structout.backend import BitmaskRow
from structout.compile import CompileService, Pending
from structout.constraint import AfterTokens, AtOffset
from structout.discovery import discover
from structout.grammar import Grammar
from structout.spec import GrammarSpec
from tests.fakes import BYTES, EOS, TrieMatcher, TriePlugin, trie_info
from tests.scripted import ScriptedRunner

GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture
def service() -> CompileService:
    return CompileService(discover(plugins={"trie": TriePlugin()}, entry_points=[]), BYTES)


@pytest.fixture
def engine(service: CompileService) -> Engine:
    return Engine(ScriptedRunner(), service, step_tokens=16)


def ends(events: list[Event]) -> dict[str, Finished | Failed | Aborted]:
    terminal = [event for event in events if not isinstance(event.outcome, Delta)]
    assert len({event.request_id for event in terminal}) == len(terminal), "a request ended twice"
    return {event.request_id: event.outcome for event in terminal if not isinstance(event.outcome, Delta)}


def prompt(text: str) -> tuple[int, ...]:
    return tuple(text.encode())


def test_a_structured_and_a_free_request_in_one_batch(engine: Engine) -> None:
    requests = [
        Request(id="choice", prompt=prompt("pick"), spec=Choice(("yes", "no")), sampling=GREEDY),
        Request(id="free", prompt=prompt("talk"), max_tokens=5, sampling=GREEDY),
    ]
    events = list(run(engine, requests))
    outcomes = ends(events)
    choice, free = outcomes["choice"], outcomes["free"]
    assert isinstance(choice, Finished)
    assert choice.text in ("yes", "no")
    assert (choice.reason, choice.stop_token_id) == (FinishReason.STOP, EOS)
    assert choice.usage.prompt_tokens == 4
    assert choice.usage.completion_tokens == len(choice.token_ids) + 1
    assert isinstance(free, Finished)


def test_deltas_add_up_to_the_finished_text(engine: Engine) -> None:
    events = list(run(engine, [Request(id="a", prompt=prompt("x"), spec=Choice(("ééab", "abécd")), sampling=GREEDY)]))
    deltas = [event.outcome for event in events if isinstance(event.outcome, Delta)]
    finished = ends(events)["a"]
    assert isinstance(finished, Finished)
    assert "".join(delta.text for delta in deltas) == finished.text
    assert tuple(token for delta in deltas for token in delta.token_ids) == finished.token_ids


def test_a_grammar_that_cannot_compile_ends_its_request_with_the_cause_and_the_others_go_on(engine: Engine) -> None:
    requests = [
        Request(id="good", prompt=prompt("x"), spec=Choice(("yes",))),
        Request(id="refused", prompt=prompt("x"), spec=Choice(("refuse",))),
        Request(id="raises", prompt=prompt("x"), spec=Choice(("raise",))),
        Request(id="nowhere", prompt=prompt("x"), spec=Choice(("yes",)), backend="nowhere"),
    ]
    outcomes = ends(list(run(engine, requests)))
    good = outcomes.pop("good")
    assert isinstance(good, Finished)
    assert good.text == "yes"
    kinds = {name: outcome.error.kind for name, outcome in outcomes.items() if isinstance(outcome, Failed)}
    assert kinds == {
        "refused": ErrorKind.UNSUPPORTED,
        "raises": ErrorKind.BACKEND_FAILURE,
        "nowhere": ErrorKind.UNAVAILABLE,
    }
    raises = outcomes["raises"]
    assert isinstance(raises, Failed)
    assert "secret" not in str(raises.error.to_json())


@pytest.mark.parametrize(
    ("request_", "keyword"),
    [
        (Request(id="a", prompt=()), "prompt"),
        (Request(id="a", prompt=tuple([1] * 65)), "prompt"),
        (Request(id="a", prompt=(1, 288)), "prompt"),
        (Request(id="a", prompt=(1,), max_tokens=0), "max_tokens"),
        (Request(id="a", prompt=(1,), max_tokens=2, min_tokens=3), "min_tokens"),
        (Request(id="a", prompt=(1,), stop_token_ids=(-1,)), "stop_token_ids"),
        (Request(id="a", prompt=(1,), sampling=SamplingParams(logit_bias={288: 1.0})), "logit_bias"),
        (Request(id="a", prompt=(1,), stop_token_ids=(), spec=Choice(("ab",))), "stop_token_ids"),
    ],
)
def test_a_request_that_cannot_be_one_is_refused_at_once(engine: Engine, request_: Request, keyword: str) -> None:
    error = engine.add(request_)
    assert isinstance(ends(list(run(engine, [request_])))["a"], Failed)
    assert getattr(error, "error").keyword == keyword  # noqa: B009 - Err by construction
    assert engine.unfinished == 0


class Foreign:
    """Cannot be shown, hashed or compared."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no equality")


HUGE = 10**5000
NAN = float("nan")
WRONG: dict[str, tuple[object, ...]] = {
    "id": (None, 5, ["x"], Foreign()),
    "prompt": (None, 5, "ab", (1.5,), (True,), (HUGE,), [1, None], np.ones((2, 2), int), (Foreign(),), Foreign()),
    "max_tokens": (None, "5", 1.5, NAN, True, 0, -HUGE, np.array([1, 2]), Foreign()),
    "min_tokens": (None, "5", 1.5, NAN, True, -1, HUGE, Foreign()),
    "sampling": (None, {"temperature": 1}, Foreign()),
    "spec": ("ab", {"type": "object"}, Choice, Foreign()),
    "backend": (5, ["trie"], Foreign()),
    "stop_token_ids": (5, (256.0,), (True,), (-HUGE,), (1,) * 1025, Foreign()),
    "stop": (None, "ab", 5, ("",), ("a" * 257,), ("\ud800",), (1,), ("a",) * 17, (Foreign(),), Foreign()),
    "ignore_eos": (None, 1, "yes", Foreign()),
    "include_stop": (None, 1, "yes", Foreign()),
    "activation": (5, (1, 2), Foreign()),
    "deadline_s": ("1", NAN, float("inf"), 0, -1.0, True, HUGE, Foreign()),
}


@pytest.mark.parametrize("field", WRONG)
def test_whatever_is_in_a_request_it_is_refused_by_name(engine: Engine, field: str) -> None:
    for value in WRONG[field]:
        fields: dict[str, Any] = {"id": "a", "prompt": (1,), field: value}
        refused = engine.add(Request(**fields))
        assert isinstance(refused, Err)
        assert (refused.error.kind, refused.error.keyword) == (ErrorKind.INVALID_SPEC, field)
        assert len(refused.error.message) < 200
    assert engine.unfinished == 0


@pytest.mark.parametrize("request_", [None, {"id": "a"}, Foreign()])
def test_what_is_no_request_is_refused(engine: Engine, request_: Any) -> None:
    refused = engine.add(request_)
    assert isinstance(refused, Err)
    assert refused.error.kind is ErrorKind.INVALID_SPEC


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_a_request_keeps_its_tokens_whatever_held_them(engine: Engine, kind: Callable[[list[int]], Any]) -> None:
    held = kind([1, 2])
    request = Request(id="a", prompt=held, stop_token_ids=held, max_tokens=1, sampling=GREEDY)
    held[:] = kind([0, 0])
    assert (request.prompt, request.stop_token_ids) == ((1, 2), (1, 2))
    assert {type(token) for token in request.prompt} == {int}
    assert isinstance(ends(list(run(engine, [request])))["a"], Finished)


class Panic(BaseException):
    """No `Exception`, like a panic in Rust; and it cannot even be shown."""

    def __str__(self) -> str:
        raise self


@attrs.define
class Service:
    """A compile service that first does something else."""

    inner: CompileService
    first: Callable[[], object]
    vocabulary = BYTES

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        self.first()
        return self.inner.submit(spec, backend=backend, deadline_s=deadline_s)


def thrower(exc: BaseException) -> Callable[..., Any]:
    def throw(*args: object) -> None:
        raise exc

    return throw


@pytest.mark.parametrize("exc", [RuntimeError("broken"), SystemExit(1), Panic()])
def test_a_submit_that_raises_leaves_the_id_free(service: CompileService, exc: BaseException) -> None:
    engine = Engine(ScriptedRunner(), Service(service, thrower(exc)))
    request = Request(id="a", prompt=(1,), spec=Choice(("yes",)), sampling=GREEDY)
    for _ in range(2):
        refused = engine.add(request)
        assert isinstance(refused, Err)
        assert refused.error.kind is ErrorKind.ENGINE_FAILURE
    assert engine.unfinished == 0
    assert engine.add(attrs.evolve(request, spec=None)) == Ok(None)


def test_the_users_interrupt_of_an_add_goes_on_and_leaves_the_id_free(service: CompileService) -> None:
    engine = Engine(ScriptedRunner(), Service(service, thrower(KeyboardInterrupt())))
    with pytest.raises(KeyboardInterrupt):
        engine.add(Request(id="a", prompt=(1,), spec=Choice(("yes",))))
    assert engine.unfinished == 0


def test_an_abort_while_the_grammar_is_being_submitted_is_not_lost(service: CompileService) -> None:
    slow = Service(service, lambda: None)
    engine = Engine(ScriptedRunner(), slow)

    def meanwhile() -> None:
        engine.abort("a")
        assert engine.step().events == ()

    slow.first = meanwhile
    events = list(run(engine, [Request(id="a", prompt=(1,), spec=Choice(("yes",)))]))
    assert ends(events) == {"a": Aborted()}


@pytest.mark.parametrize("no_id", [None, 5, ["a"], Foreign()])
def test_an_abort_of_what_is_no_id_is_nothing(engine: Engine, no_id: Any) -> None:
    engine.abort(no_id)
    assert not engine.has_work


def test_an_abort_that_comes_late_does_not_meet_the_next_request_of_that_name(engine: Engine) -> None:
    request = Request(id="a", prompt=(1,), max_tokens=1, sampling=GREEDY)
    first = list(run(engine, [request]))
    engine.abort("a")
    assert list(run(engine, [request])) != []
    assert isinstance(ends(first)["a"], Finished)


def test_two_requests_with_one_id_are_refused_until_the_first_has_ended(engine: Engine) -> None:
    engine.add(Request(id="a", prompt=(1,), max_tokens=1, sampling=GREEDY)).unwrap()
    again = run(engine, [Request(id="a", prompt=(2,))])
    refused = next(again)
    assert isinstance(refused.outcome, Failed)
    assert refused.outcome.error.keyword == "id"
    assert isinstance(ends(list(again))["a"], Finished)


def test_long_prompts_are_prefilled_in_chunks_within_the_budget(service: CompileService) -> None:
    runner = ScriptedRunner()
    engine = Engine(runner, service, step_tokens=8)
    engine.add(Request(id="long", prompt=tuple(range(1, 41)), max_tokens=2, sampling=GREEDY)).unwrap()
    engine.step()
    assert runner.prefilled == 8
    for _ in range(4):
        engine.step()
    assert runner.prefilled == 40, "a prompt is prefilled once"


@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    step_tokens=st.integers(1, 64),
    max_rows=st.integers(1, 8),
)
def test_no_prompt_is_cut_into_small_pieces_beside_another(lengths: list[int], step_tokens: int, max_rows: int) -> None:
    """Prompts are computed in order of arrival. In a step all but the first chunk, and what is left of each, have a
    least size, unless they are all that there was."""
    runner = ScriptedRunner(max_rows=max_rows)
    scheduler = Scheduler(runner, step_tokens=step_tokens, kv_tokens=max_rows * runner.max_len)
    sequences = [waiting(number, length) for number, length in enumerate(lengths)]
    for sequence in sequences:
        scheduler.add(sequence)
    least, done = step_tokens // LEAST_PART, [0] * len(lengths)
    while done != lengths:
        plan = scheduler.plan()
        assert plan.chunks, "some prompt goes on in every step"
        assert sum(chunk.end - chunk.start for chunk in plan.chunks) <= step_tokens
        order = [chunk.sequence.arrival for chunk in plan.chunks]
        assert order == sorted(order)
        assert not any(0 < done[earlier] < lengths[earlier] for earlier in range(order[0])), "one that came first waits"
        for place, chunk in enumerate(plan.chunks):
            sequence = chunk.sequence
            assert chunk.start == done[sequence.arrival]
            done[sequence.arrival] = chunk.end
            size, left = chunk.end - chunk.start, lengths[sequence.arrival] - chunk.end
            assert not left or place == 0 or min(size, left) >= least
            runner.prefill(chunk.row, chunk.tokens(), chunk.start)
            sequence.move(Prefilling(chunk.end) if left else Decoding())
            if not left:
                sequence.move(Ended(Aborted()))


@given(length=st.integers(1, 4), generated=st.lists(st.integers(2, 9), max_size=4), ends=st.data())
def test_a_chunk_has_the_tokens_between_its_ends(length: int, generated: list[int], ends: st.DataObject) -> None:
    sequence = waiting(0, length)
    sequence.tokens += generated
    start = ends.draw(st.integers(0, sequence.known - 1))
    end = ends.draw(st.integers(start + 1, sequence.known))
    assert Chunk(sequence, 0, start, end).tokens() == ([1] * length + generated)[start:end]


def waiting(number: int, length: int) -> Sequence:
    """A sequence that waits to be computed."""
    return Sequence(
        request=Request(id=str(number), prompt=(1,) * length),
        arrival=number,
        state=Waiting(),
        stop_token_ids=frozenset(),
        detokenizer=Detokenizer(BYTES.token),
    )


def test_a_request_joins_and_leaves_between_steps(engine: Engine) -> None:
    engine.add(Request(id="first", prompt=prompt("x"), max_tokens=30, sampling=GREEDY)).unwrap()
    engine.step()
    engine.add(Request(id="second", prompt=prompt("y"), max_tokens=2, sampling=GREEDY)).unwrap()
    events: list[Event] = []
    while engine.unfinished:
        events += engine.step().events
    order = [event.request_id for event in events if not isinstance(event.outcome, Delta)]
    assert order == ["second", "first"]


def penalized(seed: int) -> SamplingParams:
    """Every other one has penalties, which depend on the tokens so far."""
    strength = float(seed % 2)
    return SamplingParams(
        seed=seed, frequency_penalty=strength, repetition_penalty=1 + strength, logit_bias={seed: 5.0}
    )


def test_penalties_count_prompt_and_output_and_a_bias_decides(engine: Engine) -> None:
    """With a bias that outweighs the model: one token for ever, each of a few in turn, and none of the prompt."""
    few = {ord(letter): 50.0 for letter in "abc"}
    kinds = {
        "bias": SamplingParams(temperature=0.0, logit_bias={ord("a"): 50.0}),
        "presence": SamplingParams(temperature=0.0, logit_bias=few, presence_penalty=2.0, repetition_penalty=100.0),
        "prompt": SamplingParams(temperature=0.0, logit_bias=few, repetition_penalty=2.0),
    }
    requests = [Request(id=id, prompt=prompt("ab"), max_tokens=3, sampling=each) for id, each in kinds.items()]
    outcomes = ends(list(run(engine, requests)))
    texts = {id: outcome.text for id, outcome in outcomes.items() if isinstance(outcome, Finished)}
    assert texts["bias"] == "aaa"
    assert texts["presence"][0] == texts["prompt"][0] == "c"
    assert "c" not in texts["presence"][1:]


def test_what_a_request_generates_does_not_depend_on_its_company(service: CompileService) -> None:
    requests = [
        Request(id=str(seed), prompt=prompt(f"p{seed}"), max_tokens=12, sampling=penalized(seed)) for seed in range(9)
    ]
    alone = {
        request.id: outcome
        for request in requests
        for outcome in ends(list(run(Engine(ScriptedRunner(), service), [request]))).values()
    }
    together = ends(list(run(Engine(ScriptedRunner(max_rows=3), service, step_tokens=7, kv_tokens=64), requests)))
    assert together == alone


@pytest.mark.parametrize("entries", [1, 256])
def test_masks_that_reach_the_sampler_through_a_table_change_nothing(service: CompileService, entries: int) -> None:
    options = ("yes", "no", "maybe", "abcd", "éé", "a" * 30)
    requests = [
        Request(
            id=str(seed),
            prompt=prompt(f"p{seed}"),
            max_tokens=20,
            min_tokens=seed % 4,
            sampling=SamplingParams(seed=seed, logprobs=2),
            spec=Choice(options[seed % 5 :]) if seed % 3 else None,
        )
        for seed in range(12)
    ]
    expected = ends(list(run(Engine(ScriptedRunner(), service), requests)))
    through = Engine(ScriptedRunner(max_rows=3), service, step_tokens=7, kv_tokens=64, mask_entries=entries)
    assert ends(list(run(through, requests))) == expected


def test_preempted_requests_come_back_and_change_nothing(service: CompileService) -> None:
    requests = [
        Request(id=str(seed), prompt=prompt("abcdefgh"), max_tokens=40, sampling=penalized(seed)) for seed in range(4)
    ]
    roomy = Engine(ScriptedRunner(), service)
    tight = Engine(ScriptedRunner(), service, kv_tokens=64)
    assert ends(list(run(tight, requests))) == ends(list(run(roomy, requests)))
    assert tight.scheduler.preemptions > 0
    assert roomy.scheduler.preemptions == 0


def test_abort_ends_a_request_wherever_it_is(engine: Engine) -> None:
    engine.add(Request(id="running", prompt=prompt("x"), max_tokens=50, sampling=GREEDY)).unwrap()
    engine.step()
    engine.add(Request(id="new", prompt=prompt("x"), max_tokens=50, sampling=GREEDY)).unwrap()
    engine.abort("running")
    engine.abort("new")
    engine.abort("nobody")
    assert ends(list(engine.step().events)) == {"running": Aborted(), "new": Aborted()}
    assert engine.unfinished == 0
    assert not engine.has_work


def test_nothing_of_an_ended_request_stays_alive() -> None:
    matchers: list[weakref.ref[TrieMatcher]] = []

    def start(*args: Any) -> TrieMatcher:
        matcher = TrieMatcher(*args)
        matchers.append(weakref.ref(matcher))
        return matcher

    infos = discover(plugins={"trie": TriePlugin(trie_info(matcher=start))}, entry_points=[])
    runner = ScriptedRunner()
    engine = Engine(runner, CompileService(infos, BYTES))
    list(run(engine, [Request(id="a", prompt=(1, 2), spec=Choice(("yes",)), sampling=GREEDY)]))
    gc.collect()
    assert [matcher() for matcher in matchers] == [None]
    assert [runner.length(row) for row in range(runner.max_rows)] == [0] * runner.max_rows
    assert not engine.has_work


def test_who_aborts_while_waiting_leaves_the_queue(service: CompileService) -> None:
    engine = Engine(ScriptedRunner(max_rows=1), service)
    requests = [_free(id) for id in ("runs", "waits", "leaves")]
    leaves = weakref.ref(requests[2])
    while requests:
        engine.add(requests.pop(0)).unwrap()
    engine.step()
    engine.abort("leaves")
    engine.step()
    assert [sequence.id for sequence in engine.scheduler.sequences()] == ["runs", "waits"]
    gc.collect()
    assert leaves() is None


@pytest.mark.parametrize("exc", [RuntimeError("broken"), SystemExit(1), Panic()])
@pytest.mark.parametrize("call", ["prefill", "decode"])
def test_a_model_that_raises_anything_ends_requests_and_no_step(
    service: CompileService, monkeypatch: pytest.MonkeyPatch, call: str, exc: BaseException
) -> None:
    runner = ScriptedRunner()
    engine = Engine(runner, service)
    with monkeypatch.context() as patched:
        patched.setattr(runner, call, thrower(exc))
        failed = ends(list(run(engine, [Request(id="a", prompt=(1,), max_tokens=3, sampling=GREEDY)])))["a"]
    assert isinstance(failed, Failed)
    assert failed.error.kind is ErrorKind.ENGINE_FAILURE
    assert isinstance(
        ends(list(run(engine, [Request(id="b", prompt=(1,), max_tokens=3, sampling=GREEDY)])))["b"], Finished
    )


def _free(id: str) -> Request:
    return Request(id=id, prompt=prompt("x"), max_tokens=8, sampling=GREEDY)


def test_an_interrupt_from_the_thread_that_fills_is_a_failure(
    engine: Engine, service: CompileService, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = ends(list(run(Engine(ScriptedRunner(), service), [_free("free")])))
    service.submit(spec := Choice(("yes",))).wait()
    monkeypatch.setattr(forward_module, "fill_rows", thrower(KeyboardInterrupt()))
    outcomes = ends(list(run(engine, [_free("free"), Request(id="a", prompt=(1,), spec=spec)])))
    failed = outcomes.pop("a")
    assert isinstance(failed, Failed)
    assert failed.error.kind is ErrorKind.ENGINE_FAILURE
    assert outcomes == expected


@pytest.mark.parametrize(
    ("owner", "name"), [(SampledRows, "on_host"), (forward_module, "wait"), (forward_module, "NewToken")]
)
def test_the_users_interrupt_crosses_a_step_and_no_output_is_wrong(
    service: CompileService, monkeypatch: pytest.MonkeyPatch, owner: object, name: str
) -> None:
    """Who was in that step has ended; who waited goes on as if nothing had been."""
    expected = ends(list(run(Engine(ScriptedRunner(), service), [_free("waits")])))
    engine = Engine(ScriptedRunner(max_rows=1), service)
    for id in ("runs", "waits"):
        engine.add(_free(id)).unwrap()
    engine.step()
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, thrower(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            engine.step()
    outcomes = ends(list(run(engine, [])))
    failed = outcomes.pop("runs")
    assert isinstance(failed, Failed)
    assert outcomes == expected


class CannotSay(TrieMatcher):
    """Cannot say whether its text is complete."""

    @property
    def is_accepting(self) -> bool:
        if self.text:
            raise RuntimeError("lost")
        return False


def test_a_matcher_that_cannot_say_whether_it_is_complete_has_failed() -> None:
    infos = discover(plugins={"bad": TriePlugin(trie_info("bad", CannotSay))}, entry_points=[])
    engine = Engine(ScriptedRunner(), CompileService(infos, BYTES))
    request = Request(id="a", prompt=(1,), spec=Choice(("yes",)), sampling=GREEDY)
    failed = ends(list(run(engine, [request])))["a"]
    assert isinstance(failed, Failed)
    assert (failed.error.kind, failed.error.backend) == (ErrorKind.BACKEND_FAILURE, "bad")


def test_parameters_that_cannot_join_take_no_slot() -> None:
    batch = SamplingBatch()
    nonsense: Any = Foreign()
    for _ in range(20):
        with pytest.raises(AttributeError):
            batch.join(nonsense)
    assert batch.join(GREEDY) == 0


def test_a_failing_prefill_ends_its_request_alone(service: CompileService) -> None:
    runner = ScriptedRunner()
    runner.fail_on = 287
    engine = Engine(runner, service)
    requests = [
        Request(id="bad", prompt=(1, 287), max_tokens=3, sampling=GREEDY),
        Request(id="good", prompt=(1, 2), max_tokens=3, sampling=GREEDY),
    ]
    outcomes = ends(list(run(engine, requests)))
    bad = outcomes["bad"]
    assert isinstance(bad, Failed)
    assert bad.error.kind is ErrorKind.ENGINE_FAILURE
    assert isinstance(outcomes["good"], Finished)


def test_the_stop_token_alone_is_no_answer(service: CompileService) -> None:
    """EOS first: an error for free text, a success for a grammar that has the empty text."""

    class EndsAtOnce(ScriptedRunner):
        def logits_of(self, tokens: object) -> "torch.Tensor":
            logits = torch.zeros(self.logit_width)
            logits[EOS] = 1.0
            return logits

    requests = [
        Request(id="free", prompt=(1,), sampling=GREEDY),
        Request(id="empty", prompt=(1,), spec=Choice(("", "a")), sampling=GREEDY),
    ]
    outcomes = ends(list(run(Engine(EndsAtOnce(), service), requests)))
    free, empty = outcomes["free"], outcomes["empty"]
    assert isinstance(free, Failed)
    assert free.error.kind is ErrorKind.UNUSABLE_RESPONSE
    assert isinstance(empty, Finished)
    assert empty.text == ""
    assert empty.reason is FinishReason.STOP


def test_a_request_names_its_own_stop_tokens(engine: Engine) -> None:
    stop = ord("!")
    request = Request(id="a", prompt=(1,), spec=Choice(("ab",)), stop_token_ids=(stop,), sampling=GREEDY)
    finished = ends(list(run(engine, [request])))["a"]
    assert isinstance(finished, Finished)
    assert (finished.text, finished.stop_token_id) == ("ab", stop)


def test_a_grammar_may_start_later(engine: Engine) -> None:
    later = Request(
        id="offset", prompt=(1,), spec=Choice(("ab",)), activation=AtOffset(3), stop_token_ids=(EOS,), sampling=GREEDY
    )
    finished = ends(list(run(engine, [later])))["offset"]
    assert isinstance(finished, Finished)
    assert BYTES.decode(finished.token_ids[3:]) == b"ab"


def test_a_text_that_ends_before_its_grammar_began_is_no_success(engine: Engine) -> None:
    every_token_stops = tuple(range(BYTES.padded_size))
    request = Request(
        id="a", prompt=(1,), spec=Choice(("ab",)), activation=AfterTokens((5, 6, 7)), stop_token_ids=every_token_stops
    )
    failed = ends(list(run(engine, [request])))["a"]
    assert isinstance(failed, Failed)
    assert failed.error.kind is ErrorKind.UNUSABLE_RESPONSE


def test_logprobs_are_reported_for_each_token(engine: Engine) -> None:
    sampling = SamplingParams(temperature=0.0, logprobs=2)
    events = list(run(engine, [Request(id="a", prompt=(1,), max_tokens=4, sampling=sampling)]))
    logprobs = [each for event in events if isinstance(event.outcome, Delta) for each in event.outcome.logprobs]
    assert len(logprobs) == 4
    for each in logprobs:
        token, logprob = each.top[0]
        assert token == each.token_id
        assert logprob == pytest.approx(each.logprob)
        assert len(each.top) == 2


@attrs.define(eq=False)
class LateMatcher(TrieMatcher):
    """Misses its budget in two of three fills, or in all."""

    always: ClassVar[bool] = False
    fills: int = 0

    def fill(self, row: BitmaskRow) -> Status:
        self.fills += 1
        if self.always or self.fills % 3:
            row.fill(0)
            return Status.LATE
        return TrieMatcher.fill(self, row)


class NeverReady(LateMatcher):
    always = True


@pytest.mark.parametrize("prompt_length", [1, 30])
def test_a_late_row_leaves_its_step_and_changes_no_output(prompt_length: int) -> None:
    infos = [trie_info("late", LateMatcher), trie_info("never", NeverReady), trie_info()]
    service = CompileService(discover(plugins={"test": TriePlugin(*infos)}, entry_points=[], disable=[]), BYTES)
    requests = [
        Request(
            id=backend,
            prompt=tuple(range(1, prompt_length + 1)),
            spec=Choice(("yes", "maybe", "abcd")),
            backend=backend,
            sampling=SamplingParams(seed=1),
        )
        for backend in ("late", "trie", "never")
    ]
    engine = Engine(ScriptedRunner(), service, step_tokens=16, max_misses=2)
    outcomes = ends(list(run(engine, requests)))
    never = outcomes.pop("never")
    assert isinstance(never, Failed)
    assert (never.error.kind, never.error.consequence.http_status) == (ErrorKind.TIMED_OUT, 400)
    assert isinstance(outcomes["trie"], Finished)
    assert outcomes["late"] == outcomes["trie"], "it was late more than twice, but never more than twice in a row"
    assert "3 times in a row" in never.error.message


def test_what_waits_for_grammars_can_be_watched(engine: Engine) -> None:
    assert len(engine.blocked) == 0
    service = CompileService(discover(plugins={"trie": TriePlugin()}, entry_points=[]), BYTES, threads=0)
    waiting = Engine(ScriptedRunner(), service)
    waiting.add(Request(id="a", prompt=prompt("x"), spec=Choice(("yes",))))
    waiting.step()
    assert len(waiting.blocked) == 1
    service.close()
    list(run(waiting, []))
    assert len(waiting.blocked) == 0


@attrs.frozen
class FailsOn:
    """A model that fails on the prompts of one request."""

    inner: ScriptedRunner
    fails_on: tuple[int, ...]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def prefill(self, row: int, tokens: Any, start: int) -> torch.Tensor:
        if tuple(tokens) == self.fails_on:
            raise MemoryError
        return self.inner.prefill(row, tokens, start)


def test_what_is_logged_of_a_request_has_its_id(service: CompileService, caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine(FailsOn(ScriptedRunner(), prompt("bad")), service)
    ends(list(run(engine, [Request(id="r-7", prompt=prompt("bad")), _free("good")])))
    assert [record.__dict__.get("request_id") for record in caplog.records] == ["r-7"]


STATES: tuple[State, ...] = (
    Blocked(),
    Waiting(),
    Prefilling(1),
    Decoding(),
    Ended(Aborted()),
)
LEGAL = {
    ("Blocked", "Waiting"), ("Blocked", "Ended"),
    ("Waiting", "Prefilling"), ("Waiting", "Ended"),
    ("Prefilling", "Prefilling"), ("Prefilling", "Decoding"), ("Prefilling", "Waiting"), ("Prefilling", "Ended"),
    ("Decoding", "Waiting"), ("Decoding", "Ended"),
}  # fmt: skip


@pytest.mark.parametrize("to", STATES, ids=lambda state: type(state).__name__)
@pytest.mark.parametrize("state", STATES, ids=lambda state: type(state).__name__)
def test_mistake_two_fields_for_three_states(state: State, to: State) -> None:
    """Where a request stands is one value, moved by one function that knows every legal move; the end has none."""
    if (type(state).__name__, type(to).__name__) in LEGAL:
        assert moved(state, to) is to
    else:
        with pytest.raises(ValueError, match="cannot move"):
            moved(state, to)


@attrs.frozen
class HeldService:
    """A compile service for one grammar, which is ready when the test says so."""

    vocabulary = BYTES
    pending: Pending[Grammar] = attrs.field(factory=Pending)

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        return self.pending


WAKERS: dict[str, Callable[[Engine, Pending[Grammar]], object]] = {
    "wake": lambda engine, pending: engine.wake(),
    "a request": lambda engine, pending: engine.add(Request(id="b", prompt=(1,))),
    "an abort": lambda engine, pending: engine.abort("a"),
    "a grammar": lambda engine, pending: pending.settle(Err(GrammarError(kind=ErrorKind.UNSUPPORTED, message="no"))),
}


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("waker", WAKERS)
def test_whoever_waits_without_a_time_out_misses_nothing(waker: str, is_first: bool) -> None:
    """Neither what happens meanwhile nor what has happened just before."""
    service = HeldService()
    engine = Engine(ScriptedRunner(), service)
    engine.add(Request(id="a", prompt=(1,), spec=Choice(("x",)))).unwrap()
    engine.step()
    assert not engine.wait_for_work(0), "it is blocked; and it was told of the request"
    has_work: list[bool] = []
    waiting = threading.Thread(target=lambda: has_work.append(engine.wait_for_work()), daemon=True)
    if is_first:
        WAKERS[waker](engine, service.pending)
    waiting.start()
    if not is_first:
        WAKERS[waker](engine, service.pending)
    waiting.join(60)
    assert has_work == [waker != "wake"]
    engine.close()


def test_mistake_an_error_output_before_the_state_changed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure is told only once the state says so: if the change itself is interrupted, nothing was told by it, and
    the request still ends, once."""
    engine.add(Request(id="a", prompt=(1,), spec=Choice(("refuse",)))).unwrap()
    original, interrupted = Sequence.move, [True]

    def move(self: Sequence, to: State) -> None:
        if isinstance(to, Ended) and interrupted:
            interrupted.pop()
            raise RuntimeError("between two lines")
        original(self, to)

    monkeypatch.setattr(Sequence, "move", move)
    told: list[Event] = []
    for _ in range(20):
        engine.wait_for_work(1.0)
        told += engine.step().events
        if not engine.unfinished:
            break
    assert not interrupted, "the change of state was interrupted"
    assert list(ends(told)) == ["a"]
    assert engine.unfinished == 0
