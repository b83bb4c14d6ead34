"""Serves plotly.js, which plotly's wheel contains, so that the page asks no other host for it."""

from importlib.resources import files
from typing import Final

import plotly
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

PLOTLY_URL: Final = f"stepscope/plotly-{plotly.__version__}.min.js"
"""Address of plotly.js, relative to the page. It has the version, so that browsers may keep the file for ever."""
PLOTLY_PATH: Final = files("plotly") / "package_data" / "plotly.min.js"
"""plotly.js in plotly's wheel, about 5 MB."""


def _send(request: Request) -> Response:
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return FileResponse(str(PLOTLY_PATH), media_type="text/javascript", headers=headers)


def plotly_routes() -> list[Route]:
    """Return the route that the page's server needs for ``PLOTLY_URL``."""
    # one route, not one in a Mount: below a path, a proxy may strip it, and an inner route would not match the rest
    return [Route(f"/{PLOTLY_URL}", _send, middleware=[Middleware(GZipMiddleware, compresslevel=5)])]
