"""A real vLLM whose masks come from structout's constraints. A script: run it with vLLM's Python.

``python vllm_trial.py MODEL_FOLDER < SCHEMAS``, a JSON list of schemas, generates for each and prints, as the last line
of its output, one JSON object, a `Report`. vLLM proposes draft tokens that it finds in the prompt, so that the
constraints are driven through its draft and rollback calls too.

It tries the seam, not the product: one backend, JSON Schema only, and vLLM's own threads compile.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, TypedDict

# Read by vLLM when it is imported: engine and scheduler in this process, so that what they did can be looked at.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

import numpy as np
import torch
from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

from structout import JsonSchema, Status
from structout.constraint import Constraint
from structout.discovery import discover
from structout.grammar import BoundBackend
from structout.vocabularies import from_huggingface


class Output(TypedDict):
    """What reached the caller of one request."""

    text: str
    tokens: int
    finish_reason: str
    stop_reason: int | str | None


class Report(TypedDict):
    """What the script prints: the outputs in the order of the schemas, and what vLLM called on the constraints: rows
    that it had filled, tokens that it had checked as drafts, and tokens that it took back after such trials."""

    outputs: list[Output]
    calls: dict[str, int]


class ConstraintGrammar(StructuredOutputGrammar):  # type: ignore[misc]  # vLLM is not in the environment of mypy
    """A constraint as vLLM drives it."""

    def __init__(self, start: Callable[[], Constraint], calls: Counter[str]) -> None:
        self.start = start
        self.constraint = start()
        self.calls = calls

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        # The status has no way out here. A row that is not OK is all ones, and what is sampled from it is refused.
        self.constraint.fill(bitmask[batch_index].numpy())
        self.calls["filled"] += 1

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        # What comes after the end is no error here: with ignore_eos vLLM generates on.
        going = (Status.OK, Status.FREE, Status.TERMINATED)
        return all(self.constraint.accept(token) in going for token in tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        valid = 0
        while valid < len(tokens) and self.constraint.accept(tokens[valid]) is Status.OK:
            valid += 1
        self.calls["drafts"] += len(tokens)
        self.rollback(valid)
        return tokens[:valid]

    def rollback(self, num_tokens: int) -> None:
        self.constraint.rollback(num_tokens)
        self.calls["rolled_back"] += num_tokens

    def is_terminated(self) -> bool:
        return self.constraint.is_terminated

    def reset(self) -> None:
        self.constraint = self.start()


class ConstraintBackend(StructuredOutputBackend):  # type: ignore[misc]  # vLLM is not in the environment of mypy
    """structout's xgrammar backend as vLLM's only one."""

    def __init__(self, vllm_config: Any, tokenizer: Any) -> None:
        vocab_size = vllm_config.model_config.get_vocab_size()
        super().__init__(vllm_config, tokenizer, vocab_size)
        registered = discover().find("xgrammar").unwrap()
        vocabulary = from_huggingface(tokenizer, padded_size=vocab_size)
        self.bound = BoundBackend.create(registered.info, registered.distribution, vocabulary).unwrap()
        self.calls: Counter[str] = Counter()

    def compile_grammar(
        self, request_type: StructuredOutputOptions, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> ConstraintGrammar:
        assert request_type is StructuredOutputOptions.JSON
        # An error has no way out of here but an exception, which vLLM keeps in the request's future.
        grammar = self.bound.compile(JsonSchema(grammar_spec)).unwrap()
        stops = sorted(stop_token_ids) if stop_token_ids else None
        drafts = self.vllm_config.num_speculative_tokens
        return ConstraintGrammar(lambda: grammar.start(stop_token_ids=stops, max_rollback=drafts).unwrap(), self.calls)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        return torch.from_numpy(np.full((max_num_seqs, self.bound.vocabulary.bitmask_width), -1, np.int32))

    def destroy(self) -> None:
        """Nothing outlives the object."""


class TrialScheduler(Scheduler):  # type: ignore[misc]  # vLLM is not in the environment of mypy
    """vLLM's scheduler with the backend put in before the first request would choose one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        manager = self.structured_output_manager
        self.backend = ConstraintBackend(manager.vllm_config, manager.tokenizer)
        manager.backend = self.backend


def generate(model: str, schemas: list[Any]) -> Report:
    """One request for each schema, all in one batch, greedy."""
    llm = LLM(
        model,
        scheduler_cls=TrialScheduler,
        enforce_eager=True,
        dtype="float32",
        max_model_len=256,
        max_num_seqs=4,
        speculative_config={"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_min": 1},
        disable_log_stats=True,
    )
    params = [
        SamplingParams(temperature=0, max_tokens=64, structured_outputs=StructuredOutputsParams(json=schema))
        for schema in schemas
    ]
    conversation = [{"role": "user", "content": 'Name a city as JSON, such as {"city": "Rome", "country": "Italy"}.'}]
    outputs = [result.outputs[0] for result in llm.chat([conversation] * len(params), params, use_tqdm=False)]
    calls = llm.llm_engine.engine_core.engine_core.scheduler.backend.calls
    return Report(
        outputs=[
            Output(
                text=output.text,
                tokens=len(output.token_ids),
                finish_reason=output.finish_reason,
                stop_reason=output.stop_reason,
            )
            for output in outputs
        ],
        calls=dict(calls),
    )


if __name__ == "__main__":
    print(json.dumps(generate(sys.argv[1], json.load(sys.stdin))))
