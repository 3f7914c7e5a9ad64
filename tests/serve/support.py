"""A scripted model behind a running engine, for the tests of the front doors."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import torch

from engine_adapter.embedded.engine import Engine, StepReport
from engine_adapter.embedded.model import ModelRunner
from engine_adapter.outcome import Delta, Outcome
from engine_adapter.serve.running import RunningEngine
from structout.compile import CompileService
from structout.discovery import discover
from tests.fakes import BYTES, TriePlugin
from tests.scripted import ScriptedRunner

T = TypeVar("T")

GUARD_S = 120.0
"""A guard against a hang, far above what any test takes."""


def guarded(main: Callable[[], Awaitable[T]]) -> T:
    """Runs a test's coroutine in an event loop of its own."""

    async def within() -> T:
        async with asyncio.timeout(GUARD_S):
            return await main()

    return asyncio.run(within())


def compile_service() -> CompileService:
    return CompileService(discover(plugins={"trie": TriePlugin()}, entry_points=[]), BYTES)


class BreakingEngine(Engine):
    """An engine with a bug: its step raises once ``breaks_at`` steps were made."""

    breaks_at: int | None = None

    def step(self) -> StepReport:
        if self._step == self.breaks_at:
            raise RuntimeError("secret internals")
        return super().step()


class GatedRunner(ScriptedRunner):
    """Says one token, and the others once ``gate`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()

    def decode(self, tokens: Sequence[int]) -> torch.Tensor:
        assert self.gate.wait(GUARD_S)
        return super().decode(tokens)


def scripted_engine(runner: ModelRunner | None = None, service: CompileService | None = None) -> BreakingEngine:
    return BreakingEngine(runner or ScriptedRunner(), service or compile_service())


@asynccontextmanager
async def running(engine: Engine) -> AsyncIterator[RunningEngine]:
    """The engine, running until the block ends."""
    engine_runs = RunningEngine(engine)
    engine_runs.start()
    try:
        yield engine_runs
    finally:
        await engine_runs.close(0.0)
        engine.close()


async def all_of(outcomes: AsyncIterator[Outcome]) -> list[Outcome]:
    return [outcome async for outcome in outcomes]


def ends_once(outcomes: list[Outcome]) -> bool:
    """Whether these are some `Delta` and then one end."""
    return [isinstance(outcome, Delta) for outcome in outcomes] == [True] * (len(outcomes) - 1) + [False]
