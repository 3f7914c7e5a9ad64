"""vLLM in this process, with structout's scheduler. A script: run it with vLLM's Python.

``python vllm_in_process.py MODEL_FOLDER < JOB``: a `Job` as JSON. The last line that it prints is a `Report` as JSON.
"""

import json
import os
import sys
from typing import Any, TypedDict

# Read by vLLM when it is imported: engine and scheduler in this process, so that what they did can be looked at.
os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")

from vllm import LLM, SamplingParams
from vllm.platforms.cpu import CpuPlatform
from vllm.sampling_params import StructuredOutputsParams

from engine_adapter.vllm import causes


class Asked(TypedDict, total=False):
    """One request: ``structured_outputs`` and ``params`` as vLLM has them."""

    prompt: str
    structured_outputs: dict[str, Any]
    params: dict[str, Any]


class Job(TypedDict):
    """``options`` of the engine, and batches of requests, one after the other; whether to schedule asynchronously."""

    options: dict[str, Any]
    batches: list[list[Asked]]
    asynchronous: bool


class Completion(TypedDict):
    """``cause``: what stopped it as an error, as JSON."""

    text: str
    tokens: int
    finish_reason: str | None
    cause: dict[str, Any] | None


class Report(TypedDict):
    """For each batch the completions of each request, or what was raised instead; the scheduler's classes; and how many
    requests are unfinished, or held, at the end."""

    batches: list[list[list[Completion]] | str]
    scheduler: list[str]
    left: int


def completion(output: Any) -> Completion:
    cause = causes.cause(output.stop_reason)
    return Completion(
        text=output.text,
        tokens=len(output.token_ids),
        finish_reason=output.finish_reason,
        cause=cause.to_json() if cause else None,
    )


def params_of(asked: Asked) -> SamplingParams:
    constraint = asked.get("structured_outputs")
    return SamplingParams(
        **{"temperature": 0, "max_tokens": 64, **asked.get("params", {})},
        structured_outputs=StructuredOutputsParams(**constraint) if constraint else None,
    )


def run(llm: Any, batch: list[Asked]) -> list[list[Completion]] | str:
    conversations = [[{"role": "user", "content": asked["prompt"]}] for asked in batch]
    try:
        results = llm.chat(conversations, [params_of(asked) for asked in batch], use_tqdm=False)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    return [[completion(output) for output in result.outputs] for result in results]


def schedule_asynchronously() -> None:
    """vLLM does not on a CPU: its platform switches that off in each configuration. Here it is switched on again."""
    check = CpuPlatform.check_and_update_config.__func__

    def checked(platform: Any, config: Any) -> None:
        check(platform, config)
        config.scheduler_config.async_scheduling = True

    CpuPlatform.check_and_update_config = classmethod(checked)


def main() -> None:
    job: Job = json.load(sys.stdin)
    if job["asynchronous"]:
        schedule_asynchronously()
    options = {"enforce_eager": True, "dtype": "float32", "max_model_len": 512, "max_num_seqs": 8, **job["options"]}
    llm = LLM(sys.argv[1], scheduler_cls="engine_adapter.vllm.Scheduler", disable_log_stats=True, **options)
    batches = [run(llm, batch) for batch in job["batches"]]
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    classes = [each.__name__ for each in type(scheduler).__mro__]
    print(json.dumps(Report(batches=batches, scheduler=classes, left=scheduler.get_num_unfinished_requests())))


if __name__ == "__main__":
    main()
