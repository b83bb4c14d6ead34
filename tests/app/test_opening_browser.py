"""The page opens on a failure of the bundled run, and shows the way from there."""

import re
from collections.abc import Iterator
from zipfile import ZipFile

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.app.test_accessibility_browser import violations
from tests.support.pages.browser import NEEDS_CHROMIUM, OPENED, inspect, run, serve, wait_for_status
from tests.support.paths import ASSETS

pytestmark = NEEDS_CHROMIUM
LINE = (
    "Failure 1 of 4 · ◇ wrong update: S2->start, with no reference near · 0:09.5 · "
    "N: next failure · Space: play · ?: all keys"
)
IS_PAINTED = """() => {
    const canvas = document.querySelector(".ss-canvas"), { width, height } = canvas;
    return canvas.getContext("2d").getImageData(0, 0, width, height).data.some((value) => value > 0);
}"""
IS_IN_VIEW = """(part) => {
    const { left, right, top, bottom } = part.getBoundingClientRect();
    const isSeen = (x) => part.contains(document.elementFromPoint(x, (top + bottom) / 2));
    return [left + 2, (left + right) / 2, right - 2].every(isSeen);
}"""
HIDDEN_PX = "(part) => ((box) => box.scrollHeight - box.clientHeight)(document.querySelector(part))"
STOPS = ["The video and the model", "Lanes", "Signals and thresholds", "Failures", "Batch and Reviews"]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    data, checkpoint = ASSETS / "demo" / "test.json", ASSETS / "checkpoint"
    with serve(data=data, checkpoint=checkpoint, runs=tmp_path_factory.mktemp("runs")) as url:
        yield url


