"""The page in a browser: its process, and what a test does on it."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

CHROMIUM = Path("/usr/bin/chromium")
NEEDS_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium: apt-get update && apt-get install -y chromium"),
]
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
def open_browser() -> Iterator[Browser]:
    """Start Chromium without a window."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@contextmanager
def serve(*, data: Path, checkpoint: Path, runs: Path, more: Sequence[str] = ()) -> Iterator[str]:
    """Serve ``tests.app_page`` on a free port and yield its address; ``more`` options follow the usual ones."""
    options = ["--data", str(data), "--checkpoint", str(checkpoint), "--runs", str(runs), "--device", "cpu", *more]
    with _served("tests.app_page", *options, "--port") as address:
        yield address


@contextmanager
def serve_player(folder: Path) -> Iterator[str]:
    """Serve ``tests.player_page`` of a folder on a free port and yield its address."""
    with _served("tests.player_page", str(folder)) as address:
        yield address


def start_player(folder: Path, *, port: int) -> "subprocess.Popen[bytes]":
    """Serve ``tests.player_page`` of a folder until the process is killed."""
    process = _start("tests.player_page", str(folder), str(port))
    _wait(process, f"http://127.0.0.1:{port}")
    return process


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _served(module: str, *options: str) -> Iterator[str]:
    """Run a module that serves on the port that is its last argument."""
    port = free_port()
    process = _start(module, *options, str(port))
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(process, address)
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _start(module: str, *options: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def open_page(page: Page, address: str) -> None:
    """Open the page and wait until it is ready."""
    page.goto(address)
    wait_for_status(page, "Press Run|Upload a video")


def wait_for_status(page: Page, pattern: str, *, timeout_s: float = 30, status: str = STATUS) -> str:
    """Wait until a status line matches a pattern; return it."""
    matches = "([selector, pattern]) => RegExp(pattern).test(document.querySelector(selector)?.value ?? '')"
    try:
        page.wait_for_function(matches, arg=[status, pattern], timeout=1000 * timeout_s)
    except PlaywrightTimeout as error:
        said = page.evaluate("(selector) => document.querySelector(selector)?.value", status)
        raise AssertionError(f"{status} says {said!r} instead of {pattern!r}") from error
    return page.input_value(status)


def upload(page: Page, path: Path, pattern: str) -> str:
    """Upload a file and wait for a status that matches; return it."""
    page.set_input_files("#upload input[type=file]", path)
    return wait_for_status(page, pattern)


def run(page: Page) -> str:
    """Run and wait for the end; return the status."""
    page.click("#run")
    return wait_for_status(page, "^(⚠ )?Done")


def rows(page: Page) -> list[str]:
    """Return the texts of the player's transcript, a row each."""
    script = "[...document.querySelectorAll('.ss-row')].map((row) => row.textContent)"
    texts: list[str] = page.evaluate(script)
    return texts


def inspect(page: Page) -> dict[str, Any]:
    """Return what the player shows, as it says itself."""
    seen: dict[str, Any] = page.evaluate("document.querySelector('.ss').inspect()")
    return seen


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
