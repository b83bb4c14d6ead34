"""Serves files to the Chromium of this machine: it loads ES modules from a server only."""

import mimetypes
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

_TYPES = {".js": "text/javascript", ".json": "application/json", ".html": "text/html; charset=utf-8"}


@contextmanager
def serve_files(files: Mapping[str, bytes | Path]) -> Iterator[str]:
    """Yield an address of this machine below which files are served by name, with a secret part for other users."""
    root = f"/{secrets.token_urlsafe(16)}/"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix(root)
            content = files.get(name) if self.path.startswith(root) else None
            if content is None:
                return self.send_error(404)
            body = content.read_bytes() if isinstance(content, Path) else content
            kind = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{root}"
        finally:
            server.shutdown()
