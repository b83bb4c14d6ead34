"""The display of a run: other data, captions, regions, links, zoom."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, wait_until_drawn
from tests.support.pages.two_videos import cues, show
from tests.support.reviews.played import make_run

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


def test_data_and_video_can_be_exchanged(page: Page) -> None:
    page.keyboard.press("+")
    show(page, "b")
    assert inspect(page)["view"] == {"start": 0, "end": 4}
    assert "reused from the previous run, not computed again" in page.locator(".ss-now").inner_text()
    assert page.locator(".ss-kind").count() == 0, "there is no reference to fail against"
    video = page.locator("button:has-text('b.mp4')")
    video.click()
    page.wait_for_function("document.querySelector('#video video').duration < 5")
    page.wait_for_function("document.querySelector('#video video').readyState >= 2")
    page.keyboard.press("l")
    wait_until_drawn(page)
    assert inspect(page)["time"] == pytest.approx(3.99, abs=0.02)
    show(page, "none")
    assert page.locator(".ss-empty").inner_text().startswith("Press Run")
    page.keyboard.press("n")
    assert page.locator(".ss-said").inner_text() == "Nothing to play yet: press Run."


def test_captions_are_cues_of_the_video(page: Page) -> None:
    page.select_option(".ss-captions", "reference")
    wait_until_drawn(page)
    assert cues(page) == [[1, 4, "Now the wheel."], [4, 6, "Now the roof."], [6, 10, "Careful!"]]
    copied = "Object.assign(document.querySelector('.ss').unpacked(), { has_reference: false, is_copied: true })"
    page.evaluate(f"{{ {copied}; }}")
    page.select_option(".ss-captions", "off")
    page.select_option(".ss-captions", "reference")
    assert page.locator(".ss-said").inner_text() == "Captions: copy"


def test_a_region_loops(page: Page) -> None:
    page.evaluate("document.querySelector('#video video').currentTime = 2")
    page.keyboard.press("i")
    page.evaluate("document.querySelector('#video video').currentTime = 2.6")
    page.keyboard.press("o")
    page.keyboard.press("r")
    page.keyboard.press("k")
    times = page.evaluate("""new Promise((done) => {
        const times = [], { inspect } = document.querySelector(".ss");
        const draw = () => { // until it has begun again three times
            times.push(inspect().time);
            if (times.filter((time, index) => time < times[index - 1] - 0.1).length > 2) done(times);
            else requestAnimationFrame(draw);
        };
        draw();
    })""")
    assert all(1.9 < time < 2.75 for time in times)


def test_the_link_names_video_moment_thresholds_and_run(page: Page, folder: Path) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("document.querySelector('#video video').currentTime = 4.25")
    page.keyboard.press("y")
    page.wait_for_function("document.querySelector('.ss-said').textContent === 'Link copied.'")
    link = parse_qs(urlsplit(page.evaluate("navigator.clipboard.readText()")).query)
    assert link == {
        "video": ["a"],
        "run": [make_run(folder).digest],
        "t": ["4.25"],
        "speak": ["0.5"],
        "update": ["0.5"],
        "context": ["refresh"],
    }
    show(page, "b")


def test_the_wheel_zooms_and_the_map_pans(page: Page) -> None:
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 150, box["y"] + 50)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    wait_until_drawn(page)
    view = inspect(page)["view"]
    assert view["start"] == pytest.approx(0, abs=0.1)
    assert view["end"] == pytest.approx(10 / np.e, abs=0.3)
    page.click(".ss-map", position={"x": 1350, "y": 8})
    wait_until_drawn(page)
    assert inspect(page)["view"]["end"] == 10


def test_a_slider_of_the_page_previews_and_is_released_after_a_pause(page: Page) -> None:
    move = "(update) => document.dispatchEvent(new CustomEvent('stepscope:threshold', {detail: {speak: 0.5, update}}))"
    released, is_preview = page.evaluate(f"""() => {{
        [0.6, 0.7, 0.8].forEach({move});
        return [document.querySelector('#let_go textarea').value, document.querySelector('.ss').inspect().isPreview];
    }}""")
    assert (released, is_preview) == ("", True)
    page.wait_for_function("document.querySelector('#let_go textarea').value")
    assert page.input_value("#let_go textarea") == "0.5 0.8;"
    page.evaluate(move, 0.5)
    page.wait_for_function("document.querySelector('#let_go textarea').value === '0.5 0.8;0.5 0.5;'")
    seen = inspect(page)
    assert not seen["isPreview"]
    assert seen["isAtRest"], "what was run needs no other run, and what was asked for before is taken back"