@pytest.fixture
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """Return a browser that has never seen the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
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


def test_a_run_is_studied_beside_questions_without_the_form(visitor: BrowserContext, address: str) -> None:
    visitor.add_init_script("""if (!sessionStorage.isOpen) {
        sessionStorage.isOpen = true;
        delete localStorage['stepscope:form'];
    }""")
    page = visit(visitor, address)
    fold = page.get_by_role("button", name="Video, task, settings")
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(page.locator("#goal")).to_be_hidden()
    expect(page.locator("#run")).to_be_in_viewport()
    expect(page.locator("#question")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.locator("#question textarea")).to_be_focused()
    stage, question = page.locator("#shown_run").bounding_box(), page.locator("#question").bounding_box()
    assert stage is not None
    assert question is not None
    assert question["x"] > stage["x"] + stage["width"]
    assert question["y"] + question["height"] < 900
    fold.click()
    page.click("#theme")
    page.reload()
    page.wait_for_function(OPENED)
    expect(page.locator("#theme")).to_have_attribute("aria-pressed", "true")
    assert page.evaluate("document.body.classList.contains('dark')")
    expect(page.locator("#goal")).to_be_visible()
    page.get_by_role("button", name="Ask", exact=True).first.click()
    expect(page.locator("#question")).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.locator(".ss-figure .legendtext")).to_have_count(0)  # it would lie on the curves
    parts = ("#video", ".ss-said", ".ss-next", ".ss-now", ".ss-rows", ".ss-lanes")
    below = [page.locator(part).bounding_box() for part in parts]
    tops = [box["y"] for box in below if box]
    assert tops == sorted(tops)
    assert len(tops) == len(parts)


def test_the_first_failure_is_shown_without_a_click_and_the_tour_has_five_stops(page: Page) -> None:
    page.wait_for_function("document.querySelector('.ss').inspect().frame >= 0")  # drawn
    seen = inspect(page)
    assert (seen["video"], seen["said"], seen["frame"], seen["cursor"]) == ("robot-hard", LINE, 19, 0)
    assert page.evaluate("document.querySelector('#video video').currentTime") == pytest.approx(9.5, abs=0.01)
    assert page.evaluate(IS_PAINTED)
    assert page.locator("#scores .score").first.inner_text().split("\n")[-1] == "Failures"
    assert page.locator("#scores .score b").first.inner_text() == "4"
    assert "cause decoy" in " ".join(page.locator(".ss-failure").inner_text().split())
    card, video, lanes = (page.locator(one).bounding_box() for one in (".ss-tour", "#video", ".ss-canvas"))
    assert card is not None
    assert video is not None
    assert lanes is not None
    assert video["y"] <= card["y"] < card["y"] + card["height"] <= lanes["y"], "it lies on the failure in the lanes"
    assert page.locator(".ss-said").evaluate(IS_IN_VIEW), "the line is covered or out of view"
    assert page.is_enabled("#run")
    tour = page.locator(".ss-tour")
    for number, title in enumerate(STOPS, start=1):
        assert tour.locator("h3").inner_text() == title
        assert f"{number} of 5" in tour.inner_text()
        box = tour.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900
        page.keyboard.press("ArrowRight")
    assert tour.locator("h3").inner_text() == STOPS[-1]
    page.keyboard.press("ArrowLeft")
    assert tour.locator("h3").inner_text() == STOPS[-2]
    assert inspect(page)["frame"] == 19, "the arrows belong to the tour"
    page.keyboard.press("n")
    wait_for_line(page, "Failure 2 of 4 · ✕ missed")
    tour.get_by_role("button", name="next").click()
    tour.get_by_role("button", name="done").click()
    tour.wait_for(state="detached")
    assert page.evaluate("document.activeElement.className") == "ss-canvas"


@pytest.mark.slow
def test_a_reload_returns_to_the_failure_videos_are_listed_and_the_example_is_an_upload(page: Page) -> None:
    end_tour(page)
    page.keyboard.press("n")
    wait_for_line(page, "Failure 2 of 4 · ✕ missed")
    page.keyboard.press("p")
    wait_for_line(page, "Failure 1 of 4 · ◇ wrong update")
    selected = inspect(page)["event"]["key"]
    page.wait_for_function("(key) => new URLSearchParams(location.search).get('event') === key", arg=selected)
    link = page.url
    page.reload()
    wait_for_status(page, "^robot-hard, 0:46, with its saved run. Press Run to stream it again.$")
    page.wait_for_function("document.querySelector('.ss').inspect().event && document.querySelector('.ss-failure')")
    assert inspect(page)["time"] == pytest.approx(9.5, abs=0.01)
    assert page.url == link
    assert "Failure 1 of 4 · ◇ wrong update" in inspect(page)["said"]
    page.click("#chosen input")
    labels = [label.strip("✓ \n") for label in page.locator("#chosen [role=option]").all_inner_texts()]
    assert labels[0] == "tower-hard", "that of most failures"
    assert labels[-1] == "tower-permuted"
    assert len(labels) == 16
    page.get_by_role("option", name=re.compile("^(✓ )?toy-truck-hard-permuted")).click()
    wait_for_line(page, "Failure 1 of 3 · ✕ missed: silent where the reference speaks · 0:22.0")
    page.click("#chosen input")
    page.get_by_role("option", name=re.compile("^(✓ )?boat$")).click()
    wait_for_status(page, "^boat, 0:43, with its saved run. Press Run to stream it again. It has no failures.$")
    page.wait_for_function("document.querySelector('.ss').inspect().video === 'boat'")
    assert page.locator(".ss-tour").count() == 0
    page.click("#example")
    wait_for_status(page, "^An example of an upload: house-hard-permuted.mp4, .* turns of val.json. Press Run.$")
    assert page.input_value("#goal textarea") == "build the house"
    assert "S1: " in page.input_value("#steps textarea")
    for box, name in (("#upload", "house-hard-permuted"), ("#reference", "val")):
        page.locator(box).get_by_text(name).first.wait_for()
    expect(page.get_by_placeholder("house-hard-permuted.mp4")).to_have_value("")  # the box that names the video
    assert "drawings" not in run(page)
    assert page.locator("#scores .score b").first.inner_text() == "1"


@pytest.mark.slow
def test_the_tour_is_shown_once_and_again_from_the_help(page: Page, visitor: BrowserContext, address: str) -> None:
    page.get_by_role("button", name="Close the tour").click()
    page.close()
    page = visit(visitor, address)
    assert page.locator(".ss-tour").count() == 0
    page.keyboard.press("?")
    page.get_by_role("button", name="tour of the page").click()
    page.get_by_role("dialog", name=STOPS[0]).wait_for()
    page.wait_for_function("document.activeElement.matches('.ss-tour')")
    assert violations_of_both_themes(page) == []


def violations_of_both_themes(page: Page) -> list[str]:
    found = violations(page)
    page.click("#theme")
    found += violations(page, {"runOnly": ["color-contrast"]})
    page.click("#theme")
    return found


@pytest.mark.slow
def test_failures_of_a_kind_are_found_in_all_videos_and_told_as_a_story(page: Page) -> None:
    end_tour(page)
    page.keyboard.press("*")
    wait_for_line(page, "Moment 1 of the story")
    page.get_by_role("button", name="in all videos").click()
    wait_for_status(page, r"\d+ moments in \d+ videos", status="#search_said [role=status]")
    expect(page.locator("#search input, #search textarea")).to_have_value('failure:"wrong update"')
    page.locator("#search_pictures img").first.wait_for()
    assert violations_of_both_themes(page) == []
    page.locator("#search_hits [data-testid=cell-0-1]").click()
    expect(page.locator(".ss-hit")).to_contain_text("Moment 1 of")
    page.keyboard.press("*")
    wait_for_line(page, "Moment 2 of the story")
    page.locator(".ss").get_by_role("tab", name="Story").click()
    for number, caption in enumerate(("It takes a decoy.", "Here, too."), start=1):
        page.get_by_role("textbox", name=f"Caption of moment {number}").fill(caption)
    assert violations_of_both_themes(page) == []
    page.get_by_role("button", name="publish…").click()
    wait_for_status(page, "2 moments in 2 videos of bundled: about", status="#publish_size")
    assert violations_of_both_themes(page) == []
    with page.expect_download() as download:
        page.click("#publish_start")
    with ZipFile(download.value.path()) as archive:
        told, names = archive.read("bundled-story/story.md").decode(), archive.namelist()
    assert told.index("It takes a decoy.") < told.index("Here, too.")
    assert {"bundled-story/index.html", "bundled-story/story/2.jpg"} <= set(names)
    assert sum(name.endswith(".mp4") for name in names) == 2


def test_at_1024_pixels_the_tour_covers_no_control_and_no_title_scrolls(visitor: BrowserContext, address: str) -> None:
    page = visitor.new_page()
    page.set_viewport_size({"width": 1024, "height": 768})
    page.goto(address)
    page.locator(".ss-tour").wait_for()
    assert "N takes the video to a failure" in page.locator(".ss-tour").inner_text(), "true without one, too"
    for title in STOPS:
        assert page.locator(".ss-tour h3").inner_text() == title
        tour, toolbar = (page.locator(name).bounding_box() for name in (".ss-tour", ".ss-bar"))
        assert tour is not None
        assert toolbar is not None
        is_beside = tour["x"] >= toolbar["x"] + toolbar["width"] or toolbar["x"] >= tour["x"] + tour["width"]
        is_above = tour["y"] + tour["height"] <= toolbar["y"]
        assert is_beside or is_above or toolbar["y"] + toolbar["height"] <= tour["y"], title
        page.keyboard.press("ArrowRight")
    widths = page.locator(".gr-accordion").evaluate_all("(all) => all.map((box) => [box.scrollWidth, box.clientWidth])")
    assert all(content <= width for content, width in widths)
    assert page.input_value("#chosen input") == "robot-hard"
    page.wait_for_function("((box) => box.scrollWidth <= box.clientWidth)(document.querySelector('#chosen input'))")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
def test_steps_are_shown_in_full_after_another_tab(visitor: BrowserContext, address: str) -> None:
    page = visitor.new_page()
    page.goto(f"{address}?tab=batch")
    page.wait_for_function("document.querySelector('#steps textarea')?.value.split('\\n').length === 5")
    page.get_by_role("tab", name="Player").click()
    page.wait_for_selector("#steps", state="visible")
    assert page.locator(".ss-tour").count() == 0, "no link starts the tour"
    assert page.evaluate("localStorage['stepscope:tour']") is None
    assert page.evaluate(HIDDEN_PX, "#steps textarea") <= 0
    page.fill("#steps textarea", "\n".join(f"S{number}: turn the screw" for number in range(1, 31)))
    page.wait_for_function("document.querySelector('#steps textarea').clientHeight > 380")
    assert page.evaluate(HIDDEN_PX, "#steps textarea") > 0, "a long list scrolls"
    page.fill("#steps textarea", "")
    page.wait_for_function("document.querySelector('#steps textarea').clientHeight < 105")
