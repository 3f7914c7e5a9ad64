"""The server that all cells share: HTTP and gRPC on one engine, and real compile services and sandboxes behind it."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, TypeVar

import attrs
import grpc
import httpx2 as httpx
from prometheus_client import CollectorRegistry

from engine_adapter.embedded.engine import Engine
from engine_adapter.embedded.request import Request
from engine_adapter.serve.grpc.server import GrpcServer
from engine_adapter.serve.http.server import HttpServer, bound_socket
from engine_adapter.serve.running import RunningEngine
from structout import Choice
from structout.compile import CompileService, PendingGrammar
from structout.compile.sandbox import Limits, Sandbox
from structout.discovery import discover
from structout.spec import GrammarSpec
from tests.fakes import BYTES
from tests.serve.matrix.faulty import PLUGIN, TEXT, FaultyPlugin
from tests.serve.matrix.model import TroubledModel
from tests.serve.support import GUARD_S, all_of, served_by

T = TypeVar("T")

_REAL: Final = ("xgrammar", "outlines", "llguidance", "reference")
_PLACES: Final = 2
_REQUESTS: Final = 6
_SOON_S: Final = 0.3


@attrs.frozen
class Services:
    """Compile services, of which the last option of a choice names one.

    Attributes:
        plain: compiles in this process, and has two places; asked if none is named.
        patient: has the sandbox try everything, and waits for it. What computes there meets a limit.
        hasty: the same, with a deadline that comes soon.
    """

    plain: CompileService
    patient: CompileService
    hasty: CompileService
    vocabulary = BYTES

    def submit(
        self, spec: GrammarSpec, *, backend: str | None = None, deadline_s: float | None = None
    ) -> PendingGrammar:
        assert isinstance(spec, Choice)
        named = {"patient": self.patient, "hasty": self.hasty}.get(spec.options[-1], self.plain)
        return named.submit(spec, backend=backend, deadline_s=deadline_s)

    def close(self) -> None:
        for each in (self.plain, self.patient, self.hasty):
            each.close()


@attrs.frozen(eq=False)
class Doors:
    """Both front doors, and a client of each."""

    running: RunningEngine
    http: HttpServer
    rpc: GrpcServer
    client: httpx.AsyncClient
    channel: grpc.aio.Channel

    @property
    def calls(self) -> int:
        """How many requests are under way."""
        return len(self.http.server_state.tasks) + len(self.rpc.calls)


@attrs.frozen(eq=False)
class Server:
    """What runs.

    Attributes:
        gate: lets go of the compiles that are told to wait.
        numbers: to tell prompts and grammars apart.
    """

    model: TroubledModel
    gate: threading.Event
    sandbox: Sandbox
    services: Services
    engine: Engine
    doors: Doors
    loop: asyncio.AbstractEventLoop
    numbers: Iterator[int] = attrs.field(factory=itertools.count)

    def run(self, main: Awaitable[T]) -> T:
        """Runs a coroutine in the servers' loop."""

        async def within() -> T:
            async with asyncio.timeout(GUARD_S):
                return await main

        return asyncio.run_coroutine_threadsafe(within(), self.loop).result()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await asyncio.sleep(0.002)

    async def is_idle(self) -> None:
        """Waits until nothing is left of any request."""
        await self.until(lambda: not self.doors.calls and not self.engine.unfinished)

    @asynccontextmanager
    async def crowded_service(self) -> AsyncIterator[None]:
        """Takes all places of the plain service for as long as the block runs."""
        self.gate.clear()
        orders = [f"!wait - - {number}" for number in range(_PLACES)]
        waiting = [self.services.plain.submit(Choice((order, str(next(self.numbers))))) for order in orders]
        try:
            yield
        finally:
            self.gate.set()
            await self.until(lambda: all(each.result() is not None for each in waiting))

    @asynccontextmanager
    async def crowded_engine(self) -> AsyncIterator[None]:
        """Has as many requests under way as the engine takes for as long as the block runs."""
        self.model.gate.clear()
        prompt, spec = tuple(b"!hold late all %d!" % next(self.numbers)), Choice(("!speak", TEXT))
        requests = [Request(id=f"crowd-{number}", prompt=prompt, spec=spec) for number in range(_REQUESTS)]
        crowd = [asyncio.create_task(all_of(self.doors.running.outcomes(request))) for request in requests]
        await self.until(lambda: self.engine.unfinished == _REQUESTS)
        try:
            yield
        finally:
            self.model.gate.set()
            await asyncio.gather(*crowd)


def _services(plugin: FaultyPlugin) -> tuple[Services, Sandbox]:
    registry = discover(plugins={"faulty": plugin}, disable=_REAL)
    limits = Limits(wall_s=GUARD_S, cpu_s=0.1)
    sandbox = Sandbox(registry, BYTES, workers=2, warm=["faulty"], plugins=[PLUGIN], disable=_REAL, limits=limits)
    services = Services(
        plain=CompileService(registry, BYTES, max_queue=_PLACES, deadline_s=GUARD_S),
        patient=CompileService(registry, BYTES, sandbox=sandbox, deadline_s=GUARD_S),
        hasty=CompileService(registry, BYTES, sandbox=sandbox, deadline_s=_SOON_S),
    )
    return services, sandbox


@contextmanager
def serving() -> Iterator[Server]:
    """A server that runs on a thread until the block ends."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(main: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(main, loop).result()

    plugin, model = FaultyPlugin(), TroubledModel()
    services, sandbox = _services(plugin)
    engine = Engine(model, services, mask_budget_s=GUARD_S)
    doors = _open(engine)
    try:
        yield Server(model, plugin.gate, sandbox, services, engine, run(doors.__aenter__()), loop)
        run(doors.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        engine.close()
        services.close()
        sandbox.close()


@asynccontextmanager
async def _open(engine: Engine) -> AsyncIterator[Doors]:
    running = RunningEngine(engine, max_requests=_REQUESTS)
    running.start()
    served = served_by(running, max_len=256)
    http = HttpServer(served, grace_s=GUARD_S, metrics=CollectorRegistry())
    bound = bound_socket("127.0.0.1", 0)
    serving_http = asyncio.create_task(http.serve(sockets=[bound]))
    calls = GrpcServer(served)
    port = await calls.start("127.0.0.1:0")
    address = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with (
        httpx.AsyncClient(base_url=address, timeout=GUARD_S) as client,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        while not http.started:
            await asyncio.sleep(0.002)
        yield Doors(running, http, calls, client, channel)
    http.should_exit = True
    await serving_http
    await calls.close()
