"""The panel *Ask* by keyboard alone: ask, return to the time of a question, and pass it to the reference."""

import pytest
from playwright.sync_api import Page

from tests.support.pages.browser import NEEDS_CHROMIUM, forget, inspect, open_page, rows, run, wait_for_status

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]

STATUS_TEXT = "document.querySelector('#ask_status .status-line').textContent"


def press(page: Page, part: str) -> None:
    page.wait_for_function("(part) => document.querySelector(part)?.disabled === false", arg=part)
    page.locator(part).focus()
    page.keyboard.press("Enter")


def test_a_question_is_asked_and_passed_to_the_reference_by_keyboard(window: Page, tiny_page: str) -> None:
    page = window
    forget(page, tiny_page)
    open_page(page, tiny_page)
    run(page)
    before = rows(page)
    page.locator(".ss-canvas").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    time_s = inspect(page)["time"]
    page.keyboard.press("/")
    page.keyboard.type("What is next?")
    page.keyboard.press("Enter")
    wait_for_status(page, "^Answered at", status="#ask_status .status-line")
    page.keyboard.press("Home")
    page.locator("#asked .ask-time").first.click()
    page.wait_for_function("(time) => Math.abs(document.querySelector('.ss').inspect().time - time) < 0.3", arg=time_s)
    assert rows(page) == before
    press(page, "#promote")
    page.wait_for_function("document.querySelector('.ss-addedText').value === 'What is next?'")
    assert page.locator(".ss-addedRole").input_value() == "user"
    press(page, "#promote_run")
    page.wait_for_function("/What is next\\?$/.test(document.querySelector('#user_turns textarea').value)")
    page.locator("#question textarea").fill("And then?")
    page.keyboard.press("Enter")
    page.wait_for_function("!document.querySelector('#stop_answer').disabled || /Answered/.test(" + STATUS_TEXT + ")")
    page.click("#new_chat")
    page.wait_for_function(STATUS_TEXT + ".trim() === ''")
    page.locator("#question textarea").fill("What now?")
    page.keyboard.press("Enter")
    wait_for_status(page, "^Answered at", status="#ask_status .status-line")
    assert page.locator("#asked .ask-time").count() == 1, "what was asked before does not come back"
