"""The load of `benchmarks.hostile`: small requests at a steady rate, hostile ones among them, on one engine.

The engine, its compile service, the sandbox, the backends and the vocabulary are real; the model need not be. The
engine steps on a thread of its own; requests come from an event loop, in which a ticker runs.
"""

import asyncio
import gc
import itertools
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs

from benchmarks.models import TimedModel
from engine_adapter.embedded.engine import Engine, Event
from engine_adapter.embedded.request import Request
from engine_adapter.outcome import Delta, Failed, Outcome
from engine_adapter.sampling import SamplingParams
from structout.errors import GrammarError
from structout.processes.usage import release_freed_memory, resident_bytes
from structout.result import Err
from structout.spec import Choice, GrammarSpec, JsonSchema, Regex

TICK_S: Final = 0.01
SMALL: Final = "small"
GRAMMAR: Final = "a grammar"
"""What a request ends in if its spec was compiled."""
_TOKENS: Final = 8
"""Of a hostile request. A small one has one: its grammar and its first mask, and little of the sampler."""


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
            self.end = GRAMMAR


def _named(error: GrammarError) -> str:
    return f"{error.kind.value} ({error.fault.value})"


@attrs.define(eq=False)
class Small:
    """What became of small requests, without the requests: hundreds of thousands of objects would make the garbage
    collector stop every thread, and resident memory grow.

    Attributes:
        answered_s: seconds from each that has ended to its first token, or to its end if it has none.
        failed: how many ended in an error.
        parked: how many have not ended.
    """

    answered_s: "array[float]" = attrs.field(factory=lambda: array("d"))
    failed: int = 0
    parked: int = 0

    def add(self, asked: Asked) -> None:
        """Takes in one that has ended."""
        assert asked.answered_s is not None, "it ended"
        self.answered_s.append(asked.answered_s)
        self.failed += asked.end != GRAMMAR


@attrs.frozen
class Phase:
    """What was seen while some load ran.

    Attributes:
        small: its small requests.
        hostile: its others.
        longest_stall_s: how much later than asked for the event loop's ticker woke up.
        longest_step_s: the longest step of the engine, less what the model took: mostly its wait for masks.
    """

    small: Small
    hostile: Sequence[Asked]
    longest_stall_s: float
    longest_step_s: float


class EngineThread:
    """Steps an engine on a thread of its own until `close`; events are delivered to the event loop.

    Attributes:
        longest_step_s: see `Phase`; to be reset at will.
        error: what ended it, if anything did.
    """

    def __init__(self, engine: Engine, model: TimedModel, deliver: Callable[[Sequence[Event]], None]) -> None:
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
                if self._engine.wait_for_work():
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
        self._engine.wake()
        self._thread.join()


class Watch(Protocol):
    """Is told of each request as it begins and ends."""

    def __call__(self, asked: Asked) -> None: ...


@attrs.frozen
class Wave:
    """Hostile requests that are sent one after the other, ``every_s`` seconds apart."""

    specs: Sequence[tuple[str, str | None, GrammarSpec]]
    every_s: float


NO_WAVE: Final = Wave((), 0.0)


class Load:
    """Sends requests to an engine and keeps what comes of each.

    Args:
        engine: that an `EngineThread` is stepping.
        deadline_s: of each request's grammar.
        rate: small requests a second.
        watch: hears of hostile requests.
    """

    def __init__(self, engine: Engine, model: TimedModel, *, deadline_s: float, rate: float, watch: Watch) -> None:
        self._engine = engine
        self._deadline_s = deadline_s
        self._rate = rate
        self._watch = watch
        self._numbers = itertools.count()
        self._open: dict[str, Asked] = {}
        self._small = Small()
        self.thread = EngineThread(engine, model, self._hear)

    async def run(self, seconds: float, wave: Wave = NO_WAVE) -> Phase:
        """Runs small requests for so long, or until the wave has been sent, and then waits for all ends."""
        self.thread.longest_step_s, self._small = 0.0, Small()
        ticking = asyncio.create_task(_longest_stall(ended := asyncio.Event()))
        _, hostile = await asyncio.gather(self._send_small(seconds), self._send(wave))
        await self._drain()
        ended.set()
        self._small.parked = sum(asked.what == SMALL for asked in self._open.values())
        return Phase(self._small, hostile, await ticking, self.thread.longest_step_s)

    async def _send_small(self, seconds: float) -> None:
        sent, began = 0, time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            while sent < elapsed * self._rate:
                self._ask(SMALL, None, _small(next(self._numbers)))
                sent += 1
            await asyncio.sleep(TICK_S / 2)

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
                if asked.what == SMALL:
                    self._small.add(asked)
                else:
                    self._watch(asked)

    async def _drain(self) -> None:
        """Waits for the ends of all requests: some deadlines long at most; what has none then is parked."""
        until = time.monotonic() + 2 * self._deadline_s + 5
        while self._open and self.thread.error is None and time.monotonic() < until:
            await asyncio.sleep(TICK_S)

    async def settle(self) -> int:
        """Resident bytes once what is dropped has gone, back to the system, too."""
        gc.collect()
        await asyncio.sleep(0.5)
        release_freed_memory()
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
