"""SVG, PNG and PDF of a figure, drawn by a Chromium of this machine. None is ever downloaded."""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

import kaleido
import plotly.graph_objects as go
from choreographer.browsers.chromium import Chromium

from stepscope.app.figures.paper import PIXELS_PER_INCH
from stepscope.engine.errors import EngineError

PictureFormat = Literal["svg", "png", "pdf"]

_NAMES: Final = ("chromium-headless-shell", "chromium", "google-chrome", "chrome-headless-shell", "headless_shell")
_PLAYWRIGHT: Final = (
    "chromium*/chrome-*/chrome",
    "chromium*/chrome-*/headless_shell",
    "chromium*/*/chrome-headless-shell",
)
PRINT_DPI: Final = 300
_TIMEOUT_S: Final = 45
_NUM_ATTEMPTS: Final = 2
"""A Chromium of a busy machine sometimes starts and never answers; the next one does."""
_one_browser = Lock()
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
            raise BrowserMissingError(f"BROWSER_PATH names no file: {named}; correct it, or write JSON or CSV")
        return Path(named)
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    found = [shutil.which(name) for name in _NAMES] + [Chromium.find_browser(skip_local=False)]
    found += [str(path) for pattern in _PLAYWRIGHT for path in sorted(cache.glob(pattern), reverse=True)]
    for path in found:
        if path and Path(path).is_file():
            return Path(path)
    raise BrowserMissingError(
        "SVG, PNG and PDF need Chromium, which is not installed; install chromium or chromium-headless-shell, "
        "or set BROWSER_PATH"
    )


def draw_picture(figure: go.Figure, file_format: PictureFormat) -> bytes:
    """Return a figure as SVG, PNG of 300 pixels per inch, or PDF. Raises ``EngineError`` if it cannot be drawn."""
    browser = find_browser()
    scale = PRINT_DPI / PIXELS_PER_INCH if file_format == "png" else 1
    options = {"format": file_format, "width": figure.layout.width, "height": figure.layout.height, "scale": scale}
    try:
        with _one_browser, ThreadPoolExecutor(1) as thread:  # the caller's thread may run an event loop
            for _ in range(_NUM_ATTEMPTS):
                if (content := thread.submit(asyncio.run, _draw(figure, options, browser)).result()) is not None:
                    return content
    except (RuntimeError, OSError, ValueError) as error:
        reason = str(error.args[0] if error.args else error).strip().partition("\n")[0] or type(error).__name__
        raise EngineError(f"{browser} cannot draw the figure: {reason}; try another in BROWSER_PATH") from error
    limit = f"no answer in {_NUM_ATTEMPTS} attempts of {_TIMEOUT_S} s"
    raise EngineError(f"{browser} cannot draw the figure: {limit}; try another in BROWSER_PATH")


async def _draw(figure: go.Figure, options: dict[str, Any], browser: Path) -> bytes | None:
    """Return a picture; None if the browser does not answer in time, also while it starts. It is always ended."""
    drawing = kaleido.Kaleido(n=1, path=str(browser), mathjax=False, timeout=_TIMEOUT_S)
    limit = asyncio.timeout(_TIMEOUT_S)
    try:
        async with limit, drawing:
            content: bytes = await drawing.calc_fig(figure, opts=options)
            return content
    except (RuntimeError, TimeoutError):  # choreographer turns the cancellation of a start into a RuntimeError
        if limit.expired():
            return None
        raise
    finally:
        process = getattr(drawing, "subprocess", None)
        if process is not None and process.poll() is None:
            _end_session(process)
            process.wait()
            await drawing.close()  # its threads read from the browser, and would keep this program from ending


def _end_session(process: subprocess.Popen[Any]) -> None:
    """Kill a process that was started in a session of its own, with those that it started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:  # Windows
        process.kill()
