"""The page in a browser: its server process, and user actions."""

import signal
import socket
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.support.servers.programs import Program, start

CHROMIUM = next(filter(Path.exists, map(Path, ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium"))), None)
"""The headless shell needs 25 % less time to load pages."""
NEEDS_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium-headless-shell"),
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
START_S = 300.0
PATIENCE_MS = 120_000
expect.set_options(timeout=PATIENCE_MS)
STATUS = "#status [role=status]"
OPENED = """() => {
    const player = document.querySelector(".ss"), video = document.querySelector("#video video");
    const seen = player?.inspect?.();
    return Boolean(seen?.said.match(/^(Failure|Mistake) 1 of /) && seen.event && seen.frame >= 0
        && player.querySelector(".ss-failure") && document.querySelector("#scores .score")
        && video.readyState >= 2 && !video.seeking && Math.abs(video.currentTime - seen.time) < 0.01);
}"""
"""Whether the page has opened on a failure: selected, explained, with its picture, and with scores."""


@contextmanager
def open_browser(flags: Sequence[str] = ()) -> Iterator[Browser]:
    """Start Chromium without a window; ``flags`` are added to ``FLAGS``."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        _wait_longer(chromium)
        yield chromium
        chromium.close()


OPEN_FORM = """try {
    for (const one of ['form', 'new_run']) localStorage['stepscope:' + one] ??= 'open';
    for (const one of ['details', 'reviewing']) localStorage['stepscope:' + one] ??= 'yes';
} catch {}"""
"""Script that keeps the forms of a run open, as its user may choose: tests fill it in. They review, with details."""
WATCH = """if (!sessionStorage.watches) {
    sessionStorage.watches = "yes";
    for (const one of ['details', 'reviewing']) localStorage['stepscope:' + one] = 'no';
}"""
"""Script of a visitor, who watches without details, until a test chooses otherwise."""


def _wait_longer(chromium: Browser) -> None:
    """Give every page of a browser ``PATIENCE_MS`` for each condition: a busy machine is no failure."""
    new_page, new_context = chromium.new_page, chromium.new_context

    def open_page_patiently(**options: Any) -> Page:
        page = new_page(**options)
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(OPEN_FORM)
        return page

    def open_context_patiently(**options: Any) -> BrowserContext:
        context = new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(OPEN_FORM)
        return context

    patient: Any = chromium
    patient.new_page, patient.new_context = open_page_patiently, open_context_patiently


def serve(
    *, data: Path, checkpoint: Path, runs: Path, more: Sequence[str] = (), page: str = "app_page"
) -> AbstractContextManager[str]:
    """Serve a module of ``tests.support.servers`` that takes the options of the page; ``more`` appends options."""
    options = ["--data", str(data), "--checkpoint", str(checkpoint), "--runs", str(runs), "--device", "cpu", *more]
    return serve_page(page, *options, "--port")


def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def serve_page(module: str, *options: str) -> Iterator[str]:
    """Serve a module of ``tests.support.servers``, whose last argument is a free port; yield its address."""
    port = free_port()
    program = start(f"tests.support.servers.{module}", [*options, str(port)])
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_up(program, address)
        yield address
    finally:
        program.end()


def forget(page: Page, address: str) -> None:
    """Leave the page of an address with what it stored, as if the window were new; its clock and init scripts stay."""
    page.unroute_all(behavior="ignoreErrors")
    page.context.clear_permissions()
    page.context.clear_cookies()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"{address}/theme.css")  # of the same origin, and without a script that stores more
    page.evaluate("localStorage.clear(); sessionStorage.clear()")


def open_page(page: Page, address: str) -> None:
    """Open the page and wait until it is ready."""
    page.goto(address)
    wait_until_open(page)


def wait_until_open(page: Page) -> None:
    """Wait until the page shows its first video, or asks for one."""
    page.wait_for_function("""() => {
        const player = document.querySelector(".ss"), seen = player?.inspect?.();
        return seen?.video || /^Press Run/.test(player?.querySelector(".ss-empty").textContent);
    }""")


def choose_in_focus(page: Page, part: str, words: str) -> None:
    """Choose the first split, run, video or moment with these words in the head of the page."""
    page.click(f".focus [data-part={part}]")
    page.keyboard.type(words)
    page.locator(".focus [role=option][aria-selected=true]", has_text=words).wait_for()
    page.keyboard.press("Enter")


def wait_for_status(page: Page, pattern: str, *, timeout_s: float = 120, status: str = STATUS) -> str:
    """Wait until a status line matches a pattern; return it."""
    matches = "([selector, pattern]) => RegExp(pattern).test(document.querySelector(selector)?.textContent ?? '')"
    try:
        page.wait_for_function(matches, arg=[status, pattern], timeout=1000 * timeout_s)
    except PlaywrightTimeout as error:
        text = page.evaluate("(selector) => document.querySelector(selector)?.textContent", status)
        raise AssertionError(f"{status} is {text!r} instead of {pattern!r}") from error
    return page.locator(status).text_content() or ""


def upload(page: Page, path: Path, pattern: str) -> str:
    """Upload a file and wait for a status that matches; return it."""
    page.set_input_files("#upload input[type=file]", path)
    return wait_for_status(page, pattern)


def run(page: Page) -> str:
    """Run and wait for the end; return the status."""
    page.click("#run")
    return wait_for_status(page, "^(⚠ )?Done")


def rows(page: Page) -> list[str]:
    """Return the texts of the rows of the player's transcript."""
    script = "[...document.querySelectorAll('.ss-row')].map((row) => row.textContent)"
    texts: list[str] = page.evaluate(script)
    return texts


def inspect(page: Page) -> dict[str, Any]:
    """Return the player's state from its ``inspect()``."""
    seen: dict[str, Any] = page.evaluate("document.querySelector('.ss').inspect()")
    return seen


def hold_requests(page: Page, *, refuse: bool = False) -> None:
    """Hold what the player asks of the server until ``release_requests``, or let it fail as without a network.

    ``window.held`` counts. In the page itself: a route of the browser may not be there yet at the next key.
    """
    page.evaluate(
        """(refuse) => {
            const send = window.fetch, waiting = [];
            window.held = 0;
            window.fetch = (...asked) => {
                if (!String(asked[0]?.url ?? asked[0]).includes("component_server")) return send(...asked);
                window.held += 1;
                if (refuse) return Promise.reject(new TypeError("no network"));
                return new Promise((answer) => waiting.push(() => answer(send(...asked))));
            };
            window.releaseHeld = () => { window.fetch = send; for (const go of waiting) go(); };
        }""",
        refuse,
    )


def release_requests(page: Page) -> None:
    page.evaluate("window.releaseHeld()")


def wait_until_drawn(page: Page) -> None:
    """Wait for two animation frames: the player draws at most once in each."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def wait_until_up(program: Program, address: str) -> None:
    """Wait until a program answers at its address; end it if it does not."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and program.is_running:
        try:
            urllib.request.urlopen(address, timeout=2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    program.end(signal.SIGKILL)
    raise RuntimeError(f"the page did not start: {program.output()}")
