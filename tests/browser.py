"""The page in a browser: its process, and what a test does on it."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
START_S = 60.0
STATUS = "#status textarea"


@contextmanager
def serve(*, data: Path, checkpoint: Path) -> Iterator[str]:
    """Serve the page on a free port and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--data", str(data), "--checkpoint", str(checkpoint), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "app", *options], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=20)


def open_page(page: Page, address: str) -> None:
    """Open the page and wait until it is ready."""
    page.goto(address)
    wait_for_status(page, "Press Run|Upload a video")


def wait_for_status(page: Page, pattern: str, *, timeout_s: float = 30) -> str:
    """Wait until the status line matches a pattern; return it."""
    matches = "([selector, pattern]) => RegExp(pattern).test(document.querySelector(selector)?.value ?? '')"
    page.wait_for_function(matches, arg=[STATUS, pattern], timeout=1000 * timeout_s)
    return page.input_value(STATUS)


def upload(page: Page, path: Path, pattern: str) -> str:
    """Upload a file and wait for a status that matches; return it."""
    page.set_input_files("#upload input[type=file]", path)
    return wait_for_status(page, pattern)


def run(page: Page) -> str:
    """Run and wait for the end; return the status."""
    page.click("#run")
    return wait_for_status(page, "^(⚠ )?Done")


def rows(page: Page, table: str = "#transcript") -> list[list[str]]:
    """Return the texts of a table's cells that are drawn."""
    script = """table => [...document.querySelectorAll(`${table} [role=row]`)].map(
        row => [...row.querySelectorAll('[role=gridcell]')].map(cell => cell.innerText.trim())
    ).filter(cells => cells.length)"""
    cells: list[list[str]] = page.evaluate(script, table)
    return cells


def _wait(process: "subprocess.Popen[bytes]", address: str) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=2).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    process.kill()
    output, _ = process.communicate()
    raise RuntimeError(f"the page did not start: {output.decode()}")
