"""``structout serve``: a model behind an HTTP API like OpenAI's, and over gRPC, until it is told to stop."""

import asyncio
import importlib.util
import socket
from typing import Final

import attrs
from prometheus_client import CollectorRegistry, ProcessCollector
from rich.console import Console

from engine_adapter.embedded.local import Local, open_local
from engine_adapter.embedded.pretrained import ModelLoadError
from engine_adapter.serve.http.server import HttpServer, bound_socket
from engine_adapter.serve.served import ServedModel, served_locally
from structout.cli.output import load_error, loading_bar, print_error
from structout.discovery import discover
from structout.errors import ErrorKind, GrammarError
from structout.observability.logs import LOGGERS, log_as_json
from structout.observability.metrics import Metrics
from structout.vocabulary import VocabularyError

SANDBOX_WORKERS: Final = 2
"""One for long compiles, and one that they cannot have."""

LAST_REPLIES_S: Final = 5.0
"""How long clients of gRPC may take to read the end of their calls when the engine has stopped, in seconds."""


@attrs.frozen(kw_only=True)
class Options:
    """The command's options."""

    model: str = "smollm2"
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None
    max_num_seqs: int = 32


def run(options: Options) -> int:
    """Serves until SIGTERM or SIGINT, and then lets requests finish. Returns the exit code: 0, or that of the error."""
    if (error := _same_port(options)) or (error := _no_grpc(options)):
        return print_error(error, as_json=False)
    try:
        bound = bound_socket(options.host, options.port)
    except OSError as exc:
        return print_error(_no_address(options.host, options.port, exc), as_json=False)
    with bound:
        prometheus = CollectorRegistry()
        ProcessCollector(registry=prometheus)
        metrics = Metrics(prometheus)
        try:
            with loading_bar() as progress:
                local = open_local(
                    options.model,
                    max_rows=options.max_num_seqs,
                    registry=discover(plugins={"metrics": metrics}),
                    sandbox_workers=SANDBOX_WORKERS,
                    observer=metrics,
                    progress=progress,
                )
        except (ModelLoadError, VocabularyError) as exc:
            return print_error(load_error(exc), as_json=False)
        try:
            metrics.watch(
                service=local.service, sandbox=local.sandbox, filler=local.engine.filler, blocked=local.engine.blocked
            )
            return asyncio.run(_serve(local, options, prometheus, metrics, bound))
        finally:
            local.close()


async def _serve(
    local: Local, options: Options, prometheus: CollectorRegistry, metrics: Metrics, bound: socket.socket
) -> int:
    """Serves over HTTP, and over gRPC if there is a port for it; returns the exit code."""
    log_as_json(*LOGGERS, "uvicorn")
    served = served_locally(local)
    served.running.start()
    metrics.watch(ends=served.running.ends)
    if options.grpc_port is None:
        await _serve_http(served, prometheus, bound)
        return 0

    from engine_adapter.serve.grpc.server import GrpcServer

    server = GrpcServer(served)
    try:
        port = await server.start(_joined(options.host, options.grpc_port))
    except OSError as exc:
        await served.running.close(0.0)
        return print_error(_no_address(options.host, options.grpc_port, exc), as_json=False)
    try:
        await _serve_http(served, prometheus, bound, f", and over gRPC at {_joined(options.host, port)}")
    finally:
        await server.close(LAST_REPLIES_S)
    return 0


async def _serve_http(served: ServedModel, prometheus: CollectorRegistry, bound: socket.socket, also: str = "") -> None:
    """Serves until it is told to stop, and then closes the engine; says where when it listens, and ``also``."""
    address = _joined(*bound.getsockname()[:2])

    def announce() -> None:
        text = f"{served.name} is served at http://{address}/v1{also}"
        Console(stderr=True, soft_wrap=True).print(text, highlight=False, markup=False)

    await HttpServer(served, metrics=prometheus, announce=announce).serve(sockets=[bound])


def _same_port(options: Options) -> GrammarError | None:
    if options.port != options.grpc_port or not options.port:
        return None
    message = f"--port and --grpc-port are both {options.port}: HTTP and gRPC need a port each"
    hint = "take another for one of them, or 0 for one that is free"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, hint=hint)


def _no_grpc(options: Options) -> GrammarError | None:
    """Why there cannot be gRPC, if it is asked for, as far as can be said before its port is taken: gRPC binds it
    itself."""
    if options.grpc_port is None:
        return None
    if importlib.util.find_spec("grpc") is None:
        message = "gRPC needs some packages that are not installed"
        return GrammarError(kind=ErrorKind.UNAVAILABLE, message=message, hint="pip install 'structout[grpc]'")
    try:
        bound_socket(options.host, options.grpc_port).close()
    except OSError as exc:
        return _no_address(options.host, options.grpc_port, exc)
    return None


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _no_address(host: str, port: int, exc: OSError) -> GrammarError:
    message = f"{host}, port {port}, cannot be listened on: {exc.strerror or 'it is taken, or no such address'}"
    hint = "take another port, or 0 for one that is free"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, hint=hint)
