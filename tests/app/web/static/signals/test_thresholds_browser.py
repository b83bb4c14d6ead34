"""Once idle, sliders, lanes, scores, status line and run agree, however thresholds were changed; keys of the page."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    STATUS,
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
    for _ in range(5):
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


def ranges(page: Page) -> dict[str, str]:
    return {name: page.input_value(f"#{name}_threshold input[type=range]") for name in HEADS}


def retype(page: Page, box: str, text: str) -> None:
    """Type into the number box of a threshold, key by key."""
    page.click(f"#{box} input[type=number]", click_count=3)
    expect(page.locator(f"#{box} input[type=number]")).to_be_focused()
    page.keyboard.press("Delete")
    page.keyboard.type(text)


@pytest.mark.slow
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


@pytest.mark.slow
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


LIST_IS_HIDDEN = "[...document.querySelectorAll('[role=option]')].every((one) => !one.getClientRects().length)"


@pytest.mark.slow
def test_tab_past_the_controls_of_the_video_does_not_start_it(page: Page) -> None:
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
