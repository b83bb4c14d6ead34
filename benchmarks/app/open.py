"""Seconds from the start of the page's program until it answers, and from the first visit to the visible failure.

Each round starts the program, and each visit has an empty browser cache. Prints the figures and, as the
last line, JSON. Needs Chromium and the development packages.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser

from tests.support.pages.browser import OPENED, free_port, open_browser, wait_until_up
from tests.support.servers.programs import Program

ROUNDS = 3
VISITS = 3
"""Visits of a round, the first of which is the first of the program."""


def main() -> None:
    """Start the page, visit it, and print the figures."""
    with open_browser() as browser:
        rounds = [_measure(browser) for _ in range(ROUNDS)]
    figures = {name: round(statistics.median(one[name] for one in rounds), 2) for name in rounds[0]}
    print(f"up after {figures['up_s']} s; the failure is visible after {figures['first_visit_s']} s more")
    print(json.dumps(figures))


def _measure(browser: Browser) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, (Path(name) / "log").open("w") as log:
        address, began = f"http://127.0.0.1:{(port := free_port())}", time.perf_counter()
        words = [sys.executable, "-m", "stepscope.app", *("--device", "cpu"), *("--runs", f"{name}/runs")]
        words += ["--port", str(port)]
        with subprocess.Popen(words, stdout=log, stderr=log) as process:
            try:
                wait_until_up(Program(pid=process.pid, log=Path(log.name)), address)
                up_s = time.perf_counter() - began
                visits = [_visit(browser, address) for _ in range(VISITS)]
            finally:
                process.terminate()
    return {"up_s": up_s, "first_visit_s": visits[0], "later_visit_s": statistics.median(visits[1:])}


def _visit(browser: Browser, address: str) -> float:
    """Return the seconds from the request of the page until the video, lanes and scores show the first failure."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_function(OPENED, polling="raf")
    visible_s = time.perf_counter() - began
    page.close()
    return visible_s


if __name__ == "__main__":
    main()
