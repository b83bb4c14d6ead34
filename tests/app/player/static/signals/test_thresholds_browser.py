"""Once idle, sliders, lanes, status line and run agree, however thresholds were changed."""

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import NEEDS_CHROMIUM, forget, inspect, open_page, run, wait_for_status
from tests.support.pages.signals import point
from tests.support.pages.thresholds import drag_slider, sliders, wait_for_rest

pytestmark = NEEDS_CHROMIUM


@pytest.fixture
def page(window: Page, tiny_page: str) -> Page:
    forget(window, tiny_page)
    open_page(window, tiny_page)
    return window


def type_threshold(page: Page, name: str, value: float) -> None:
    box = page.locator(f"#{name}_threshold input[type=number]")
    box.fill(f"{value:g}")
    box.press("Enter")


def drag_line(page: Page, name: str, to: float) -> None:
    seen = inspect(page)
    time_s = 0.7 * seen["view"]["start"] + 0.3 * seen["view"]["end"]
    page.mouse.move(*point(page, name, time_s, prob=seen["thresholds"][name]))
    page.mouse.down()
    page.mouse.move(*point(page, name, time_s, prob=to), steps=4)
    page.mouse.up()


@pytest.mark.slow
def test_the_latest_of_several_moves_is_run_and_shown_everywhere(page: Page) -> None:
    run(page)
    drag_line(page, "speak", 0.7)
    drag_slider(page, "update", 0.3)
    type_threshold(page, "speak", 0.4)
    wait_for_rest(page, {"speak": 0.4})


@pytest.mark.slow
def test_a_threshold_is_shown_with_all_its_digits(browser: Browser, tiny_page: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{tiny_page}/?video=truck-1&run=x&speak=0.725&update=0.6125001")
    wait_for_status(page, "^(⚠ )?Done")
    wait_for_rest(page, {"speak": 0.725, "update": 0.6125001})
    assert sliders(page) == {"speak": 0.725, "update": 0.6125001}
    assert "speak 0.725 · update 0.6125001" in page.locator(".ss-origin summary").inner_text()
    assert "0.6125001" in page.locator(".ss-decision").last.inner_text()
    page.close()
