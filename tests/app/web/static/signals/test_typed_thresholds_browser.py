"""Thresholds that are typed: all digits, commas, and refusals."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.pages.browser import NEEDS_CHROMIUM, STATUS, forget, open_page, run, wait_for_status
from tests.support.pages.signals import point
from tests.support.pages.thresholds import HEADS, drag_slider, wait_for_rest

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture
def page(window: Page, tiny_page: str) -> Page:
    forget(window, tiny_page)
    open_page(window, tiny_page)
    return window


def ranges(page: Page) -> dict[str, str]:
    return {name: page.input_value(f"#{name}_threshold input[type=range]") for name in HEADS}


def retype(page: Page, box: str, text: str) -> None:
    """Type into the number box of a threshold, key by key."""
    page.click(f"#{box} input[type=number]", click_count=3)
    expect(page.locator(f"#{box} input[type=number]")).to_be_focused()
    page.keyboard.press("Delete")
    page.keyboard.type(text)


def test_a_threshold_is_shown_with_all_its_digits_and_only_a_hand_rounds_it(browser: Browser, tiny_page: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{tiny_page}/?video=truck-1&run=x&speak=0.725&update=0.6125001")
    wait_for_status(page, "^(⚠ )?Done")
    wait_for_rest(page, {"speak": 0.725, "update": 0.6125001})
    assert ranges(page) == {"speak": "0.725", "update": "0.6125001"}
    assert "speak 0.725 · update 0.6125001" in page.locator(".ss-origin summary").inner_text()
    assert "0.6125001" in page.locator(".ss-decision").last.inner_text()
    page.wait_for_function("new URLSearchParams(location.search).get('update') === '0.6125001'")
    x, y = point(page, "speak", 2, prob=0.725)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 1)
    page.mouse.up()
    page.wait_for_timeout(900)
    wait_for_rest(page, {"speak": 0.725, "update": 0.6125001})
    page.focus("#speak_threshold input[type=range]")
    page.keyboard.press("ArrowRight")
    wait_for_rest(page, {"speak": 0.735, "update": 0.6125001})
    page.focus("#speak_threshold input[type=number]")
    page.keyboard.press("ArrowUp")
    wait_for_rest(page, {"speak": 0.74, "update": 0.6125001})
    drag_slider(page, "speak", 0.3333)
    assert re.fullmatch(r"0\.\d\d?", str(wait_for_rest(page)["thresholds"]["speak"])), "a drag sets hundredths"
    page.close()


def test_a_threshold_that_is_none_is_refused_and_a_comma_is_read(page: Page) -> None:
    run(page)
    problem = page.locator("#speak_threshold .threshold-problem")
    for typed, got in (("", "nothing"), ("4", "4"), ("-0.2", "-0.2"), ("e", "something else")):
        retype(page, "speak_threshold", typed)
        page.keyboard.press("Enter")
        said = f"The speak threshold must be a number from 0 to 1; got {got}. It stays 0.5."
        expect(problem, typed).to_have_text(said)
        wait_for_rest(page, {"speak": 0.5, "update": 0.5})
    retype(page, "speak_threshold", "0.")
    page.wait_for_timeout(1000)  # longer than a slider rests before it is run
    page.keyboard.type("35")
    page.keyboard.press("Enter")
    wait_for_rest(page, {"speak": 0.35, "update": 0.5})
    done = page.locator(STATUS).text_content()
    retype(page, "speak_threshold", "")
    page.click("#run")
    assert problem.is_visible()
    assert page.locator(STATUS).text_content() == done, "Run is refused with the box"
    retype(page, "speak_threshold", "0,4")
    wait_for_status(page, "^Done: the same run with speak 0.4, update 0.5")
    wait_for_rest(page, {"speak": 0.4, "update": 0.5})
    assert problem.count() == 0
