"""Figures drawn by a Chromium of this machine, to which their files are served. None is ever downloaded."""

import asyncio
import base64
import logging
import os
import secrets
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final, Literal

import kaleido
import plotly.graph_objects as go
from choreographer import Browser, Tab
from choreographer.browsers.chromium import Chromium

from stepscope.app.figures.options import PIXELS_PER_INCH
from stepscope.engine.errors import EngineError, first_line

PictureFormat = Literal["svg", "png", "pdf"]

_NAMES: Final = ("chromium-headless-shell", "chromium", "google-chrome", "chrome-headless-shell", "headless_shell")
_PLAYWRIGHT: Final = (
    "chromium*/chrome-*/chrome",
    "chromium*/chrome-*/headless_shell",
    "chromium*/*/chrome-headless-shell",
)
PRINT_DPI: Final = 300
MAX_SIDE_PX: Final = 20_000
"""Longest side of a printed SVG, which a page sends."""
_TIMEOUT_S: Final = 45
_NUM_ATTEMPTS: Final = 2
"""A Chromium of a busy machine sometimes starts and never answers; the next one does."""
for _name in ("choreographer", "kaleido"):  # they log the end of the browser as an error
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class BrowserMissingError(EngineError):
    """Pictures of figures need a Chromium, and this machine has none."""


def find_browser() -> Path:
    """Return the Chromium that draws: that of ``BROWSER_PATH``, an installed one, or one of Playwright.

    Raises ``BrowserMissingError`` if there is none.
    """
    if named := os.environ.get("BROWSER_PATH"):
        if not Path(named).is_file():
            raise BrowserMissingError(f"BROWSER_PATH names no file: {named}; correct it")
        return Path(named)
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = [shutil.which(name) for name in _NAMES] + [Chromium.find_browser(skip_local=False)]
    found += [str(path) for pattern in _PLAYWRIGHT for path in sorted(cache.glob(pattern), reverse=True)]
    for path in found:
        if path and Path(path).is_file():
            return Path(path)
    raise BrowserMissingError(
        "this figure needs Chromium, which is not installed; install chromium or chromium-headless-shell, "
        "or set BROWSER_PATH"
    )


def draw_picture(figure: go.Figure, file_format: PictureFormat) -> bytes:
    """Return a figure as SVG, PNG of 300 pixels per inch, or PDF. Raises ``EngineError`` if it cannot be drawn."""
    scale = PRINT_DPI / PIXELS_PER_INCH if file_format == "png" else 1
    options = {"format": file_format, "width": figure.layout.width, "height": figure.layout.height, "scale": scale}

    def make(path: str) -> kaleido.Kaleido:
        return kaleido.Kaleido(n=1, path=path, mathjax=False, timeout=_TIMEOUT_S)

    content: bytes = _use(make, lambda drawing: drawing.calc_fig(figure, opts=options))
    return content


def evaluate(files: Mapping[str, bytes | Path], script: str) -> Any:
    """Return the value of a script, the body of an asynchronous function, on an empty page beside the files.

    Raises ``EngineError`` if there is no browser, or the script fails.
    """

    async def work(browser: Browser) -> Any:
        return await _run_script(await _open_page(browser, address), script)

    with serve_files({_PAGE: b"<!doctype html><body></body>", **files}) as address:
        return _use(Browser, work)


