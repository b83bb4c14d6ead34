"""Serves the ES modules of a folder, and imports one of them from the script of a component."""

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

_NOT_LOADED: Final = "This part of the page did not load. Reload the page."


@dataclass(frozen=True, slots=True)
class Modules:
    """The ES modules of a folder, as they were when they were read."""

    sources: Mapping[str, bytes]
    """Their sources by their paths in the folder."""
    compressed: Mapping[str, bytes]
    """The same, compressed once: a first visit asks for all of them while the page's server is busy."""
    address: str
    """Address of the folder, relative to the page. It has a digest of all sources: browsers may keep them for ever."""

    @classmethod
    def read(cls, folder: Path) -> "Modules":
        """Read the modules of a folder and its subfolders."""
        sources = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.js"))}
        digest = sha256(repr(sources).encode()).hexdigest()[:16]
        compressed = {path: gzip.compress(source, compresslevel=5) for path, source in sources.items()}
        return cls(sources, compressed, f"stepscope/{digest}")

    def make_script(self, entry: str, *, events: Iterable[str] = (), settings: Mapping[str, Any] | None = None) -> str:
        """Return the ``js_on_load`` of a component: it calls ``mount`` of the module ``entry`` with Gradio's names.

        ``events`` are the names of those that the module triggers. ``settings`` are JSON values that never change,
        given to ``mount`` under this name. They are part of the script, because Gradio drops properties of a
        ``gr.HTML`` whose value is set before its tab is shown for the first time.
        """
        # Gradio offers the events whose names are quoted in the script, and runs it as the body of a function
        return f"""// triggers {json.dumps(list(events))}
import(new URL({json.dumps(f"{self.address}/{entry}")}, document.baseURI)).then(
  ({{ mount }}) => mount({{ element, trigger, props, server, watch, settings: {json.dumps(dict(settings or {}))} }}),
  () => {{ element.textContent = {json.dumps(_NOT_LOADED)}; }},
);
"""

    def make_preloads(self) -> str:
        """Return elements for the page's head, with which all modules load at once."""
        return "\n".join(f'<link rel="modulepreload" href="{self.address}/{path}">' for path in self.sources)

    def make_route(self) -> Route:
        """Return the route that the page's server needs. It asks for no login: the modules are no secret."""
        # one route, not one in a Mount: below a path, a proxy may strip it, and an inner route would not match the rest
        return Route(f"/{self.address}/{{path:path}}", self._send)

    async def _send(self, request: Request) -> Response:
        path = request.path_params["path"]
        if path not in self.sources:
            return PlainTextResponse("There is no such module.", 404)
        headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.sources[path], media_type="text/javascript", headers=headers)
        headers["Content-Encoding"] = "gzip"
        return Response(self.compressed[path], media_type="text/javascript", headers=headers)
