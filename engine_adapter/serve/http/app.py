"""The application: which path does what."""

import functools
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine_adapter.serve.embedding import Embedder
from engine_adapter.serve.http.answering import answer
from engine_adapter.serve.http.asking import not_served
from engine_adapter.serve.http.chat import read_chat
from engine_adapter.serve.http.completions import read_completion
from engine_adapter.serve.http.embeddings import EmbeddingsAnswerer, read_embeddings
from engine_adapter.serve.http.endpoint import Endpoint
from engine_adapter.serve.http.errors import error_response
from engine_adapter.serve.http.intake import Intake
from engine_adapter.serve.http.page.requests import page_routes
from engine_adapter.serve.http.responses.reading import read_response
from engine_adapter.serve.served import ServedModel
from structout.parsing.problems import quote


def create_app(
    served: ServedModel, *, metrics: CollectorRegistry = REGISTRY, intake: Intake | None = None
) -> Starlette:
    """An ASGI application that serves one model.

    Args:
        served: the model; its engine runs already, and belongs to the caller.
        metrics: what ``/metrics`` shows.
        intake: takes bodies in, until the caller closes it; one of its own when not given.
    """
    bodies = intake or Intake()

    async def health(request: Request) -> Response:
        """200 while requests are taken, else the error that they would get."""
        error = served.running.unavailable
        return JSONResponse({"status": "ok"}) if error is None else error_response(error)

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [_model(served)]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        return JSONResponse(_model(served)) if name == served.name else error_response(not_served(name, served))

    async def show_metrics(request: Request) -> Response:
        return Response(generate_latest(metrics), media_type=CONTENT_TYPE_LATEST)

    generate = functools.partial(answer, running=served.running)
    embed = EmbeddingsAnswerer(Embedder(served.running), served.running.ends)
    return Starlette(
        routes=[
            Route("/v1/chat/completions", Endpoint(served, bodies, read_chat, generate), methods=["POST"]),
            Route("/v1/completions", Endpoint(served, bodies, read_completion, generate), methods=["POST"]),
            Route("/v1/responses", Endpoint(served, bodies, read_response, generate), methods=["POST"]),
            Route("/v1/embeddings", Endpoint(served, bodies, read_embeddings, embed), methods=["POST"]),
            Route("/v1/models", models),
            Route("/v1/models/{name:path}", model),
            Route("/health", health),
            Route("/metrics", show_metrics),
            *page_routes(served, bodies),
        ],
        exception_handlers={HTTPException: _no_such_route},
    )


def _model(served: ServedModel) -> dict[str, Any]:
    return {
        "id": served.name,
        "object": "model",
        "created": 0,
        "owned_by": "structout",
        "max_model_len": served.max_len,
    }


async def _no_such_route(request: Request, exc: Exception) -> Response:
    """What the router refuses: there is no such path, or it has no such method. No request got as far as an error of
    ours, so the status is the router's."""
    assert isinstance(exc, HTTPException), "registered for these alone"
    message = f"{request.method} {quote(request.url.path)} is not served here"
    error = {"message": message, "type": "invalid_request_error", "code": "not_found", "param": None}
    return JSONResponse({"error": error}, status_code=exc.status_code, headers=exc.headers)
