"""The load of `benchmarks.hostile`: small requests at a steady rate, hostile ones among them, on one engine.

The engine, its compile service, the sandbox, the backends and the vocabulary are real; the model's logits are scripted.
The engine steps on a thread of its own; requests come from an event loop, in which a ticker runs.
"""

import asyncio
import gc
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs
import numpy as np
import torch

from engine_adapter.embedded.engine import Engine, Event
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Failed, Outcome
from engine_adapter.sampling import SamplingParams
from structout.errors import GrammarError
from structout.processes.usage import resident_bytes
from structout.result import Err
from structout.spec import Choice, GrammarSpec, JsonSchema, Regex

TICK_S: Final = 0.01
SMALL: Final = "small"
_TOKENS: Final = 8
"""Of a hostile request. A small one has one: its grammar and its first mask, and little of the sampler."""
_SCRIPT: Final = 64


class ScriptedModel:
    """Logits that somebody has written down: those of a row depend on its last token and its length.

    Attributes:
        seconds: how long it has computed so far.
    """

    device = torch.device("cpu")

    def __init__(self, logit_width: int, *, max_rows: int, max_len: int) -> None:
        self.logit_width, self.max_rows, self.max_len = logit_width, max_rows, max_len
        self.seconds = 0.0
        self._script = torch.from_numpy(np.random.default_rng(0).standard_normal((_SCRIPT, logit_width), np.float32))
        self._rows = [(0, 0)] * max_rows  # length and last token

    def prefill(self, row: int, tokens: Sequence[int], start: int) -> torch.Tensor:
        self._rows[row] = (start + len(tokens), tokens[-1])
        return self._script[sum(self._rows[row]) % _SCRIPT]

    def decode(self, tokens: Sequence[int]) -> torch.Tensor:
        began = time.perf_counter()
        ends = [(self._rows[row][0] + 1, token) for row, token in enumerate(tokens)]
        self._rows[: len(ends)] = ends
        logits = self._script[[sum(end) % _SCRIPT for end in ends]]
        self.seconds += time.perf_counter() - began
        return logits

    def swap(self, a: int, b: int) -> None:
        self._rows[a], self._rows[b] = self._rows[b], self._rows[a]

    def truncate(self, row: int, length: int) -> None:
        self._rows[row] = (length, self._rows[row][1])

    def length(self, row: int) -> int:
        return self._rows[row][0]


@attrs.define(eq=False)
class Asked:
    """A request and what has become of it.

    Attributes:
        what: the kind of input.
        backend: that it names, if any.
        begun: when it was sent, by `time.monotonic`.
        answered_s: seconds until its first token, or its end if it has none: what its grammar and first mask took.
        end: what it ended in, once it has.
    """

    what: str
    backend: str | None
    begun: float = attrs.field(factory=time.monotonic)
    answered_s: float | None = None
    end: str | None = None

    def hear(self, outcome: Outcome) -> None:
        if self.answered_s is None:
            self.answered_s = time.monotonic() - self.begun
        if isinstance(outcome, Failed):
            self.end = _named(outcome.error)
        elif not isinstance(outcome, Delta):
            self.end = "a grammar"


def _named(error: GrammarError) -> str:
    return f"{error.kind.value} ({error.fault.value})"


@attrs.frozen
class Phase:
    """What was seen while some load ran.

    Attributes:
        asked: its requests.
        longest_stall_s: how much later than asked for the event loop's ticker woke up.
        longest_step_s: the longest step of the engine, less what the model took: mostly its wait for masks.
    """

    asked: Sequence[Asked]
    longest_stall_s: float
    longest_step_s: float


class EngineThread:
    """Steps an engine on a thread of its own until `close`; events are delivered to the event loop.

    Attributes:
        longest_step_s: see `Phase`; to be reset at will.
        error: what ended it, if anything did.
    """

    def __init__(self, engine: Engine, model: ScriptedModel, deliver: Callable[[Sequence[Event]], None]) -> None:
        self._engine, self._model = engine, model
        self._loop = asyncio.get_running_loop()
        self._deliver = deliver
        self._closing = False
        self.longest_step_s = 0.0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._closing:
                if self._engine.wait_for_work(0.1):
                    self._step()
        except BaseException as exc:
            self.error = exc

    def _step(self) -> None:
        began, computed = time.perf_counter(), self._model.seconds
        events = self._engine.step().events
        beside = time.perf_counter() - began - (self._model.seconds - computed)
        self.longest_step_s = max(self.longest_step_s, beside)
        if events:
            self._loop.call_soon_threadsafe(self._deliver, events)

    def close(self) -> None:
        self._closing = True
        self._thread.join()