def print_svg(svg: str) -> bytes:
    """Return an SVG as a PDF of one page of its size. It is shown as a picture, which runs no script and loads nothing.

    Raises ``EngineError`` if it cannot be drawn.
    """

    async def work(browser: Browser) -> bytes:
        tab = await _open_page(browser, address)
        width, height = await _run_script(tab, _SHOW_SVG)
        if not 0 < min(width, height) <= max(width, height) <= MAX_SIDE_PX:
            raise ValueError(f"it has {width:g} x {height:g} pixels; at most {MAX_SIDE_PX} are possible")
        size = {"paperWidth": width / PIXELS_PER_INCH, "paperHeight": height / PIXELS_PER_INCH, "pageRanges": "1"}
        margins = dict.fromkeys(("marginTop", "marginBottom", "marginLeft", "marginRight"), 0)
        answer = await _send(tab, "Page.printToPDF", {"printBackground": True, **size, **margins})
        return base64.b64decode(answer["data"])

    content = svg.encode("utf-8", errors="replace")
    with serve_files({_PAGE: b"<!doctype html><body style='margin: 0'></body>", "figure.svg": content}) as address:
        pdf: bytes = _use(Browser, work)
        return pdf


_PAGE: Final = "page.html"
_SHOW_SVG: Final = """
const image = new Image();
image.src = "figure.svg";
image.style.display = "block";
try { await image.decode(); } catch { throw new Error("it is no SVG"); }
document.body.append(image);
const { width, height } = image.getBoundingClientRect();
return [width, height];
"""
_LOADED: Final = 'await new Promise((go) => document.readyState === "complete" ? go() : addEventListener("load", go));'


async def _open_page(browser: Browser, address: str) -> Tab:
    tab = await browser.create_tab()
    await _send(tab, "Page.navigate", {"url": f"{address}{_PAGE}"})  # answers when the page has begun
    return tab


async def _run_script(tab: Tab, script: str) -> Any:
    expression = f"(async () => {{ {_LOADED}\n{script} }})()"
    options = {"expression": expression, "awaitPromise": True, "returnByValue": True}
    answer = await _send(tab, "Runtime.evaluate", options)
    if problem := answer.get("exceptionDetails"):
        raise RuntimeError(problem.get("exception", {}).get("description") or problem["text"])
    return answer["result"].get("value")


async def _send(tab: Tab, command: str, options: dict[str, Any]) -> Any:
    answer = await tab.send_command(command, options)
    if "error" in answer:
        raise RuntimeError(answer["error"]["message"])
    return answer["result"]


def _use(make: Callable[[str], Browser], work: Callable[[Any], Awaitable[Any]]) -> Any:
    """Return what some work with a new browser returns. Raises ``EngineError`` if it fails."""
    browser = find_browser()
    try:
        with ThreadPoolExecutor(1) as thread:  # the caller's thread may run an event loop
            for _ in range(_NUM_ATTEMPTS):
                if (content := thread.submit(asyncio.run, _attempt(make, work, browser)).result()) is not None:
                    return content
    except (RuntimeError, OSError, ValueError) as error:
        reason = first_line(error if isinstance(error, OSError) else Exception(*error.args[:1]))
        raise EngineError(f"{browser.name} cannot draw the figure: {reason}; try another in BROWSER_PATH") from error
    limit = f"no answer in {_NUM_ATTEMPTS} attempts of {_TIMEOUT_S} s"
    raise EngineError(f"{browser.name} cannot draw the figure: {limit}; try another in BROWSER_PATH")


async def _attempt(make: Callable[[str], Browser], work: Callable[[Any], Awaitable[Any]], browser: Path) -> Any:
    """Return the result; None if the browser does not answer in time, also while it starts. It is always ended."""
    drawing = make(str(browser))
    limit = asyncio.timeout(_TIMEOUT_S)
    try:
        async with limit, drawing:
            return await work(drawing)
    except (RuntimeError, TimeoutError):  # choreographer turns the cancellation of a start into a RuntimeError
        if limit.expired():
            return None
        raise
    finally:
        process = getattr(drawing, "subprocess", None)
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # it has a session of its own, with those that it started
            process.wait()
            await drawing.close()  # its threads read from the browser, and would keep this program from ending


_TYPES: Final = {
    ".js": "text/javascript",
    ".json": "application/json",
    ".html": "text/html; charset=utf-8",
    ".svg": "image/svg+xml",
}


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
            self.send_response(200)
            self.send_header("Content-Type", _TYPES[Path(name).suffix])
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
