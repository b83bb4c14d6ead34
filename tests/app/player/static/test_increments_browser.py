"""A streaming run reaches the player in increments, and a lost response is requested again."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, forget, hold_requests, inspect, release_requests, serve_page
from tests.support.reviews.reviewing import watched
from tests.support.servers.stream_page import STEP

pytestmark = NEEDS_CHROMIUM
UNPACKED = """() => {
    const plain = (value) => ArrayBuffer.isView(value) ? [...value] : value;
    const data = document.querySelector('.ss').unpacked();
    return JSON.parse(JSON.stringify(data, (_, value) => plain(value)));
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("stream")
    write_h264(folder / "a.mp4", moving_square(40, shade=90), fps=2)
    with serve_page("stream_page", str(folder)) as url:
        yield url


@pytest.fixture
def page(window: Page, address: str) -> Iterator[Page]:
    forget(window, address)
    with watched(window):
        window.goto(address)
        window.click("#begin")
        wait_for_frames(window, STEP)
        yield window


def wait_for_frames(page: Page, num_frames: int) -> None:
    page.wait_for_function(f"document.querySelector('.ss')?.unpacked()?.times.length === {num_frames}")


def compare_with_the_whole(page: Page) -> None:
    """Compare the player's incremental data with the unpacked whole run."""
    grown: dict[str, Any] = page.evaluate(UNPACKED)
    counts = inspect(page)["counts"]
    page.evaluate("document.querySelector('.ss').unpacked().isGrown = true")
    page.click("#whole")
    page.wait_for_function("!document.querySelector('.ss').unpacked().isGrown")
    whole: dict[str, Any] = page.evaluate(UNPACKED)
    assert set(grown) == set(whole)
    for name in whole:
        assert grown[name] == whole[name], name
    assert counts == inspect(page)["counts"]


@pytest.mark.slow
def test_the_figure_grows_with_the_run_and_a_lost_answer_is_asked_for_again(page: Page) -> None:
    last = """() => {
        const line = document.querySelector('.ss-figure').data[0], run = document.querySelector('.ss').unpacked();
        return line.x.at(-1) === run.times.at(-1);
    }"""
    page.wait_for_selector(".ss-figure .js-line", state="attached")
    page.click("#step")
    wait_for_frames(page, 2 * STEP)
    page.wait_for_function(last)
    hold_requests(page, refuse=True)
    page.click("#step")
    page.wait_for_function("window.held >= 2")
    assert page.evaluate(UNPACKED)["times"][-1] == (2 * STEP - 1) / 2
    release_requests(page)
    wait_for_frames(page, 3 * STEP)
    compare_with_the_whole(page)


def test_a_lost_connection_is_said_until_the_server_answers_or_has_ended_the_run(page: Page) -> None:
    line = page.locator("#status .status-line")
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p id=status><b class=status-line>Running.</b></p>')")
    hold_requests(page, refuse=True)
    expect(line).to_have_text("The connection to the server was lost: this continues when it answers again.")
    release_requests(page)
    expect(line).to_have_text("The server answers again.")
    page.click("#step")
    wait_for_frames(page, 2 * STEP)
    hold_requests(page, refuse=True)
    expect(line).to_contain_text("was lost")
    page.evaluate("""() => {
        const answer = () => new Response("null", { headers: { "content-type": "application/json" } });
        window.fetch = async () => answer();
    }""")
    expect(line).to_have_text("The server was started again, which has ended this.")
