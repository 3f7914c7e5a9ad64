"""A server with a scripted model, for benchmarks of what is around the model.

``python -m benchmarks.stream_server`` tells its port as a line of JSON, then its state for each line that it reads.
"""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs
from prometheus_client import CollectorRegistry

from benchmarks.models import ScriptedModel
from benchmarks.soak import State
from engine_adapter.embedded.engine import Engine
from engine_adapter.serve.http.server import HttpServer, bound_socket
from engine_adapter.serve.running import RunningEngine
from engine_adapter.serve.served import Message, ServedModel
from structout.compile import CompileService
from structout.discovery import discover
from structout.errors import GrammarError
from structout.fuzz.vocabulary import byte_vocabulary
from structout.processes.usage import resident_bytes
from structout.result import Ok, Result

_MAX_LEN: Final = 128


class Bytes:
    """`engine_adapter.serve.served.Prompts` for a vocabulary of bytes."""

    def of_text(self, text: str) -> Result[tuple[int, ...], GrammarError]:
        return Ok(tuple(text.encode()))

    def of_chat(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
    ) -> Result[tuple[int, ...], GrammarError]:
        return self.of_text("".join(message["content"] for message in messages))


@contextmanager
def scripted(max_rows: int) -> Iterator[tuple[ServedModel, Engine]]:
    """A scripted model and its engine, whose step thread runs; the block has to close the `RunningEngine`."""
    words = byte_vocabulary()
    service = CompileService(discover(), words)
    engine = Engine(ScriptedModel(words.padded_size, max_rows=max_rows, max_len=_MAX_LEN), service)
    running = RunningEngine(engine)
    running.start()
    served = ServedModel(name="scripted", vocabulary=words, prompts=Bytes(), max_len=_MAX_LEN, running=running)
    try:
        yield served, engine
    finally:
        engine.close()
        service.close()


async def _serve(served: ServedModel, engine: Engine) -> None:
    bound = bound_socket("127.0.0.1", 0)
    server = HttpServer(served, grace_s=0.0, metrics=CollectorRegistry())
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    _tell({"port": bound.getsockname()[1]})
    while await asyncio.to_thread(sys.stdin.readline):
        _tell(attrs.asdict(State(engine.unfinished, resident_bytes())))
    server.should_exit = True
    await serving
    bound.close()


def _tell(said: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with scripted(max_rows=64) as parts:
        asyncio.run(_serve(*parts))
