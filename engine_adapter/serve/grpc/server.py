"""Both dialects, health and reflection on one port."""

import asyncio
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from engine_adapter.serve.grpc.calls import Calls
from engine_adapter.serve.grpc.services import INFERENCE, VLLM_ENGINE, InferenceService, VllmEngineService
from engine_adapter.serve.served import ServedModel

SERVICES: Final = (INFERENCE.full_name, VLLM_ENGINE.full_name)
"""What is served, beside health and reflection."""

HEALTH_S: Final = 0.5
"""How often the health service looks at the engine, in seconds."""

# Without this a second server on the same port would share its calls instead of being told that the port is taken.
_OPTIONS: Final = (("grpc.so_reuseport", 0),)


class GrpcServer:
    """A server in the running event loop; `start` and `close` are called once each, in this order.

    Args:
        served: the model. Its engine, which runs already, belongs to the caller: to be closed before the server is, so
            that those who wait are told why they end.
    """

    def __init__(self, served: ServedModel) -> None:
        self._running = served.running
        self.calls = Calls(served)
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]  # not in its stubs
        self._watch: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(
            handlers=[InferenceService(self.calls).handler(), VllmEngineService(self.calls, served).handler()],
            options=_OPTIONS,
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    async def start(self, address: str) -> int:
        """Serves on ``address``, a host and a port as in ``localhost:50051``; port 0 is one of the system's choice.

        Returns the port. Raises OSError if it cannot be had.
        """
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as exc:
            raise OSError(f"{address} cannot be served on") from exc
        await self._tell_health()
        await self._server.start()
        self._watch = asyncio.create_task(self._watch_health())
        return port

    async def close(self, grace_s: float = 0.0) -> None:
        """Takes no more calls, and cancels those that are under way after ``grace_s`` seconds."""
        if self._watch is not None:
            self._watch.cancel()
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    async def _watch_health(self) -> None:
        while True:
            await asyncio.sleep(HEALTH_S)
            await self._tell_health()

    async def _tell_health(self) -> None:
        status = health_pb2.HealthCheckResponse
        state = status.SERVING if self._running.unavailable is None else status.NOT_SERVING
        for service in ("", *SERVICES):
            await self._health.set(service, state)
