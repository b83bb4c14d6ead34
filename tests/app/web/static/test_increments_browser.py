"""A streaming run reaches the player in increments, and a lost response is requested again."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Request, expect

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


def stream_of(request: Request) -> Any:
    """Return the stream id of a request for frames; None for a different request."""
    return (request.post_data_json or {})["data"]["stream"] if "component_server" in request.url else None


def wait_for_question(page: Page) -> Any:
    """Wait until the player requests frames; return the stream id."""
    with page.expect_request(lambda request: stream_of(request) is not None) as requested:
        pass
    return stream_of(requested.value)


def compare_with_the_whole(page: Page) -> dict[str, Any]:
    """Compare the player's incremental data with the unpacked whole run; return it."""
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
    return whole


@pytest.mark.slow
def test_increments_that_come_faster_than_the_page_draws_all_arrive(page: Page) -> None:
    page.click("#burst")
    wait_for_frames(page, 101 * STEP)
    assert page.locator(".ss-kind").count() == 0, "nothing is judged yet, which is not the same as no failure"
    page.evaluate("document.querySelector('.ss').focus()")
    page.keyboard.press("n")
    expect(page.locator(".ss-said")).to_have_text("The run still streams: its failures are known once it ends.")
    whole = compare_with_the_whole(page)
    expect(page.locator(".ss-said")).to_have_text("")
    assert any(whole["differences"])
    num_rows = len(whole["rows"])
    assert num_rows > 900
    assert page.locator(".ss-row").count() <= 240, "few rows are in the page, and all can be reached"
    page.evaluate("document.querySelector('.ss-rows').scrollTop = 1e9")
    page.wait_for_selector(f".ss-row[data-row='{num_rows - 1}']")
    assert page.locator(".ss-row").count() <= 240
    page.evaluate("document.querySelector('.ss-rows').scrollTop = 0")
    page.wait_for_selector(".ss-row[data-row='0']")
    page.locator(".ss-row").first.focus()
    for _ in range(300):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.row") == "300"


@pytest.mark.slow
def test_the_figure_grows_with_the_run_that_is_shown_and_a_lost_answer_is_asked_for_again(page: Page) -> None:
    last = """() => {
        const line = document.querySelector('.ss-figure').data[0], run = document.querySelector('.ss').unpacked();
        return line.x.at(-1) === run.times.at(-1);
    }"""
    page.wait_for_selector(".ss-figure .js-line", state="attached")
    page.keyboard.press("+")
    for number in (2, 3):
        page.click("#step")
        wait_for_frames(page, number * STEP)
        page.wait_for_function(last)
    before = wait_for_question(page)
    page.click("#begin")
    with page.expect_request(lambda request: stream_of(request) not in (None, before)):
        pass
    assert before not in [wait_for_question(page) for _ in range(4)]
    page.click("#step")
    wait_for_frames(page, 2 * STEP)
    hold_requests(page, refuse=True)
    page.click("#step")
    page.wait_for_function("window.held >= 2")
    assert page.evaluate(UNPACKED)["times"][-1] == (2 * STEP - 1) / 2
    release_requests(page)
    wait_for_frames(page, 3 * STEP)
    compare_with_the_whole(page)
