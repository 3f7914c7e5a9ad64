"""A scripted model behind a running engine, for the tests of the front doors."""

import asyncio
import functools
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import httpx2 as httpx
import torch
from prometheus_client import CollectorRegistry

from engine_adapter.embedded.engine import Engine, GrammarService, StepReport
from engine_adapter.embedded.model import ModelRunner
from engine_adapter.outcome import Delta, Outcome
from engine_adapter.serve.http.app import create_app
from engine_adapter.serve.running import RunningEngine
from engine_adapter.serve.served import Message, ServedModel
from structout import Err, ErrorKind, GrammarError, Ok, Result
from structout.compile import CompileService, Pending
from structout.discovery import discover
from structout.grammar import Grammar
from structout.spec import GrammarSpec
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


@functools.cache
def compile_service() -> CompileService:
    """One for all tests: its threads stay."""
    return CompileService(discover(plugins={"trie": TriePlugin()}, entry_points=[]), BYTES)


class NeverReady:
    """A compile service whose grammars stay pending; tells of each in ``submitted``."""

    vocabulary = BYTES

    def __init__(self) -> None:
        self.submitted: asyncio.Queue[Pending[Grammar]] = asyncio.Queue()

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        pending: Pending[Grammar] = Pending()
        self.submitted.put_nowait(pending)
        return pending


@attrs.frozen
class FailingService:
    """A compile service that refuses everything with one error."""

    error: GrammarError
    vocabulary = BYTES

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> Pending[Grammar]:
        pending: Pending[Grammar] = Pending()
        pending.settle(Err(self.error))
        return pending


class BreakingEngine(Engine):
    """An engine with a bug: its step raises once ``breaks_at`` steps were made. Tells of aborts in ``aborted``."""

    breaks_at: int | None = None

    def __init__(self, runner: ModelRunner, service: GrammarService) -> None:
        super().__init__(runner, service)
        self.aborted = threading.Event()

    def abort(self, request_id: str) -> None:
        super().abort(request_id)
        self.aborted.set()

    def step(self) -> StepReport:
        if self._step == self.breaks_at:
            raise RuntimeError("secret internals")
        return super().step()


class GatedRunner(ScriptedRunner):
    """Says one token, and the others once ``gate`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.decoded = 0

    def decode(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        self.decoded += 1
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


class ByteTokenizer:
    """`Prompts` for the scripted vocabulary: a token is a byte. It refuses to lay out what has a message ``refuse``."""

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        return Ok(tuple(text.encode()))

    def of_chat(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
    ) -> Result[tuple[int, ...], GrammarError]:
        laid_out = "".join(f"{message['role'][0]}:{message['content']}\n" for message in messages)
        if "refuse" in laid_out:
            return Err(GrammarError(kind=ErrorKind.INVALID_SPEC, message="the template refuses"))
        return self.of_text(laid_out)


def served_by(engine_runs: RunningEngine, *, max_len: int = 64) -> ServedModel:
    return ServedModel(name="scripted", vocabulary=BYTES, prompts=ByteTokenizer(), max_len=max_len, running=engine_runs)


@asynccontextmanager
async def client_to(engine_runs: RunningEngine) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the HTTP application, without a socket between."""
    app = create_app(served_by(engine_runs), metrics=CollectorRegistry())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


@asynccontextmanager
async def client_of(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    """The same, with the engine running until the block ends."""
    async with running(engine) as engine_runs, client_to(engine_runs) as client:
        yield client


def post(path: str, body: Any, *, engine: Engine | None = None) -> httpx.Response:
    """The reply to one request to a server of its own. A body that is no bytes is sent as JSON."""

    async def main() -> httpx.Response:
        async with client_of(engine or scripted_engine()) as client:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            return await client.post(path, content=content)

    return guarded(main)


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    return events_of_text(response.text)


def events_of_text(text: str) -> list[dict[str, Any]]:
    """The data of a stream's events, without ``[DONE]``, which has to be the last."""
    *events, done, rest = text.split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]