class Watch(Protocol):
    """Is told of each request as it begins and ends."""

    def __call__(self, asked: Asked) -> None: ...


@attrs.frozen
class Wave:
    """Hostile requests that are sent one after the other, ``every_s`` seconds apart."""

    specs: Sequence[tuple[str, str | None, GrammarSpec]]
    every_s: float


class Load:
    """Sends requests to an engine and keeps what comes of each.

    Args:
        engine: that an `EngineThread` is stepping.
        deadline_s: of each request's grammar.
        rate: small requests a second.
        watch: hears of hostile requests.
    """

    def __init__(self, engine: Engine, model: ScriptedModel, *, deadline_s: float, rate: float, watch: Watch) -> None:
        self._engine = engine
        self._deadline_s = deadline_s
        self._rate = rate
        self._watch = watch
        self._numbers = itertools.count()
        self._open: dict[str, Asked] = {}
        self.thread = EngineThread(engine, model, self._hear)

    async def run(self, seconds: float, wave: Wave | None = None) -> Phase:
        """Runs small requests for so long, or until the wave has been sent, and then waits for all ends."""
        self.thread.longest_step_s = 0.0
        ticking = asyncio.create_task(_longest_stall(ended := asyncio.Event()))
        sending = [asyncio.create_task(self._send_small(seconds))]
        if wave is not None:
            sending.append(asyncio.create_task(self._send(wave)))
        asked = [each for part in await asyncio.gather(*sending) for each in part]
        await self._drain()
        ended.set()
        return Phase(asked, await ticking, self.thread.longest_step_s)

    async def _send_small(self, seconds: float) -> list[Asked]:
        asked: list[Asked] = []
        began = time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            while len(asked) < elapsed * self._rate:
                asked.append(self._ask(SMALL, None, _small(next(self._numbers))))
            await asyncio.sleep(TICK_S / 2)
        return asked

    async def _send(self, wave: Wave) -> list[Asked]:
        asked = []
        for what, backend, spec in wave.specs:
            asked.append(self._ask(what, backend, spec))
            await asyncio.sleep(wave.every_s)
        return asked

    def _ask(self, what: str, backend: str | None, spec: GrammarSpec) -> Asked:
        number = next(self._numbers)
        asked = self._open[str(number)] = Asked(what, backend)
        if what != SMALL:
            self._watch(asked)
        request = Request(
            id=str(number),
            prompt=(1, 2, 3),
            max_tokens=1 if what == SMALL else _TOKENS,
            sampling=SamplingParams(temperature=0.0),
            spec=spec,
            backend=backend,
            deadline_s=self._deadline_s,
        )
        if isinstance(refused := self._engine.add(request), Err):
            self._hear([Event(request.id, Failed(refused.error))])
        return asked

    def _hear(self, events: Sequence[Event]) -> None:
        for event in events:
            asked = self._open[event.request_id]
            asked.hear(event.outcome)
            if asked.end is not None:
                del self._open[event.request_id]
                if asked.what != SMALL:
                    self._watch(asked)

    async def _drain(self) -> None:
        """Waits for the ends of all requests: some deadlines long at most; what has none then is parked."""
        until = time.monotonic() + 2 * self._deadline_s + 5
        while self._open and self.thread.error is None and time.monotonic() < until:
            await asyncio.sleep(TICK_S)

    async def settle(self) -> int:
        """Resident bytes once what is dropped has gone."""
        gc.collect()
        await asyncio.sleep(0.5)
        return resident_bytes()


def _small(number: int) -> GrammarSpec:
    """A little choice, pattern or schema that no cache knows."""
    name = f"n{number}"
    match number % 3:
        case 0:
            return Choice((f"yes {name}", f"no {name}"))
        case 1:
            return Regex(f"{name}: (yes|no)")
    return JsonSchema(
        f'{{"type":"object","properties":{{"{name}":{{"enum":["yes","no"]}}}},"required":["{name}"],'
        '"additionalProperties":false}'
    )


async def _longest_stall(ended: asyncio.Event) -> float:
    longest = 0.0
    while not ended.is_set():
        began = time.monotonic()
        await asyncio.sleep(TICK_S)
        longest = max(longest, time.monotonic() - began - TICK_S)
    return longest
