"""The names of vLLM's that are no public interface: which there are, whether this version has them, and what is done
with those that hold objects together.

They move between versions of vLLM. So they are looked up when a process starts, and where one is missing, or takes
other arguments, the process says so and ends, instead of dropping constraints later.
"""

import importlib
import inspect
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import attrs

from structout.compile import Pending


class Unsupported(RuntimeError):
    """structout cannot work inside of this vLLM. The message says what is in the way, and what to do."""


@attrs.frozen
class Name:
    """Something of vLLM's that is relied on.

    Attributes:
        module: where it is.
        path: its name there, with dots for members.
        parameters: what it has to take; None for what is not called, or by a public signature.
    """

    module: str
    path: str
    parameters: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return f"{self.module}.{self.path}"


_SCHEDULER: Final = "vllm.v1.core.sched.scheduler"
_STRUCTURED: Final = "vllm.v1.structured_output"

ENGINE: Final = (
    Name(_SCHEDULER, "Scheduler.add_request", ("request",)),
    Name(_SCHEDULER, "Scheduler.schedule"),
    Name(_SCHEDULER, "Scheduler.update_from_output", ("scheduler_output", "model_runner_output")),
    Name(_SCHEDULER, "Scheduler.finish_requests", ("request_ids", "finished_status")),
    Name(_SCHEDULER, "Scheduler.get_num_unfinished_requests", ()),
    Name(_SCHEDULER, "Scheduler.pause_state"),
    Name("vllm.v1.core.sched.async_scheduler", "AsyncScheduler"),
    Name("vllm.v1.core.sched.interface", "PauseState.UNPAUSED"),
    Name(_STRUCTURED, "StructuredOutputManager.grammar_init", ("request",)),
    Name(_STRUCTURED, "StructuredOutputManager.clear_backend", ()),
    Name(
        _STRUCTURED,
        "StructuredOutputManager.grammar_bitmask",
        ("requests", "structured_output_request_ids", "scheduled_spec_decode_tokens"),
    ),
    Name(f"{_STRUCTURED}.request", "StructuredOutputRequest.grammar"),
    Name("vllm.sampling_params", "SamplingParams.allowed_token_ids"),
    Name("vllm.sampling_params", "SamplingParams.bad_words_token_ids"),
    Name("vllm.v1.request", "RequestStatus.WAITING"),
    Name("vllm.v1.request", "RequestStatus.FINISHED_ERROR"),
    Name("vllm.v1.request", "RequestStatus.FINISHED_ABORTED"),
    Name("vllm.v1.engine", "EngineCoreOutput", ("request_id", "new_token_ids", "finish_reason", "stop_reason")),
    Name("vllm.v1.engine", "EngineCoreOutputs", ("outputs",)),
    Name("vllm.v1.request", "RequestStatus.FINISHED_STOPPED"),
    Name("vllm.v1.engine", "FinishReason.ERROR"),
    Name("vllm.v1.engine", "FinishReason.STOP"),
)
"""What the engine core's process needs."""

FRONT: Final = (
    Name("vllm.v1.engine.async_llm", "AsyncLLM.__init__", ("vllm_config",)),
    Name("vllm.v1.engine.async_llm", "AsyncLLM.add_request", ("request_id", "prompt", "params")),
    Name("vllm.v1.engine.async_llm", "AsyncLLM.generate", ("prompt", "sampling_params", "request_id")),
    Name("vllm.v1.engine.llm_engine", "LLMEngine.__init__", ("vllm_config",)),
    Name("vllm.v1.engine.llm_engine", "LLMEngine.add_request", ("request_id", "prompt", "params")),
    Name(
        "vllm.sampling_params",
        "SamplingParams._validate_structured_outputs",
        ("model_config", "structured_outputs_config", "tokenizer"),
    ),
    Name(f"{_STRUCTURED}.backend_xgrammar", "validate_xgrammar_grammar", ("sampling_params",)),
    Name("vllm.v1.engine.detokenizer", "IncrementalDetokenizer.from_new_request", ("tokenizer", "request")),
    Name("vllm.v1.engine.detokenizer", "BaseIncrementalDetokenizer.update", ("new_token_ids", "stop_terminated")),
    Name("vllm.v1.engine.output_processor", "OutputProcessor.process_outputs", ("engine_core_outputs",)),
    Name("vllm.exceptions", "VLLMValidationError", ("message",)),
    Name("vllm.exceptions", "GracefulHTTPError", ("message", "http_status")),
)
"""What the process with the clients' requests needs."""

WORKER: Final = (
    Name("vllm.v1.worker.worker_base", "WorkerWrapperBase.init_device", ()),
    Name(
        "vllm.v1.worker.gpu_model_runner",
        "apply_grammar_bitmask",
        ("scheduler_output", "grammar_output", "input_batch", "logits"),
    ),
)
"""What the processes with the model need."""

HTTP: Final = (Name("vllm.entrypoints.launchers.app", "init_entrypoints_middleware", ("args", "app")),)
"""What it needs besides, if it is an HTTP server."""

_HINT: Final = "use vLLM 0.32, or a structout that knows this version; without --scheduler-cls vLLM runs as it is"


