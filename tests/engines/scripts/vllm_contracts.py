"""What vLLM asks of structured output, of its own ``StructuredOutputManager`` with structout in it; no model is run.

A script: run it with vLLM's Python. ``python vllm_contracts.py MODEL_FOLDER`` prints, as the last line, what the
contracts came to: a JSON object of names and "kept" or a traceback.
"""

import json
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import attrs
import numpy as np
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from engine_adapter.vllm import names
from engine_adapter.vllm.grammar import started
from engine_adapter.vllm.grammars import Grammars
from engine_adapter.vllm.scheduler import open_grammars, scheduler_class, take_over
from structout.errors import GrammarError

DRAFTS = 3
PATIENCE_S = 120.0
"""A guard against a hang."""
REGEX = "[0-9]{3}"
BACKENDS = ("xgrammar", "llguidance", "outlines")


class Reasoner:
    """Ends where ``</think>``, here the token for "#", is said."""

    def __init__(self, tokenizer: Any) -> None:
        self.end = tokenizer.encode("#", add_special_tokens=False)[0]

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        return self.end in input_ids

    def is_reasoning_end_streaming(self, input_ids: Sequence[int], delta_ids: Sequence[int]) -> bool:
        return self.end in delta_ids


@attrs.define
class Bench:
    """A manager without an engine."""

    manager: Any
    grammars: Grammars
    refused: dict[str, GrammarError]

    def tokens(self, text: str) -> list[int]:
        encoded: list[int] = self.manager.tokenizer.encode(text, add_special_tokens=False)
        assert len(encoded) == len(text), "a token for each character"
        return encoded

    @property
    def end(self) -> int:
        eos: int = self.manager.tokenizer.eos_token_id
        return eos

    def request(self, backend: str, **constraint: Any) -> Any:
        """A request whose grammar is there, as the scheduler gives it."""
        extra = {"structout_backend": backend}
        structured = StructuredOutputsParams(**(constraint or {"regex": REGEX}))
        params = SamplingParams(max_tokens=8, structured_outputs=structured, extra_args=extra)
        params._all_stop_token_ids = {self.end}
        request = Request(f"{backend}", self.tokens("1+1="), params, None)
        self.manager.grammar_init(request)
        pending = names.pending_of(request)
        assert pending is not None
        compiled = pending.wait(PATIENCE_S)
        assert compiled is not None
        grammar = compiled.unwrap()
        drafts = self.manager.vllm_config.num_speculative_tokens
        refused = self.refused.__setitem__
        names.give(request, started(grammar, params, max_drafts=drafts, refused=refused).unwrap())
        return request

    def rows(self, request: Any, drafts: Sequence[int] = ()) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The rows of one request, as the scheduler asks for them."""
        id_ = request.request_id
        bitmask = self.manager.grammar_bitmask({id_: request}, [id_], {id_: list(drafts)} if drafts else {})
        filled: np.ndarray[Any, np.dtype[np.int32]] = bitmask.copy()
        return filled

    def allows(self, row: np.ndarray[Any, np.dtype[np.int32]], token: int) -> bool:
        return bool(row[token // 32] >> (token % 32) & 1)


def everything(row: np.ndarray[Any, np.dtype[np.int32]]) -> bool:
    return bool((row == -1).all())


def drafts_are_validated_without_a_trace(bench: Bench, backend: str) -> None:
    request = bench.request(backend)
    before = bench.rows(request)
    one, two, three, four = bench.tokens("1234")
    (letter,) = bench.tokens("x")
    validate = bench.manager.validate_tokens
    assert validate(request, [one, two, three]) == [one, two, three]
    assert validate(request, [one, letter, two]) == [one]
    assert validate(request, [letter]) == []
    assert validate(request, []) == []
    assert validate(request, [one, two, three, four]) == [one, two, three]
    assert validate(request, [one, -1, -1]) == [one]
    assert (bench.rows(request) == before).all()


def rows_of_drafts_are_those_after_each_of_them(bench: Bench, backend: str) -> None:
    request, walked = bench.request(backend), bench.request(backend)
    drafts = bench.tokens("123")
    rows = bench.rows(request, drafts)
    assert rows.shape == (len(drafts) + 1, -(-bench.manager.vllm_config.model_config.get_vocab_size() // 32))
    assert rows.dtype == np.int32
    for row, token in zip(rows, [*drafts, bench.end], strict=True):
        assert (row == bench.rows(walked)[0]).all()
        assert bench.allows(row, token)
        assert bench.manager.accept_tokens(walked, [token])
    assert (bench.rows(request)[0] == rows[0]).all(), "a trace of the drafts"


def rows_behind_padding_let_everything_through(bench: Bench, backend: str) -> None:
    request = bench.request(backend)
    (one,) = bench.tokens("1")
    rows = bench.rows(request, [one, -1, -1])
    assert not everything(rows[0])
    assert not everything(rows[1])
    assert everything(rows[2])
    assert everything(rows[3])


def after_the_end_everything_goes(bench: Bench, backend: str) -> None:
    request = bench.request(backend)
    assert bench.manager.accept_tokens(request, [*bench.tokens("123"), bench.end])
    assert everything(bench.rows(request)[0])
    assert bench.manager.validate_tokens(request, bench.tokens("1")) == []


def a_wrong_token_is_refused_and_says_why(bench: Bench, backend: str) -> None:
    request = bench.request(backend)
    assert bench.manager.accept_tokens(request, [])
    assert not bench.manager.accept_tokens(request, bench.tokens("x"))
    assert bench.refused[request.request_id].kind == "rejected_token"


def the_end_is_masked_until_it_may_come(bench: Bench, backend: str) -> None:
    request = bench.request(backend)
    assert not bench.allows(bench.rows(request)[0], bench.end)
    assert bench.manager.accept_tokens(request, bench.tokens("123"))
    assert bench.allows(bench.rows(request)[0], bench.end)


def drafts_across_the_end_are_legal(bench: Bench, backend: str) -> None:
    request = bench.request(backend)
    bench.manager.accept_tokens(request, bench.tokens("12"))
    (three,) = bench.tokens("3")
    before = bench.rows(request)
    rows = bench.rows(request, [three, bench.end])
    assert bench.allows(rows[0], three)
    assert bench.allows(rows[1], bench.end)
    assert everything(rows[2])
    assert (bench.rows(request) == before).all()


def nothing_is_constrained_before_reasoning_ends(bench: Bench, backend: str) -> None:
    bench.manager.reasoner_cls = Reasoner
    try:
        request = bench.request(backend)
        thought, (end,) = bench.tokens("x"), bench.tokens("#")
        one, two, three = bench.tokens("123")
        assert everything(bench.rows(request)[0])
        say(request, thought)
        assert bench.manager.accept_tokens(request, thought)
        assert everything(bench.rows(request)[0])
        assert bench.manager.validate_tokens(request, [*thought, end, one, *thought]) == [*thought, end, one]
        rows = bench.rows(request, [end, one])
        assert everything(rows[0])
        assert bench.allows(rows[1], one)
        assert not everything(rows[1])
        say(request, [end, one])
        assert bench.manager.accept_tokens(request, [end, one])
        assert not everything(bench.rows(request)[0])
        say(request, [two, three])
        assert bench.manager.accept_tokens(request, [two, three])
        assert bench.allows(bench.rows(request)[0], bench.end)
    finally:
        bench.manager.reasoner_cls = None


def say(request: Any, tokens: list[int]) -> None:
    request.append_output_token_ids(tokens)


CONTRACTS = (
    drafts_are_validated_without_a_trace,
    rows_of_drafts_are_those_after_each_of_them,
    rows_behind_padding_let_everything_through,
    after_the_end_everything_goes,
    a_wrong_token_is_refused_and_says_why,
    the_end_is_masked_until_it_may_come,
    drafts_across_the_end_are_legal,
    nothing_is_constrained_before_reasoning_ends,
)


def rows_of_many_requests_are_those_of_each(bench: Bench) -> None:
    """More than vLLM fills on one thread, with all backends at the same time."""
    requests = {f"{number}": bench.request(BACKENDS[number % 3], regex=f"{number % 10}[0-9]") for number in range(20)}
    manager = bench.manager
    manager.fill_bitmask_parallel_threshold = 4
    manager.vllm_config.speculative_config, speculative = None, manager.vllm_config.speculative_config
    try:
        rows = manager.grammar_bitmask(requests, list(requests), {}).copy()
        for row, request in zip(rows, requests.values(), strict=True):
            assert (row == bench.rows(request)[0]).all()
    finally:
        manager.vllm_config.speculative_config = speculative


def the_scheduler_is_the_one_that_the_configuration_wants(bench: Bench) -> None:
    scheduling = bench.manager.vllm_config.scheduler_config
    wanted, scheduling.async_scheduling = scheduling.async_scheduling, True
    try:
        assert issubclass(scheduler_class(bench.manager.vllm_config), AsyncScheduler)
        scheduling.async_scheduling = False
        assert not issubclass(scheduler_class(bench.manager.vllm_config), AsyncScheduler)
    finally:
        scheduling.async_scheduling = wanted


WITHOUT_A_BACKEND = (
    rows_of_many_requests_are_those_of_each,
    the_scheduler_is_the_one_that_the_configuration_wants,
)


def kept(contract: Any, *arguments: Any) -> str:
    try:
        contract(*arguments)
    except Exception:
        return traceback.format_exc()
    return "kept"


def main() -> None:
    speculation = {"method": "ngram", "num_speculative_tokens": DRAFTS, "prompt_lookup_min": 1}
    settings = {"structout": {"deadline_s": PATIENCE_S}}
    arguments = EngineArgs(sys.argv[1], max_num_seqs=256, speculative_config=speculation, additional_config=settings)
    config = arguments.create_engine_config()
    manager = StructuredOutputManager(config)
    grammars = open_grammars(config, manager.tokenizer)
    take_over(manager, grammars)
    bench = Bench(manager, grammars, {})
    results = {f"{each.__name__}[{b}]": kept(each, bench, b) for each in CONTRACTS for b in BACKENDS}
    results |= {each.__name__: kept(each, bench) for each in WITHOUT_A_BACKEND}
    manager.clear_backend()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
