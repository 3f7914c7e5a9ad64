"""``structout bench e2e``: the embedded engine with xgrammar, beside transformers' ``generate`` with xgrammar's own
``LogitsProcessor``. The model, prompts, schemas and sampling settings are the same; on the CPU, one thread.

It is done twice: with any white space and every token sampled; and with fixed separators, where the engine appends
what the grammar forces. Each side has its texts from one call, as its users write it; tokens count up to the texts'
ends. Masking and sampling are a part of that: of the engine's steps what is neither the model nor the books, bitmasks
filled on other threads included; of ``generate`` what lies between the beginning of xgrammar's processor and the chosen
tokens.
"""

import gc
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from structout.cli.bench import machine, recording, report, timing
from structout.cli.bench.report import BenchError
from structout.cli.bench.timing import Figure
from structout.spec import JsonSchema, Serialization, Whitespace
from structout.vocabulary import VocabularyError

if TYPE_CHECKING:
    from engine_adapter.embedded.local import Local

TEMPERATURE: Final = 0.8
BATCHES: Final = (1, 8, 32)
BACKEND: Final = "xgrammar"
MEASURES: Final = ("clock", "process time", "masking and sampling")
UNIT: Final = "microseconds a token"
PROMPTS: Final = (
    "Describe the people of group {} as JSON.",
    "File tickets about the empty pages of site {} as JSON.",
    "List the products of the shops in town {} as JSON.",
)
"""What asks for documents of each of `recording.DOCUMENTS`."""
_MIN_ITEMS: Final = 20
"""More documents than fit into a text: all texts have the same number of tokens, and nobody waits for the longest."""
_MAX_LEN: Final = 1024


@attrs.frozen
class Extent:
    """How much is measured.

    Attributes:
        max_tokens: of each text.
        seconds: for all batches, or as long as ``min_rounds`` at each of them take.
    """

    max_tokens: int
    seconds: float
    min_rounds: int
    batches: tuple[int, ...] = BATCHES


QUICK: Final = Extent(max_tokens=16, seconds=6.0, min_rounds=2)
FULL: Final = Extent(max_tokens=64, seconds=300.0, min_rounds=3)


@attrs.frozen
class Task:
    """One text to generate: the token ids of its prompt, and the schema that it has to satisfy."""

    prompt: tuple[int, ...]
    schema: str


@attrs.frozen
class Setting:
    """What is generated.

    Attributes:
        name: what it is called.
        whitespace: of the texts, on both sides.
        forces: whether the engine appends forced tokens without sampling them.
        temperature: 0 is greedy.
    """

    name: str
    whitespace: Whitespace
    forces: bool
    temperature: float = TEMPERATURE


SETTINGS: Final = (
    Setting("every token sampled", Whitespace.ANY, forces=False),
    Setting("fixed separators, forced tokens", Whitespace.SPACED, forces=True),
)


@attrs.frozen
class Spent:
    """What a side took to generate the texts of a round.

    Attributes:
        tokens: that it generated up to each text's end, the stop token included.
        clock_ns: by the clock.
        process_ns: process time.
        masks_ns: process time of filling bitmasks, applying them, sampling and accepting.
    """

    tokens: int
    clock_ns: int
    process_ns: int
    masks_ns: int

    def per_token(self) -> tuple[float, ...]:
        """Nanoseconds a token, for each of `MEASURES`."""
        return tuple(ns / self.tokens for ns in (self.clock_ns, self.process_ns, self.masks_ns))


Texts: TypeAlias = list[tuple[int, ...]]
"""The tokens of each task's text, with the stop token if it has ended."""

Generate: TypeAlias = Callable[[Sequence[Task], int, int], tuple[Texts, int]]
"""Generates for each task, with a most number of tokens and a seed. Returns the texts, and `Spent.masks_ns`."""


