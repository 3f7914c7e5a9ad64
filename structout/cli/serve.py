"""``structout serve``: a model behind an HTTP API like OpenAI's, until it is told to stop."""

import logging
import socket
from typing import Final

import attrs
from prometheus_client import CollectorRegistry, ProcessCollector
from rich.console import Console

from engine_adapter.embedded.local import Local, open_local
from engine_adapter.embedded.pretrained import ModelLoadError
from engine_adapter.serve.http.server import HttpServer, bound_socket
from engine_adapter.serve.served import served_locally
from structout.cli.output import load_error, loading_bar, print_error
from structout.discovery import discover
from structout.errors import ErrorKind, GrammarError
from structout.observability.logs import JsonFormatter
from structout.observability.metrics import Metrics
from structout.vocabulary import VocabularyError

SANDBOX_WORKERS: Final = 2
"""One for long compiles, and one that they cannot have."""

_LOGGERS: Final = ("structout", "engine_adapter", "uvicorn")


@attrs.frozen(kw_only=True)
class Options:
    """The command's options."""

    model: str = "smollm2"
    host: str = "127.0.0.1"
    port: int = 8000
    max_num_seqs: int = 32


def run(options: Options) -> int:
    """Serves until SIGTERM or SIGINT, and then lets requests finish. Returns the exit code: 0, or that of the error."""
    try:
        bound = bound_socket(options.host, options.port)
    except OSError as exc:
        return print_error(_no_address(options, exc), as_json=False)
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
                    progress=progress,
                )
        except (ModelLoadError, VocabularyError) as exc:
            return print_error(load_error(exc), as_json=False)
        try:
            metrics.watch(
                service=local.service, sandbox=local.sandbox, filler=local.engine.filler, blocked=local.engine.blocked
            )
            _serve(local, prometheus, bound)
        finally:
            local.close()
    return 0


def _serve(local: Local, prometheus: CollectorRegistry, bound: socket.socket) -> None:
    _log_as_json()
    served = served_locally(local)
    served.running.start()
    host, port = bound.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def announce() -> None:
        Console(stderr=True).print(f"{served.name} is served at http://{address}/v1", highlight=False, markup=False)

    HttpServer(served, metrics=prometheus, announce=announce).run(sockets=[bound])


def _log_as_json() -> None:
    """Our own records and the server's, a line each, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    for name in _LOGGERS:
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).setLevel(logging.INFO)


def _no_address(options: Options, exc: OSError) -> GrammarError:
    message = f"{options.host}, port {options.port}, cannot be listened on: {exc.strerror or 'no such address'}"
    hint = "take another --port, or 0 for one that is free"
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message, hint=hint)
