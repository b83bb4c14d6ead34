"""The page below a path of another host: behind a proxy that strips the path, and behind one that keeps it."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page
from websockets.sync.client import connect

from stepscope.app.server.routes import PLOTLY_URL, SPEECH_URL
from tests.support.pages.browser import NEEDS_CHROMIUM, run, serve, wait_until_open
from tests.support.servers.proxy import serve_proxy

pytestmark = NEEDS_CHROMIUM

PATH = "/user/ann/page"
DRAWN = "document.querySelector('#player .ss-signals .main-svg')"


@pytest.fixture(scope="module")
def direct(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "users").write_text("ann:tower\n")
    more = ["--root-path", f"{PATH}/", "--auth", str(folder / "users")]
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=folder / "runs", more=more) as address:
        yield address


@pytest.fixture(scope="module", params=[True, False], ids=["strips", "keeps"])
def host(direct: str, request: pytest.FixtureRequest) -> Iterator[str]:
    with serve_proxy(direct, prefix=PATH, strips=request.param) as host:
        yield host


@pytest.fixture
def page(browser: Browser, host: str) -> Iterator[Page]:
    """Log in on the page; a request that is answered with an error, or that leaves the path, fails the test."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    answers: list[tuple[int, str]] = []
    page.on("response", lambda response: answers.append((response.status, response.url)))
    page.goto(f"{host}{PATH}")
    page.get_by_label("username").fill("ann")
    page.get_by_label("password").fill("tower")
    page.get_by_role("button", name="Login").click()
    wait_until_open(page)
    yield page
    page.close()
    asked = [(status, url) for status, url in answers if not url.startswith(("data:", "blob:"))]
    assert [answer for answer in asked if answer[0] >= 400 and not answer[1].endswith("/favicon.ico")] == []
    assert [url for _, url in asked if not url.startswith(f"{host}{PATH}") and not url.endswith("/favicon.ico")] == []


@pytest.mark.slow
@pytest.mark.parametrize("host", [True], ids=["strips"], indirect=True)
def test_a_page_below_a_path_runs_draws_and_plays(page: Page, host: str) -> None:
    assert run(page).startswith("Done: 12 frames in ")
    page.wait_for_function(DRAWN)
    page.wait_for_function("document.querySelector('#video video').readyState >= 2")
    assert page.url.startswith(f"{host}{PATH}/?")
    said = page.evaluate(f"fetch('{SPEECH_URL}?text=Go').then((reply) => reply.status)")
    assert said in (200, 503), "503 without a speech program"


def test_routes_for_programs_are_below_the_path(host: str) -> None:
    with httpx.Client(base_url=f"{host}{PATH}", headers={"origin": host}, follow_redirects=True) as client:
        script = client.get(f"/{PLOTLY_URL}")
        assert script.is_success
        assert script.headers["content-encoding"] == "gzip"
        assert client.get("/status").status_code == 401
        assert client.post("/login", data={"username": "ann", "password": "tower"}).is_success
        assert client.get("/status").json()["num_workers"] == 1
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    address = f"{host}{PATH}/ws/streaming/a".replace("http", "ws", 1)
    with connect(address, additional_headers={"cookie": cookies}, proxy=None) as socket:
        socket.send(json.dumps({"type": "prefill", "messages": [{"role": "user", "content": "What is next?"}]}))
        kinds = [json.loads(socket.recv(timeout=120))["type"] for _ in range(2)]
    assert kinds == ["queue_done", "prefill_done"]