def find(name: Name) -> Any:
    """The object with that name. Raises `Unsupported` if there is none, or it takes other arguments."""
    try:
        found: Any = importlib.import_module(name.module)
        for part in name.path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as exc:
        raise Unsupported(f"vLLM {_version()} has no {name}: {_HINT}") from exc
    if name.parameters is not None and (missing := set(name.parameters) - set(inspect.signature(found).parameters)):
        raise Unsupported(f"{name} of vLLM {_version()} does not take {sorted(missing)[0]!r}: {_HINT}")
    return found


def check(*names: Name) -> None:
    """Raises `Unsupported` for the first of these that this vLLM does not have."""
    for name in names:
        find(name)


def _version() -> str:
    try:
        return version("vllm")
    except PackageNotFoundError:
        return "of an unknown version"


def replace(name: Name, replacement: Any) -> None:
    """Puts something else in the place of what has a name."""
    *owners, last = name.path.split(".")
    owner: Any = importlib.import_module(name.module)
    for part in owners:
        owner = getattr(owner, part)
    setattr(owner, last, replacement)


def take_over(manager: Any, grammars: Any) -> None:
    """Has a ``StructuredOutputManager`` compile with ``grammars``, and fill rows with what comes of it.

    Raises:
        Unsupported: it has no place for that.
    """
    _check_attributes(manager, "backend", "executor")
    manager.executor.shutdown(wait=False)
    manager.executor = grammars
    manager.backend = grammars


def _check_attributes(held: Any, *attributes: str) -> None:
    for attribute in attributes:
        if not hasattr(held, attribute):
            raise Unsupported(f"vLLM {_version()} has no {attribute} in its {type(held).__name__}: {_HINT}")


def fill_ahead(manager: Any, filled: Callable[[Sequence[Any]], AbstractContextManager[None]]) -> None:
    """Has the rows of a step filled by a ``StructuredOutputManager`` while the grammars that will be asked for one are
    ``filled``, if there are several.

    Raises:
        Unsupported: it has no place for that.
    """
    _check_attributes(manager, "grammar_bitmask", "reasoner_cls")
    by_vllm = manager.grammar_bitmask

    def grammar_bitmask(
        requests: Mapping[str, Any],
        structured_output_request_ids: Sequence[str],
        scheduled_spec_decode_tokens: Mapping[str, Any],
    ) -> Any:
        if len(structured_output_request_ids) < 2:
            return by_vllm(requests, structured_output_request_ids, scheduled_spec_decode_tokens)
        constraints = (requests[each].structured_output_request for each in structured_output_request_ids)
        # Who still reasons is asked for no row, or for one behind the end of that: vLLM finds out, not we.
        grammars = [each.grammar for each in constraints if manager.reasoner_cls is None or each.reasoning_ended]
        with filled(grammars):
            return by_vllm(requests, structured_output_request_ids, scheduled_spec_decode_tokens)

    manager.grammar_bitmask = grammar_bitmask


def stop_looking(detokenizer: Any) -> None:
    """Has one of vLLM's incremental detokenizers look for no stop strings, and hold back what may begin one as ever.

    Raises:
        Unsupported: it looks in another way.
    """
    _check_attributes(detokenizer, "min_tokens", "output_text", "update")
    detokenizer.min_tokens = sys.maxsize  # so many tokens it lets pass before it looks


def detokenizer_of(processor: Any, request_id: str) -> Any:
    """The detokenizer of a request in an ``OutputProcessor``; None if it has gone."""
    state = processor.request_states.get(request_id)
    return None if state is None else state.detokenizer


def end_text(detokenizer: Any, stop: str, *, behind: int, surplus: int) -> None:
    """Has a detokenizer end its text with the next tokens that it is given, and name the stop string as the reason.

    Args:
        behind: how many characters are cut off behind those tokens.
        surplus: how many of the tokens are not taken.
    """

    def update(new_token_ids: Sequence[int], stop_terminated: bool) -> str:
        del stop_terminated  # the last token is not a stop token
        type(detokenizer).update(detokenizer, list(new_token_ids[: len(new_token_ids) - surplus]), False)
        detokenizer.output_text = detokenizer.output_text[: len(detokenizer.output_text) - behind]
        return stop

    detokenizer.update = update


def pending_of(request: Any) -> Pending[Any] | None:
    """What ``grammars.submit`` has returned for a request of vLLM's; None if it has no constraint, or a grammar."""
    constraint = request.structured_output_request
    grammar = None if constraint is None else constraint.grammar
    return grammar if isinstance(grammar, Pending) else None


def give(request: Any, grammar: Any) -> None:
    """Gives a request the grammar that it waited for."""
    request.structured_output_request.grammar = grammar


def move_to_its_turn(queue: Any, request: Any) -> None:
    """Moves the last of a queue of vLLM's before those that came later; a queue by priority keeps its own order."""
    if not isinstance(queue, deque) or not queue or queue[-1] is not request:
        return
    place = len(queue) - 1
    while place and queue[place - 1].arrival_time > request.arrival_time:
        place -= 1
    if place < len(queue) - 1:
        queue.pop()
        queue.insert(place, request)
