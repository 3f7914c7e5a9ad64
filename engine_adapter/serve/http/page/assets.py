"""The page's own files, as they are in the package."""

from importlib.resources import files
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FILES: Final = MappingProxyType(
    {
        "/": ("index.html", "text/html"),
        "/page/page.css": ("page.css", "text/css"),
        "/page/page.js": ("page.js", "text/javascript"),
        "/page/icon.svg": ("icon.svg", "image/svg+xml"),
    }
)

HEADERS: Final = MappingProxyType(
    {
        "Content-Security-Policy": "; ".join(
            (
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "img-src 'self'",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
            )
        ),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    }
)
"""With every reply of the page: only its own files run in it, nobody frames it, and no text can become a script."""


def asset_routes() -> list[Route]:
    return [_route(path, *of) for path, of in _FILES.items()]


def _route(path: str, name: str, media_type: str) -> Route:
    content = files("engine_adapter.serve.http.page").joinpath("static", name).read_bytes()

    async def asset(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=HEADERS)

    return Route(path, asset)
