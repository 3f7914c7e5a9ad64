"""A server with a page, on a scripted model and real backends."""

import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import attrs
import httpx2 as httpx
from prometheus_client import CollectorRegistry

from engine_adapter.embedded.engine import Engine
from engine_adapter.serve.http.app import create_app
from engine_adapter.serve.running import RunningEngine
from engine_adapter.serve.served import ServedModel
from structout.compile import CompileService
from structout.discovery import discover
from tests.fakes import BYTES
from tests.scripted import ScriptedRunner
from tests.serve.support import guarded, running, served_by

T = TypeVar("T")

BACKENDS = ("xgrammar", "llguidance", "outlines")


@functools.cache
def real_service() -> CompileService:
    """One for all tests, its backends started: that takes longer than any deadline."""
    service = CompileService(discover(), BYTES)
    for backend in BACKENDS:
        service.backend(backend).unwrap()
    return service


def served_with_page(engine_runs: RunningEngine) -> ServedModel:
    return attrs.evolve(served_by(engine_runs), service=real_service())


@attrs.frozen
class Page:
    """What the page's script does: JSON there and back."""

    client: httpx.AsyncClient

    async def get(self, path: str, **params: str) -> Any:
        return (await self.client.get(path, params=params)).json()

    async def post(self, path: str, **body: Any) -> Any:
        return (await self.client.post(path, json=body)).json()

    async def begin(self, kind: str, text: str = "", **more: Any) -> Any:
        return await self.post("/page/tries", kind=kind, text=text, **more)


@asynccontextmanager
async def page_of(engine: Engine | None = None) -> AsyncIterator[Page]:
    """The page of a server that runs until the block ends, without a socket between."""
    async with running(engine or Engine(ScriptedRunner(), real_service())) as engine_runs:
        app = create_app(served_with_page(engine_runs), metrics=CollectorRegistry())
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            yield Page(client)


def on_a_page(main: Callable[[Page], Awaitable[T]], engine: Engine | None = None) -> T:
    """Runs a test's coroutine with a page of its own."""

    async def within() -> T:
        async with page_of(engine) as page:
            return await main(page)

    return guarded(within)


def texts(walk: Any) -> list[str]:
    """Of the tokens that are shown as allowed."""
    return [token["text"] for token in walk["allowed"]["shown"]]


def schema(**keywords: Any) -> str:
    return json.dumps(keywords)
