"""An engine for `benchmarks.vllm_cost`. Run with vLLM's Python: ``python -m benchmarks.vllm_engine KIND MODEL_FOLDER``.

KIND is ``stock`` or ``structout``. For each line of its input, a `Round` as JSON, it prints a line that begins with a
tab, a `Spent` as JSON.
"""

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypedDict

# Read by vLLM when it is imported: engine and scheduler in this process, where their time can be taken.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
# Two engines run at once, and by itself each takes for its cache whatever memory it finds free: the system ends one.
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.worker import gpu_model_runner

TOKENS: Final = 64
SCHEMA: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    },
    "minItems": 30,
}
"""Longer than any answer may get, so that every answer has the same number of tokens."""


class Round(TypedDict):
    batch: int
    seed: int


class Spent(TypedDict):
    """Of one round: the tokens of all answers, seconds of the clock, and seconds of the processor that filling rows,
    applying them and accepting tokens took."""

    tokens: int
    wall_s: float
    masks_s: float


class Stopwatch:
    """Adds up what calls take of the processor."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*args: Any, **kwargs: Any) -> Any:
            since = time.process_time()
            try:
                return call(*args, **kwargs)
            finally:
                self.seconds += time.process_time() - since

        return timed


def main() -> None:
    kind, folder = sys.argv[1:]
    all_options: dict[str, dict[str, Any]] = {
        "stock": {"structured_outputs_config": {"backend": "xgrammar"}},
        "structout": {
            "scheduler_cls": "engine_adapter.vllm.Scheduler",
            "additional_config": {"structout": {"backend": "xgrammar"}},
        },
    }
    options = all_options[kind]
    llm = LLM(
        folder,
        enforce_eager=True,
        dtype="bfloat16",
        max_model_len=512,
        max_num_seqs=32,
        disable_log_stats=True,
        **options,
    )
    stopwatch = Stopwatch()
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    scheduler.get_grammar_bitmask = stopwatch.on(scheduler.get_grammar_bitmask)
    manager = scheduler.structured_output_manager
    manager.accept_tokens = stopwatch.on(manager.accept_tokens)
    gpu_model_runner.apply_grammar_bitmask = stopwatch.on(gpu_model_runner.apply_grammar_bitmask)
    for line in sys.stdin:
        print("\t" + json.dumps(run(llm, json.loads(line), stopwatch)), flush=True)


def run(llm: Any, asked: Round, stopwatch: Stopwatch) -> Spent:
    conversations = [
        [{"role": "user", "content": f"List {asked['seed'] + number} people as JSON."}]
        for number in range(asked["batch"])
    ]
    params = SamplingParams(
        temperature=0, max_tokens=TOKENS, structured_outputs=StructuredOutputsParams(json=json.dumps(SCHEMA))
    )
    stopwatch.seconds, since = 0.0, time.perf_counter()
    results = llm.chat(conversations, params, use_tqdm=False)
    wall_s = time.perf_counter() - since
    tokens = sum(len(result.outputs[0].token_ids) for result in results)
    assert tokens == TOKENS * asked["batch"], [result.outputs[0] for result in results]
    return Spent(tokens=tokens, wall_s=wall_s, masks_s=stopwatch.seconds)


if __name__ == "__main__":
    main()