class Watch:
    """Adds up the time between `start` and `stop`, in nanoseconds of its clock."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.ns = 0
        self._clock = clock

    def start(self) -> None:
        self.ns -= self._clock()

    def stop(self) -> None:
        self.ns += self._clock()

    def over(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function, timed."""

        clock = self._clock

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = clock()  # here, and not by `start`: each call is a part of what is timed around this
            try:
                return call(*args, **kwargs)
            finally:
                self.ns += clock() - began

        return timed

    def up_to(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function, at whose end the time stops that was started before it."""

        def last(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            finally:
                self.stop()

        return last


@contextmanager
def _replaced(owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Iterator[None]:
    """A function of a module or class is wrapped, in the block."""
    original = getattr(owner, name)
    setattr(owner, name, wrap(original))
    try:
        yield
    finally:
        setattr(owner, name, original)


def _nothing(_forced: Callable[..., Any]) -> Callable[..., Any]:
    """In place of what would be forced."""
    return lambda *_: ()


def embedded(local: "Local", setting: Setting) -> Generate:
    """The embedded engine."""
    from engine_adapter.embedded.engine import run as run_requests
    from engine_adapter.embedded.forcing import Forcing
    from engine_adapter.embedded.forward import Forward
    from engine_adapter.embedded.request import Request
    from engine_adapter.outcome import Failed, Finished
    from engine_adapter.sampling import SamplingParams
    from structout.constraint import Constraint

    runner = type(local.loaded.runner)
    serialization = Serialization(whitespace=setting.whitespace)

    def generate(tasks: Sequence[Task], max_tokens: int, seed: int) -> tuple[Texts, int]:
        requests = [
            Request(
                id=f"{seed}-{row}",
                prompt=task.prompt,
                max_tokens=max_tokens,
                sampling=SamplingParams(temperature=setting.temperature, seed=seed * len(tasks) + row),
                spec=JsonSchema(task.schema, serialization=serialization),
                backend=BACKEND,
            )
            for row, task in enumerate(tasks)
        ]
        # What other threads do beside the model belongs to the step. The rest is this thread's own.
        step, accepted, model = Watch(time.process_time_ns), Watch(time.thread_time_ns), Watch(time.thread_time_ns)
        texts: dict[str, tuple[int, ...]] = {}
        with (
            _replaced(Forward, "compute", step.over),
            _replaced(Constraint, "accept", accepted.over),
            _replaced(Forcing, "tokens", accepted.over if setting.forces else _nothing),
            _replaced(runner, "prefill", model.over),
            _replaced(runner, "decode", model.over),
        ):
            for event in run_requests(local.engine, requests):
                match event.outcome:
                    case Finished(token_ids=tokens, stop_token_id=stop):
                        texts[event.request_id] = tokens if stop is None else (*tokens, stop)
                    case Failed(error):
                        raise BenchError(f"structout fails: {error}", error.hint or "report it: that is a fault")
        return [texts[request.id] for request in requests], step.ns - model.ns + accepted.ns

    return generate


def transformers_generate(local: "Local", setting: Setting) -> Generate:
    """``generate`` as its documentation has it, with the processor of xgrammar's documentation; on weights of its own,
    so that nothing of the engine's is in its model."""
    import torch
    import xgrammar
    from transformers import AutoModelForCausalLM
    from xgrammar.contrib.hf import LogitsProcessor

    from engine_adapter.embedded.pretrained import PACKAGED, packaged_folder

    loaded, eos = local.loaded, local.loaded.eos_token_ids
    source = packaged_folder() if loaded.name == PACKAGED else loaded.name
    with _no_progress_bars():
        network = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    info = xgrammar.TokenizerInfo.from_huggingface(
        loaded.tokenizer, vocab_size=loaded.runner.logit_width, stop_token_ids=list(eos)
    )
    compiler = xgrammar.GrammarCompiler(info)
    # Top-k is on by default.
    temperature = setting.temperature
    settings = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}
    any_whitespace = setting.whitespace is Whitespace.ANY

    def generate(tasks: Sequence[Task], max_tokens: int, seed: int) -> tuple[Texts, int]:
        watch = Watch(time.process_time_ns)

        class Processor(LogitsProcessor):
            def __call__(self, input_ids: Any, scores: Any) -> Any:
                watch.start()
                return super().__call__(input_ids, scores)

        width = max(len(task.prompt) for task in tasks)
        padding = [width - len(task.prompt) for task in tasks]
        inputs = {
            "input_ids": [[eos[0]] * left + list(task.prompt) for left, task in zip(padding, tasks, strict=True)],
            "attention_mask": [[0] * left + [1] * (width - left) for left in padding],
        }
        grammars = [  # kept by the compiler
            compiler.compile_json_schema(task.schema, any_whitespace=any_whitespace) for task in tasks
        ]
        torch.manual_seed(seed)
        with _replaced(torch, "multinomial" if temperature else "argmax", watch.up_to):
            found = network.generate(
                **{name: torch.tensor(rows) for name, rows in inputs.items()},
                **settings,
                max_new_tokens=max_tokens,
                eos_token_id=list(eos),
                pad_token_id=eos[0],
                logits_processor=[Processor(grammars)],
            )
        return [up_to_end(row, eos) for row in found[:, width:].tolist()], watch.ns

    return generate


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers gives them no types
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def up_to_end(row: Sequence[int], eos: Sequence[int]) -> tuple[int, ...]:
    """A row without what pads it behind its first stop token."""
    end = next((count for count, token in enumerate(row, start=1) if token in eos), len(row))
    return tuple(row[:end])


