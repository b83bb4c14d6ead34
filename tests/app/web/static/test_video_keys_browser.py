"""The video's own controls, whose keys neither start playback nor lose the player's commands; and its failure."""

import pytest
from playwright.sync_api import Browser

from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, open_page

LIST_IS_HIDDEN = "[...document.querySelectorAll('[role=option]')].every((one) => !one.getClientRects().length)"
pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


def test_tab_past_the_controls_of_the_video_does_not_start_it(browser: Browser, tiny_page: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    open_page(page, tiny_page)
    page.wait_for_function("document.querySelector('#video video')?.readyState >= 2")
    page.click("#context input")
    page.wait_for_selector("[role=option]")
    inside = 0
    while inside < 3:
        page.keyboard.press("Tab")
        page.wait_for_function(LIST_IS_HIDDEN)  # the list of the dropdown does not hang over the page
        inside += page.evaluate("document.querySelector('#video').contains(document.activeElement)")
    for key in ("Shift+Tab", "Shift+Tab", "n"):
        page.keyboard.press(key)
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('#video video').paused")
    assert inspect(page)["time"] == 0
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_function("!document.querySelector('#video video').paused")
    # Chromium stops for good at damage, with its last picture
    page.evaluate("document.querySelector('#video video').dispatchEvent(new Event('error'))")
    assert inspect(page)["said"].startswith("The browser cannot play this video past damage in it")
    assert page.evaluate("document.querySelector('#video video').style.opacity") == "0", "no picture that is not true"
    page.close()
