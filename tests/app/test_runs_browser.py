"""The page with the bundled model and further runs: what it asks, marks, keeps in history and does not compare."""

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.engine.io.files import load_json, write_json
from tests.conftest import Uploads
from tests.support.data.recorded import record_toy
from tests.support.data.saved_runs import save_run
from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    OPENED,
    choose_in_focus,
    forget,
    inspect,
    serve,
    upload,
    wait_for_status,
)
from tests.support.paths import ASSETS

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]
MARK = "⚠ bundled model on a foreign video: its words mean nothing"
FINAL = "⚠ recorded: cannot be run again here"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the bundled model with a recorded run without a video, a run of another model, and one of its own."""
    data, runs = ASSETS / "demo" / "test.json", tmp_path_factory.mktemp("runs")
    record_toy(runs / "toy")
    save_run(runs / "other", data)
    shutil.copytree(ASSETS / "demo" / "run", runs / "own")
    settings = load_json((runs / "own" / "run.json").read_text(encoding="utf-8"))
    config = {**settings["config"], "speak_threshold": 0.8}
    write_json(runs / "own" / "run.json", {**settings, "split": str(data.resolve()), "config": config})
    with serve(data=data, checkpoint=ASSETS / "checkpoint", runs=runs) as url:
        yield url


@pytest.fixture
def page(window: Page, address: str) -> Page:
    """Open the page, which shows a failure of the bundled run."""
    forget(window, address)
    window.goto(address)
    window.wait_for_function(OPENED)
    window.keyboard.press("Escape")
    return window


def wait_for(page: Page, condition: str) -> dict[str, Any]:
    page.wait_for_function(
        f"(() => {{ const seen = document.querySelector('.ss')?.inspect?.(); return {condition}; }})()"
    )
    return inspect(page)


def open_run(page: Page, address: str, name: str, video: str = "robot-hard") -> None:
    page.goto(f"{address}/?video={video}&saved={name}&t=1")
    wait_for(page, f"seen?.video === '{video}'")


def test_ask_takes_the_focus_and_letters_do_nothing_behind_it(page: Page) -> None:
    before = inspect(page)
    page.click("#ask_fold button")
    page.keyboard.type("Did I do that right?")
    expect(page.locator("#question :is(textarea, input)")).to_have_value("Did I do that right?")
    for part in ("document.activeElement.blur()", "document.querySelector('.ss-canvas').focus()"):
        page.evaluate(part)
        page.keyboard.type("ndgm1!K")
        seen = inspect(page)
        assert (seen["event"], seen["isPaused"], seen["waiting"]) == (before["event"], True, 0)
        assert not page.evaluate("document.activeElement.matches('input, textarea')")
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.locator("#ask")).to_be_hidden()
    page.keyboard.press("n")
    wait_for(page, "seen.said.startsWith('Failure 2 of 9')")


def test_the_next_video_opens_from_the_first_page_and_from_a_link(page: Page, address: str) -> None:
    page.keyboard.press(")")
    seen = wait_for(page, "seen.video !== 'robot-permuted'")
    page.keyboard.press("(")
    wait_for(page, "seen.video === 'robot-permuted'")
    open_run(page, address, "bundled", "robot-permuted")
    page.keyboard.press(")")
    wait_for(page, f"seen.video === '{seen['video']}'")


def test_back_after_other_thresholds_shows_the_earlier_run_and_forward_the_later_one(page: Page) -> None:
    page.wait_for_function("new URLSearchParams(location.search).get('run')")
    for speak in (0.8, 0.3):
        page.evaluate(f"document.querySelector('#player .ss').preview({{speak: {speak}}})")
        wait_for(page, f"seen.runThresholds.speak === {speak} && location.search.includes('speak={speak}')")
        expect(page.locator(".ss-changed-counts")).to_be_visible()  # this was asked for
    for go, speak in ((page.go_back, 0.8), (page.go_back, 0.5), (page.go_forward, 0.8), (page.go_forward, 0.3)):
        go()
        wait_for(page, f"seen?.runThresholds?.speak === {speak} && location.search.includes('speak={speak}')")


def test_back_after_the_next_mistake_shows_the_moment_before(page: Page) -> None:
    page.wait_for_function("/run=.*t=15.0/.test(location.search)")
    page.click(".ss-mode")  # while reviewing, N visits each failure
    for time_s in (18.0, 20.5):
        page.keyboard.press("n")
        wait_for(page, f"seen.time.toFixed(1) === '{time_s}' && location.search.includes('t={time_s}')")
    for go, time_s in ((page.go_back, 18.0), (page.go_back, 15.0), (page.go_forward, 18.0)):
        go()
        wait_for(page, f"seen.time.toFixed(1) === '{time_s}' && location.search.includes('t={time_s}')")
    page.keyboard.press("ArrowLeft")
    wait_for(page, "document.querySelector('.focus [data-part=moment]').textContent === '0:17.5'")
    page.keyboard.press("%")
    page.locator(".ss-what_if").get_by_role("button", name="no update").click()
    page.click(".ss-branch-run")
    wait_for(page, "location.search.includes('branch=')")
    wait_for_status(page, "^Done")
    page.go_back()
    wait_for(page, "seen?.runThresholds && location.search.includes('t=17.5') && !location.search.includes('branch=')")


def test_what_a_link_has_wrong_is_said_and_the_rest_is_shown(page: Page, address: str) -> None:
    page.goto(f"{address}/?video=robot-hard&t=abc&tab=nonsense")
    wait_for(page, "seen?.video === 'robot-hard'")
    wait_for_status(page, "^⚠ The link opens without its time: a time is written as seconds.*; got 'abc'")
    expect(page.get_by_text("The link names no tab of this page: nonsense; tabs are player,")).to_be_visible()
    page.goto(f"{address}/?video=robot-hard&t=9999&tab=batch&view=nonsense")
    expect(page.get_by_text("The link names no view of this page: nonsense; views are Scores,")).to_be_visible()
    late = re.compile(r"^2:46:39\.0 is after the end of the video: \d:\d\d\.\d is shown\.$")
    expect(page.locator("#player .ss-said")).to_have_text(late)
    page.goto(f"{address}/?video=robot-hard&saved=own&t=9999")
    expect(page.locator("#player .ss-said")).to_have_text(late)
    wait_for(page, "seen.time < 100")


def test_a_run_that_is_opened_is_not_compared_with_the_one_before(page: Page, address: str) -> None:
    page.goto(f"{address}/?video=robot-hard&tab=batch&shown=own")
    wait_for(page, "seen?.video === 'robot-hard'")
    expect(page.locator(".focus [data-part=run]")).to_contain_text("own")
    page.get_by_role("button", name="robot-hard", exact=True).click()
    wait_for(page, "seen.runThresholds.speak === 0.8")
    assert page.locator(".ss-changes").is_hidden()


def test_run_asks_once_before_it_replaces_a_run_of_another_model(page: Page, address: str) -> None:
    question = page.locator(".ss-replace")
    open_run(page, address, "other")
    expect(page.locator(".focus-mark")).to_have_text(FINAL)
    page.click("#run")
    expect(question).to_contain_text("feed made this run: Run shows the bundled model in its place.")
    page.keyboard.press("n")
    assert inspect(page)["cursor"] is None, "no key acts behind the question"
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    assert page.evaluate("document.querySelector('.ss').unpacked().run_name") == "other"
    page.click("#run")
    question.get_by_role("button", name="run the bundled model").click()
    wait_for_status(page, "^Done")
    page.click("#run")
    wait_for_status(page, "^(Waiting|Running|Done)")
    expect(question).to_be_hidden()


def test_back_from_a_row_of_another_run_shows_that_run_in_batch(page: Page, address: str) -> None:
    open_run(page, address, "bundled")
    page.get_by_role("tab", name="Batch").click()
    page.locator(".wb-run[aria-current]", has_text="bundled").wait_for()
    choose_in_focus(page, "run", "own")
    page.locator(".wb-run[aria-current]", has_text="own").wait_for()
    page.locator("#videos").get_by_text("tower-hard").first.click()
    wait_for(page, "seen.video === 'tower-hard' && !location.search.includes('tab=')")
    page.go_back()
    wait_for(page, "seen.video === 'robot-hard' && location.search.includes('tab=batch&shown=own')")
    page.locator(".wb-run[aria-current]", has_text="own").wait_for()


def test_a_recorded_run_without_a_video_plays_its_lanes(page: Page, address: str) -> None:
    open_run(page, address, "toy", "boat")
    assert "Its split names no video" in page.inner_text("#status")
    assert page.locator(".ss-row").count() == 2
    page.keyboard.press("End")
    page.keyboard.press("j")
    assert inspect(page)["time"] == pytest.approx(3, abs=0.1)
    page.keyboard.press(" ")
    wait_for(page, "seen.time > 3.3")
    page.keyboard.press(" ")
    page.click("#run")
    page.get_by_role("button", name="run the bundled model").click()
    wait_for_status(page, "boat has no video to run")


def test_words_about_a_video_that_the_bundled_model_cannot_know_are_marked_for_good(
    page: Page, uploads: Uploads, tmp_path: Path
) -> None:
    mark = page.locator(".focus-mark")
    assert mark.is_hidden(), "it knows its own drawings"
    upload(page, Path(shutil.copy(uploads.foreign, tmp_path / "boat.mp4")), "press Run")
    for name, text in (("goal", "build"), ("steps", "S1: attach")):
        page.wait_for_function(f"document.activeElement.closest('#{name}')")  # it asks for what it needs, one by one
        page.keyboard.type(text)
        page.keyboard.press("Enter")
    page.click("#run")
    expect(mark).to_have_text(MARK)
    wait_for_status(page, "^Done")
    expect(mark).to_have_text(MARK)
    page.reload()
    wait_for(page, "seen?.video === 'boat.mp4'")
    expect(mark).to_have_text(MARK)


def test_every_view_of_the_reviews_has_one_tab(page: Page) -> None:
    names = "[...document.querySelectorAll('#review_views > .tab-wrapper .tab-container:not(.visually-hidden) button')]"
    wanted = ["Progress", "Queue", "Assign", "Agreement", "Export and import"]
    page.get_by_role("tab", name="Reviews").click()
    for name in [*wanted, *wanted]:
        page.get_by_role("tab", name=name, exact=True).first.click()
        page.wait_for_function(
            f"{names}.some((tab) => tab.ariaSelected === 'true' && tab.textContent.trim() === {name!r})"
        )
        assert page.evaluate(f"{names}.map((tab) => tab.textContent.trim())") == wanted


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_playhead_and_what_is_selected_are_seen_in_forced_colours(
    browser: Browser, address: str, scheme: Any
) -> None:
    context = browser.new_context(forced_colors="active", color_scheme=scheme, viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(address)
    page.wait_for_function(OPENED)
    colour: Callable[[str], str] = lambda part: page.evaluate(  # noqa: E731
        "(part) => getComputedStyle(document.querySelector(part)).backgroundColor", part
    )
    highlight = page.evaluate("""() => {
        const box = document.body.appendChild(document.createElement("i"));
        box.style = "background: Highlight; forced-color-adjust: none";
        return getComputedStyle(box).backgroundColor;
    }""")
    assert {colour(part) for part in (".ss-head", ".ss-prob i", ".ss [aria-selected=true]")} == {highlight}
    assert highlight != colour("body")
    context.close()


def test_the_head_of_the_page_names_and_chooses_what_is_in_focus(page: Page, address: str) -> None:
    head, run, video = (page.locator(part) for part in (".focus", ".focus [data-part=run]", ".focus [data-part=video]"))
    expect(run).to_contain_text("bundled model, speak 0.5, update 0.5")
    expect(video).to_contain_text("robot-permuted5 mistakes")
    choose_in_focus(page, "moment", "0:34.0")
    wait_for(page, "seen.time > 33 && location.search.includes('t=34.0')")
    choose_in_focus(page, "video", "tower-hard")
    wait_for(page, "seen.video === 'tower-hard'")
    choose_in_focus(page, "run", "own")
    wait_for(page, "seen.runThresholds.speak === 0.8 && seen.video === 'tower-hard'")
    page.get_by_role("tab", name="Batch").click()
    page.locator(".wb-run[aria-current]", has_text="own").wait_for()
    expect(run).to_contain_text("own")
    choose_in_focus(page, "run", "toy")
    page.locator(".wb-run[aria-current]", has_text="toy").wait_for()
    expect(head).to_contain_text("choose a video")
    page.go_back()
    page.locator(".wb-run[aria-current]", has_text="own").wait_for()
    page.get_by_role("tab", name="Reviews").click()
    expect(page.locator("#reviewed_run input")).to_have_value("own")
    page.locator("#reviewed_videos [data-testid^=cell]", has_text="robot-hard").first.click()
    wait_for(page, "seen.video === 'robot-hard' && !location.search.includes('tab')")
    expect(page.locator(".ss-mode")).to_have_attribute("aria-pressed", "true")  # a row of Reviews is reviewed
    page.go_back()
    wait_for(page, "seen.video === 'tower-hard' && /video=tower-hard.*tab=reviews/.test(location.search)")
    page.click("#reviewed_split input")
    page.get_by_role("option", name="val").click()
    expect(page.locator(".focus [data-part=split]")).to_have_text("val")
    page.click("#reviewed_split input")
    page.get_by_role("option", name="test").click()
    expect(run).to_contain_text("own")
    page.go_back()
    page.wait_for_url("**tab=batch*")
    for speak, name in ((0.8, "tower-hard"), (0.5, "tower-hard"), (0.5, "robot-permuted")):
        page.go_back()
        wait_for(page, f"seen?.runThresholds?.speak === {speak} && seen.video === '{name}'")
    wait_for(page, "seen.time > 33")
    page.go_back()
    wait_for(page, "Math.abs(seen.time - 15.0) < 0.1")
    page.go_forward()
    wait_for(page, "seen.time > 33")
    choose_in_focus(page, "split", "val")
    wait_for(page, "location.search.includes('split=val')")


def test_a_link_shows_a_run_in_batch_or_says_that_there_is_none(page: Page, address: str) -> None:
    page.goto(f"{address}/?tab=batch&shown=own")
    page.locator(".wb-run[aria-current]", has_text="own").wait_for()
    wait_for(page, "seen?.video && location.search.includes('tab=batch&shown=own')")
    page.goto(f"{address}/?tab=batch&shown=nosuch")
    expect(page.locator("#videos .wb-said")).to_have_text("There is no run “nosuch”; choose one of the list.")