SIDES: Final[Mapping[str, Callable[["Local", Setting], Generate]]] = MappingProxyType(
    {timing.OWN: embedded, "transformers + xgrammar": transformers_generate}
)
"""Who generates, by name; structout is compared with each of the others."""


def run(model: str, temperature: float, options: report.Options) -> int:
    """Prints the figures. Returns the exit code."""
    try:
        report.check_plot(options.plot)
        with opened(model) as local:
            figures = measure(local, QUICK if options.quick else FULL, temperature=temperature)
    except BenchError as exc:
        return report.failed(exc, options)
    report.show("e2e", machine.describe("1 thread used"), figures, options, unit=UNIT)
    return 0


@contextmanager
def opened(model: str) -> Iterator["Local"]:
    """The model in the engine; torch has one thread in the block. Raises BenchError where it cannot be loaded."""
    try:
        import transformers  # noqa: F401
        import xgrammar  # noqa: F401

        from engine_adapter.embedded.local import open_local
        from engine_adapter.embedded.pretrained import ModelLoadError
    except ModuleNotFoundError as exc:
        raise BenchError(f"not installed: {exc.name}", "pip install 'structout[embedded,xgrammar]'") from exc
    with timing.one_thread():
        try:
            local = open_local(model, max_rows=max(BATCHES), max_len=_MAX_LEN)
        except ModelLoadError as exc:
            raise BenchError(exc.message, exc.hint) from exc
        except VocabularyError as exc:
            raise BenchError(str(exc), "take a model with a fast tokenizer") from exc
        try:
            yield local
        finally:
            local.close()


def measure(local: "Local", extent: Extent, *, temperature: float) -> list[Figure]:
    """Compares the sides in each setting, at each batch."""
    settings = [attrs.evolve(setting, temperature=temperature) for setting in SETTINGS]
    part = attrs.evolve(extent, seconds=extent.seconds / len(settings))
    return [figure for setting in settings for figure in _measure(local, part, setting)]


def _measure(local: "Local", extent: Extent, setting: Setting) -> list[Figure]:
    sides = {name: side(local, setting) for name, side in SIDES.items()}
    tasks = [task(local, row) for row in range(max(extent.batches))]
    for side in sides.values():  # compiles the grammars, and warms up
        side(tasks[: len(PROMPTS)], 2, 0)
    figures: list[Figure] = []
    for batch in extent.batches:
        turns = {
            name: partial(_turn, side, tasks[:batch], extent.max_tokens, itertools.count())
            for name, side in sides.items()
        }
        rounds = timing.in_turn(turns, extent.seconds / len(extent.batches), min_rounds=extent.min_rounds)
        for index, measure in enumerate(MEASURES):
            case = {"batch": batch, "temperature": setting.temperature, "tokens": setting.name, "measure": measure}
            times = {name: [each.per_token()[index] for each in spent] for name, spent in rounds.items()}
            figures += timing.figures(case, times, unit=1e-3)
    return figures


def task(local: "Local", row: int) -> Task:
    which = row % len(PROMPTS)
    document, _ = recording.DOCUMENTS[which]
    schema = {"type": "array", "items": document, "minItems": _MIN_ITEMS}
    return Task(local.encode_turn(PROMPTS[which].format(row)), json.dumps(schema))


def _turn(generate: Generate, tasks: Sequence[Task], max_tokens: int, seeds: Iterator[int]) -> Spent:
    gc.collect()
    clock, process = time.perf_counter_ns(), time.process_time_ns()
    texts, masks_ns = generate(tasks, max_tokens, next(seeds))
    return Spent(sum(map(len, texts)), time.perf_counter_ns() - clock, time.process_time_ns() - process, masks_ns)
