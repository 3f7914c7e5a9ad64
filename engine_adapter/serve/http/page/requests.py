"""The page's JSON API, under ``/page``. What it says is for the page alone and may change with it."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engine_adapter.outcome import internal_error
from engine_adapter.serve.http.body import read_body, validated
from engine_adapter.serve.http.errors import log_error
from engine_adapter.serve.http.intake import Intake
from engine_adapter.serve.http.page.assets import HEADERS, asset_routes
from engine_adapter.serve.http.page.tries import Tries, Wish
from engine_adapter.serve.http.page.typed import KINDS
from engine_adapter.serve.http.page.views import JsonObject, error_view, requests_view
from engine_adapter.serve.http.requests import Strict
from engine_adapter.serve.reading import Reading
from engine_adapter.serve.served import ServedModel
from structout.errors import ErrorKind, GrammarError
from structout.result import Err, Ok, Result
from structout.spec import Policy

logger = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 2**20
"""Most bytes of what the page sends."""

MAX_SEARCH: Final = 256
"""Most characters to search tokens by."""

Answer: TypeAlias = Callable[[Request], Awaitable[Result[JsonObject, GrammarError]]]


class NewTry(Strict):
    kind: str
    text: str = ""
    backend: str | None = None
    enforcement: str = Policy.SOUND.value


class TakeToken(Strict):
    token: int


class TakeText(Strict):
    text: str


def page_routes(served: ServedModel, intake: Intake) -> list[Route]:
    """The page and what it asks for. Without a compile service there is nothing to try."""
    routes = [*asset_routes(), _route("/page/model", _model(served)), _route("/page/requests", _requests(served))]
    if served.service is None:
        return routes
    return routes + _try_routes(Tries(served.service), Bodies(intake, served.reading))


def _try_routes(tries: Tries, bodies: "Bodies") -> list[Route]:
    async def begin(request: Request) -> Result[JsonObject, GrammarError]:
        match (await bodies.fields(request)).and_then(_wish):
            case Err() as failed:
                return failed
            case Ok(wish):
                return await tries.begin(wish)
        raise AssertionError("a result is Ok or Err")

    async def look(request: Request) -> Result[JsonObject, GrammarError]:
        return await tries.look(_id(request), request.query_params.get("search", "")[:MAX_SEARCH])

    async def take(request: Request) -> Result[JsonObject, GrammarError]:
        match (await bodies.fields(request)).and_then(lambda fields: validated(fields, TakeToken)):
            case Err() as failed:
                return failed
            case Ok(fields):
                return await tries.take(_id(request), fields.token)
        raise AssertionError("a result is Ok or Err")

    async def take_text(request: Request) -> Result[JsonObject, GrammarError]:
        match (await bodies.fields(request)).and_then(lambda fields: validated(fields, TakeText)):
            case Err() as failed:
                return failed
            case Ok(fields):
                return await tries.take_text(_id(request), fields.text)
        raise AssertionError("a result is Ok or Err")

    async def back(request: Request) -> Result[JsonObject, GrammarError]:
        match await bodies.fields(request):
            case Err() as failed:
                return failed
            case Ok():
                return await tries.back(_id(request))
        raise AssertionError("a result is Ok or Err")

    async def end(request: Request) -> Result[JsonObject, GrammarError]:
        return await tries.end(_id(request))

    return [
        _route("/page/tries", begin, "POST"),
        _route("/page/tries/{id}", look),
        _route("/page/tries/{id}", end, "DELETE"),
        _route("/page/tries/{id}/token", take, "POST"),
        _route("/page/tries/{id}/text", take_text, "POST"),
        _route("/page/tries/{id}/back", back, "POST"),
    ]


def _model(served: ServedModel) -> Answer:
    service = served.service
    backends = (
        {}
        if service is None
        else {id: sorted(each.info.spec_kinds) for id, each in sorted(service.registry.backends.items())}
    )

    async def model(request: Request) -> Result[JsonObject, GrammarError]:
        """What can be tried here, and for which model."""
        return Ok({"name": served.name, "can_try": service is not None, "kinds": list(KINDS), "backends": backends})

    return model


def _requests(served: ServedModel) -> Answer:
    async def requests(request: Request) -> Result[JsonObject, GrammarError]:
        return Ok(requests_view(served.running))

    return requests


# ---- reading and writing -------------------------------------------------------------------------------------------


def _route(path: str, answer: Answer, method: str = "GET") -> Route:
    async def endpoint(request: Request) -> Response:
        try:
            answered = await answer(request)
        except ClientDisconnect:
            return Response()
        except Exception as exc:
            logger.exception("the page failed")
            answered = Err(internal_error(exc))
        match answered:
            case Ok(value):
                return JSONResponse(value, headers=HEADERS)
            case Err(error):
                log_error(error, "page")
                # What it refuses it may not have read to the end.
                headers = HEADERS if method == "GET" else {**HEADERS, "Connection": "close"}
                return JSONResponse(error_view(error), status_code=error.consequence.http_status, headers=headers)

    return Route(path, endpoint, methods=[method])


def _id(request: Request) -> str:
    return str(request.path_params["id"])


@attrs.frozen(eq=False)
class Bodies:
    """Reads what the page sends."""

    intake: Intake
    reading: Reading

    async def fields(self, request: Request) -> Result[Mapping[str, Any], GrammarError]:
        """The body as an object. It has to say that it is JSON: a form on another site cannot."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return Err(_invalid("the body has to be sent as application/json"))
        match await self.intake.take(request, most_bytes=MAX_BODY_BYTES):
            case Err() as failed:
                return failed
            case Ok(body):
                return await self.reading.run(len(body), lambda: read_body(body))
        raise AssertionError("a result is Ok or Err")


def _wish(fields: Mapping[str, Any]) -> Result[Wish, GrammarError]:
    return validated(fields, NewTry).and_then(_checked)


def _checked(fields: NewTry) -> Result[Wish, GrammarError]:
    known = [each.value for each in Policy]
    if fields.enforcement not in known:
        return Err(attrs.evolve(_invalid(f"enforcement is one of {', '.join(known)}"), pointer="/enforcement"))
    policy = Policy(fields.enforcement)
    return Ok(Wish(kind=fields.kind, text=fields.text, backend=fields.backend or None, policy=policy))


def _invalid(message: str) -> GrammarError:
    return GrammarError(kind=ErrorKind.INVALID_SPEC, message=message)
