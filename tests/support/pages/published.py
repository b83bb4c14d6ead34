"""Published players: how tests write, serve and watch them."""

import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page

from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.publish.writer import Source, write_player
from stepscope.eval.data.loading import read_split
from stepscope.eval.reports.scoring import ScoreSettings
from stepscope.eval.runs.folder import RunFolder
from tests.support.pages.browser import free_port
from tests.support.streams.fakes import count_letters


def make_source(run: RunFolder, *, videos: Sequence[str] = ()) -> Source:
    """Return a run to publish, with a text encoder that needs no model."""
    source = Source(
        name=run.path.resolve().name,
        run=run,
        settings=run.settings() or {},
        entries=read_split(run.split_path()).entries,
        scoring=ScoreSettings(text_encoder="letters"),
        encode=count_letters,
        encoder={"text_encoder": "letters"},
    )
    return source.choose(videos) if videos else source


def publish(run: RunFolder, out: Path, *, videos: Sequence[str] = (), **options: Any) -> dict[str, str]:
    """Publish a run; return the videos that were left out."""
    *_, last = write_player(out, make_source(run, videos=videos), **{"files": "copy", **options})
    return dict(last.problems)


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder with ``python -m http.server`` and yield its address."""
    port = free_port()
    command = [sys.executable, "-u", "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()  # "Serving HTTP on ..."
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60).close()
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


class Traffic:
    """The requests of a page, and the problems that it reports."""

    def __init__(self, page: Page) -> None:
        self.addresses = list[str]()
        self.problems = list[str]()
        page.on("request", lambda request: self.addresses.append(request.url))
        page.on("response", self._check)
        page.on("requestfailed", lambda request: self.problems.append(f"{request.failure}: {request.url}"))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)

    def _check(self, response: object) -> None:
        status, url = response.status, response.url  # type: ignore[attr-defined]
        if status >= 400:
            self.problems.append(f"{status}: {url}")

    def elsewhere(self, address: str) -> list[str]:
        """Return the requests that did not go below ``address``."""
        origin = "/".join(address.split("/")[:3])
        return [url for url in self.addresses if not url.startswith((address, f"blob:{origin}/", "data:"))]


def open_player(page: Page, url: str) -> None:
    """Open a video and wait until its run is shown."""
    page.goto(url)
    page.wait_for_selector(".ss-states")


def open_charts(page: Page) -> None:
    """Open the charts of the table page and wait until all are drawn."""
    page.click("summary >> text=Charts")
    page.wait_for_function(
        "(number) => document.querySelectorAll('.charts .main-svg[role=img]').length === number", arg=len(CHARTS)
    )


def wait_for_time(page: Page, time_s: float) -> None:
    """Wait until the playhead is at a time."""
    page.wait_for_function(
        "(time) => Math.abs(document.querySelector('.ss')?.inspect?.().time - time) < 0.01", arg=time_s
    )


def link_of(page: Page) -> dict[str, str]:
    """Return the parameters of the address."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}
