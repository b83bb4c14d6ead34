"""The page opens on a failure of the bundled run, and shows the way from there."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    OPENED,
    WATCH,
    choose_in_focus,
    inspect,
    run,
    serve,
    wait_for_status,
)
from tests.support.paths import ASSETS

pytestmark = NEEDS_CHROMIUM
SENTENCE = "The assistant noted the start of “put on the head” instead of “mount the block”."
LINE = f"Mistake 1 of 5 · 0:15.0 · {SENTENCE} · N: next mistake · ?: all keys"
IS_PAINTED = """() => {
    const canvas = document.querySelector(".ss-canvas"), { width, height } = canvas;
    return canvas.getContext("2d").getImageData(0, 0, width, height).data.some((value) => value > 0);
}"""
IS_IN_VIEW = """(part) => {
    const { left, right, top, bottom } = part.getBoundingClientRect();
    const isSeen = (x) => part.contains(document.elementFromPoint(x, (top + bottom) / 2));
    return [left + 2, (left + right) / 2, right - 2].every(isSeen);
}"""
STOPS = ["What the assistant is for", "Lanes", "Signals and thresholds", "Mistakes", "Batch and Reviews"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data, checkpoint = ASSETS / "demo" / "test.json", ASSETS / "checkpoint"
    with serve(data=data, checkpoint=checkpoint, runs=tmp_path_factory.mktemp("runs")) as url:
        yield url


@pytest.fixture
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser that has never seen the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_init_script(WATCH)
    yield context
    context.close()


@pytest.fixture
def page(visitor: BrowserContext, address: str) -> Page:
    return visit(visitor, address)


def visit(visitor: BrowserContext, address: str) -> Page:
    """Open a new page, and wait for the failure without any action."""
    page = visitor.new_page()
    page.goto(address)
    page.wait_for_function(OPENED)
    return page


def end_tour(page: Page) -> None:
    page.keyboard.press("Escape")
    page.locator(".ss-tour").wait_for(state="detached")


def wait_for_line(page: Page, start: str) -> None:
    page.wait_for_function("(start) => document.querySelector('.ss').inspect().said.startsWith(start)", arg=start)


def test_the_first_failure_is_shown_without_a_click_and_the_tour_has_five_stops(page: Page) -> None:
    page.wait_for_function("document.querySelector('.ss').inspect().frame >= 0")  # drawn
    seen = inspect(page)
    assert (seen["video"], seen["said"], seen["frame"], seen["cursor"]) == ("robot-permuted", LINE, 30, 0)
    assert page.evaluate("document.querySelector('#video video').currentTime") == pytest.approx(15.0, abs=0.01)
    assert page.evaluate(IS_PAINTED)
    assert page.locator("#scores .score").first.inner_text().split("\n")[-1] == "Failures, in 5 mistakes"
    assert page.locator("#scores .score b").first.inner_text() == "9"
    recording = "A recording: the bundled model watched somebody build the robot and should have said"
    assert page.inner_text(".intro").startswith(recording)
    card = " ".join(page.locator(".ss-failure").inner_text().split())
    assert card.startswith(f"0:15.0 {SENTENCE} Its states of “mount the block” and “put on the head” are wrong, the")
    assert "Once it is corrected, 7 later failures vanish. It would be right if the prompt numbered the steps" in card
    assert re.search("->|probability|cause", card) is None, "these are details"
    bottoms = page.evaluate("""[...document.querySelectorAll("#video, .ss-failure, .ss-signals .main-svg")].map(
        (part) => part.getBoundingClientRect().bottom)""")
    assert max(bottoms) <= 900, "video, sentence and signals are in view together"
    assert page.locator(".ss-one-failure").filter(visible=True).count() == 0
    assert page.locator(".ss-said").evaluate(IS_IN_VIEW), "the line is covered or out of view"
    assert page.is_enabled("#run")
    tour = page.locator(".ss-tour")
    for number, title in enumerate(STOPS, start=1):
        assert tour.locator("h3").inner_text() == title
        assert f"{number} of 5" in tour.inner_text()
        page.keyboard.press("ArrowRight")
    assert inspect(page)["frame"] == 30, "the arrows belong to the tour"
    page.keyboard.press("n")
    wait_for_line(
        page, "Mistake 2 of 5 · 0:18.0 · The assistant noted the end of “put on the head” 2.5 s early, and noted"
    )
    tour.get_by_role("button", name="done").click()
    tour.wait_for(state="detached")
    assert page.evaluate("document.activeElement.className") == "ss-canvas"
    for key in ("1", "d", "e"):
        page.keyboard.press(key)
        wait_for_line(page, f"{key.upper()} is a key of reviewing")
    assert inspect(page)["waiting"] == 0, "who watches changes nothing"
    page.keyboard.press("p")
    page.locator(".ss-failure summary").click()
    page.locator(".ss-one-failure").nth(1).click()
    page.wait_for_function("document.querySelector('.ss').inspect().stop === 'wrong state'")
    page.keyboard.press("#")
    expect(page.locator(".ss-now")).to_contain_text("frame 31 of 85")
    page.reload()
    page.wait_for_function(OPENED)
    expect(page.locator(".ss-row").nth(1)).to_contain_text("S2->start")  # details are remembered
    page.set_viewport_size({"width": 390, "height": 844})
    sheet = page.locator("[data-do=showEvidence]")
    expect(page.locator(".ss-now")).to_be_hidden()
    sheet.click()
    expect(page.locator(".ss-now")).to_be_visible()
    sheet.click()
    expect(page.locator(".ss-now")).to_be_hidden()
    sheet.click()
    page.keyboard.press("Escape")
    expect(page.locator(".ss-now")).to_be_hidden()
    page.locator(".ss-lanes").evaluate("(lanes) => lanes.scrollIntoView()")
    page.wait_for_function("document.querySelector('#video').getBoundingClientRect().top === 0")  # it is pinned


@pytest.mark.slow
def test_a_reload_returns_to_the_failure_and_the_example_is_an_upload(page: Page) -> None:
    end_tour(page)
    selected = inspect(page)["event"]["key"]
    page.wait_for_function("(key) => new URLSearchParams(location.search).get('event') === key", arg=selected)
    link, held = page.url, list[Route]()
    page.route("**/queue/join*", lambda route: held.append(route))  # playwright takes no method of a list
    page.reload()
    expect(page.locator("#player .ss-empty")).to_have_text("Opening robot-permuted...")
    for route in held:
        route.continue_()
    page.unroute_all()
    page.wait_for_function("document.querySelector('.ss').inspect().event && document.querySelector('.ss-failure')")
    assert inspect(page)["time"] == pytest.approx(15.0, abs=0.01)
    assert page.url == link
    assert inspect(page)["said"].startswith("Mistake 1 of 5")
    assert page.locator("#status").is_hidden(), "nothing happens"
    choose_in_focus(page, "video", "boat-hard")
    page.wait_for_function("document.querySelector('.ss').inspect().video === 'boat-hard-permuted'")
    page.click("#example")
    wait_for_status(page, "^An example of an upload: house-hard-permuted.mp4, .* turns of val.json. Press Run.$")
    assert page.input_value("#goal textarea") == "build the house"
    assert "S1: " in page.input_value("#steps textarea")
    run(page)
    assert page.locator("#scores .score b").first.inner_text() == "1"


@pytest.mark.slow
def test_failures_of_a_kind_are_found_in_all_videos_and_told_as_a_story(page: Page) -> None:
    end_tour(page)
    page.keyboard.press("*")
    wait_for_line(page, "Moment 1 of the story")
    page.get_by_role("button", name="in all videos").click()
    wait_for_status(page, r"\d+ moments in \d+ videos", status="#videos [role=status]")
    expect(page.locator("#search input, #search textarea")).to_have_value('failure:"wrong update"')
    page.locator("#videos .wb-moment").first.click()
    expect(page.locator(".ss-hit")).to_contain_text("Moment 1 of")
    page.keyboard.press("*")
    wait_for_line(page, "Moment 2 of the story")
    page.locator(".ss").get_by_role("tab", name="Story").click()
    page.wait_for_function("[...document.querySelectorAll('.ss-story img')].some((one) => one.naturalWidth > 0)")
    assert "The hand takes a part that is not needed." in page.locator(".ss-story").inner_text()
    for number, caption in enumerate(("It takes a decoy.", "Here, too."), start=1):
        page.get_by_role("textbox", name=f"Caption of moment {number}").fill(caption)
    page.get_by_role("button", name="publish…").click()
    wait_for_status(page, "2 moments in 2 videos of “bundled”: about", status="#publish_size")
