"""A client that leaves takes with it what was done for it."""

import asyncio
import json
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import Message, Scope

from engine_adapter.serve.http.app import create_app
from engine_adapter.serve.running import RunningEngine
from tests.scripted import ScriptedRunner
from tests.serve.support import (
    GUARD_S,
    BreakingEngine,
    GatedRunner,
    NeverReady,
    guarded,
    running,
    scripted_engine,
    served_by,
)

PATH = "/v1/completions"


class LeavingClient:
    """One HTTP request as ASGI sees it: a body, and then nothing until the client leaves."""

    def __init__(self, body: dict[str, Any], path: str = PATH) -> None:
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [],
            "scheme": "http",
            "server": ("test", 80),
            "client": ("test", 1),
            "root_path": "",
        }
        self.inbox: asyncio.Queue[Message] = asyncio.Queue()
        self.inbox.put_nowait({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
        self.sent: asyncio.Queue[Message] = asyncio.Queue()

    def leave(self) -> None:
        self.inbox.put_nowait({"type": "http.disconnect"})

    async def send(self, message: Message) -> None:
        self.sent.put_nowait(message)

    def ask(self, engine_runs: RunningEngine) -> asyncio.Future[None]:
        app = create_app(served_by(engine_runs), metrics=CollectorRegistry())
        return asyncio.ensure_future(app(self.scope, self.inbox.get, self.send))


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("is_stream", [False, True])
def test_one_that_waits_for_its_grammar_releases_the_compile(is_stream: bool, n: int) -> None:
    service = NeverReady()
    engine = BreakingEngine(ScriptedRunner(), service)

    async def main() -> int:
        async with running(engine) as engine_runs:
            body = {"prompt": "x", "structured_outputs": {"choice": ["a"]}, "stream": is_stream, "n": n}
            client = LeavingClient(body)
            asking = client.ask(engine_runs)
            pending = [await service.submitted.get() for _ in range(n)]
            client.leave()
            await asking
            for each in pending:
                released = threading.Event()
                each.add_done_callback(released.set)
                assert await asyncio.to_thread(released.wait, GUARD_S)
            return client.sent.qsize()

    assert guarded(main) == 0, "nothing is said to nobody"
    assert engine.unfinished == 0


@pytest.mark.parametrize("n", [1, 3])
def test_one_that_leaves_a_stream_aborts_its_generation(n: int) -> None:
    runner = GatedRunner()
    engine = scripted_engine(runner)

    async def main() -> list[str]:
        async with running(engine) as engine_runs:
            body = {"prompt": "x", "structured_outputs": {"choice": ["a" * 50]}, "stream": True, "n": n}
            client = LeavingClient(body)
            asking = client.ask(engine_runs)
            said = [(await client.sent.get())["type"] for _ in range(2)]
            client.leave()
            await asking
            runner.gate.set()
            await engine_runs.close(GUARD_S / 2)
            return said

    assert guarded(main) == ["http.response.start", "http.response.body"]
    assert engine.unfinished == 0
    assert runner.decoded < 50, "it did not go on to its end"


def test_one_that_leaves_while_it_sends_is_not_answered() -> None:
    async def main() -> int:
        async with running(scripted_engine()) as engine_runs:
            client = LeavingClient({})
            client.inbox = asyncio.Queue()
            client.leave()
            await client.ask(engine_runs)
            return client.sent.qsize()

    assert guarded(main) == 0
