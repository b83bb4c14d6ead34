"""Once idle, the sliders, lanes, scores, status line and run agree, however the thresholds were changed."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    forget,
    inspect,
    open_page,
    rows,
    run,
    wait_for_status,
)
from tests.support.pages.signals import point
from tests.support.pages.thresholds import HEADS, drag_slider, sliders, wait_for_rest

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


def shown(page: Page) -> dict[str, Any]:
    """Return the parts of the page that depend on the run: decisions, failures, transcript and scores."""
    kinds = page.evaluate("[...document.querySelectorAll('.ss-kind')].map((chip) => chip.textContent)")
    scores = page.locator("#scores .score").all_inner_texts()
    return {"counts": inspect(page)["counts"], "kinds": kinds, "rows": rows(page), "scores": scores}


def check_against_a_fresh_run(page: Page, browser: Browser, address: str) -> None:
    """Compare the display with a new run of the same video at the thresholds of the sliders."""
    seen = inspect(page)
    values = sliders(page)
    fresh = browser.new_page(viewport={"width": 1440, "height": 900})
    fresh.goto(f"{address}/?video={seen['video']}&run=x&speak={values['speak']}&update={values['update']}")
    wait_for_status(fresh, "^(⚠ )?Done", timeout_s=120)
    fresh.wait_for_function(
        "document.querySelector('.ss').inspect().isAtRest && document.querySelector('#scores .score')"
    )
    assert shown(page) == shown(fresh)
    fresh.close()


@pytest.mark.slow
def test_the_latest_of_random_moves_is_run_and_shown_everywhere(page: Page, browser: Browser, tiny_page: str) -> None:
    run(page)
    chance = random.Random(14)
    moves: list[Callable[[Page, str, float], None]] = [drag_line, drag_slider, type_threshold]
    for _ in range(2):
        for _ in range(chance.randint(2, 5)):
            name, value = chance.choice(HEADS), round(chance.random(), 2)
            chance.choice(moves)(page, name, value)
            page.wait_for_timeout(chance.choice([0, 50, 300, 750, 900]))  # between moves, so that runs overlap them
        wait_for_rest(page)
    check_against_a_fresh_run(page, browser, tiny_page)


@pytest.mark.slow
def test_after_the_mouse_the_keys_are_the_players_and_after_tab_the_sliders(page: Page) -> None:
    run(page)
    page.keyboard.press("End")  # Run was clicked
    page.wait_for_function("document.querySelector('.ss').inspect().frame === 11")
    drag_slider(page, "speak", 0.8)
    seen = wait_for_rest(page)
    page.keyboard.press("Home")
    page.wait_for_function("document.querySelector('.ss').inspect().time === 0")
    page.keyboard.press("?")
    assert page.locator(".ss-help").is_visible()
    page.keyboard.press("Escape")
    page.click("[data-do=nextFrame]")
    page.keyboard.press("Space")
    page.wait_for_function("!document.querySelector('.ss').inspect().isPaused")
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('.ss').inspect().isPaused")
    page.click("[data-do=help]")
    page.click(".ss-help button")
    page.keyboard.press("Space")
    page.wait_for_function("!document.querySelector('.ss').inspect().isPaused")
    assert not page.locator(".ss-help").is_visible()
    assert wait_for_rest(page)["thresholds"] == seen["thresholds"]
    page.evaluate("document.querySelector('#video video').pause()")  # it may have come to its end by itself
    page.locator("#speak_threshold input[type=range]").focus()
    page.keyboard.press("End")
    wait_for_rest(page, {"speak": 1, "update": 0.5})
    page.keyboard.press("?")
    assert page.locator(".ss-help").is_visible()


@pytest.mark.slow
def test_the_selected_failure_stays_selected_after_the_exact_run(page: Page) -> None:
    run(page)
    wait_for_rest(page)
    page.focus(".ss-canvas")
    page.keyboard.press("End")
    page.keyboard.press("p")  # the last failure: other events are at its time or before it
    page.wait_for_function("new URLSearchParams(location.search).has('event')")
    before, event = inspect(page), page.evaluate("new URLSearchParams(location.search).get('event')")
    assert before["event"]
    type_threshold(page, "speak", 0.4999)
    wait_for_rest(page, {"speak": 0.4999, "update": 0.5})
    page.wait_for_function("(event) => new URLSearchParams(location.search).get('event') === event", arg=event)
    after = inspect(page)
    assert (after["event"], after["time"]) == (before["event"], before["time"])
    assert after["said"].startswith("Failure ")
