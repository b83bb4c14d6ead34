"""Once idle, the sliders, lanes, scores, status line and run agree, however the thresholds were changed."""

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.conftest import Uploads
from tests.support.data.batches import make_worker_config, run_to_end
from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    enter_task,
    forget,
    inspect,
    open_page,
    rows,
    run,
    serve,
    upload,
    wait_for_status,
)
from tests.support.pages.signals import point
from tests.support.pages.thresholds import HEADS, choose, drag_slider, sliders, wait_for_rest

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def address(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    runs = tmp_path_factory.mktemp("runs")
    run_to_end(demo_manifest, make_worker_config(tiny_folder), runs / "own", devices="cpu:1")
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=runs) as url:
        yield url


@pytest.fixture
def page(window: Page, address: str) -> Page:
    forget(window, address)
    open_page(window, address)
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
def test_the_latest_of_random_moves_is_run_and_shown_everywhere(page: Page, browser: Browser, address: str) -> None:
    run(page)
    chance = random.Random(14)
    moves: list[Callable[[Page, str, float], None]] = [drag_line, drag_slider, type_threshold]
    for _ in range(2):
        for _ in range(chance.randint(2, 5)):
            name, value = chance.choice(HEADS), round(chance.random(), 2)
            chance.choice(moves)(page, name, value)
            page.wait_for_timeout(chance.choice([0, 50, 300, 750, 900]))  # between moves, so that runs overlap them
        wait_for_rest(page)
    check_against_a_fresh_run(page, browser, address)


@pytest.mark.slow
def test_thresholds_that_move_before_a_run_or_while_it_waits_are_the_runs(
    page: Page, browser: Browser, address: str, uploads: Uploads
) -> None:
    other = browser.new_page()
    open_page(other, address)
    upload(other, uploads.slow, "then press Run")
    enter_task(other)
    other.click("#run")
    wait_for_status(other, "^Running")
    type_threshold(page, "speak", 0.9)
    page.click("#run")
    wait_for_status(page, "^Waiting to start")
    page.locator("#progress", has_text=re.compile(r"queue: \d+/\d+")).wait_for()
    with page.expect_response(lambda response: "queue/join" in response.url):
        type_threshold(page, "update", 0.15)
    other.click("#stop")
    wait_for_status(page, "^Done")
    wait_for_rest(page, {"speak": 0.9, "update": 0.15})
    other.close()


@pytest.mark.slow
def test_thresholds_that_move_while_the_first_run_streams_follow_it(page: Page, uploads: Uploads) -> None:
    upload(page, uploads.slow, "then press Run")
    enter_task(page)
    page.click("#run")
    wait_for_status(page, "^Running")
    type_threshold(page, "speak", 0.85)
    page.wait_for_function("document.querySelector('.ss').inspect().isPreview")
    page.evaluate("document.querySelector('#stop').click()")  # on a busy machine the run may be over by now
    wait_for_status(page, "^Done: the same run with speak 0.85", timeout_s=120)
    wait_for_rest(page, {"speak": 0.85, "update": 0.5})


@pytest.mark.slow
def test_the_best_point_of_a_sweep_runs_what_the_player_shows(page: Page, browser: Browser, address: str) -> None:
    page.get_by_role("tab", name="Batch").click()
    choose(page, "batch_runs", "own")
    page.locator("#videos [data-testid^=cell]", has_text="truck-1").first.click()
    wait_for_status(page, "^truck-1 in the run own")
    page.get_by_role("tab", name="Batch").click()
    page.get_by_role("tab", name="Thresholds").click()
    page.wait_for_selector("#apply:not([disabled])")
    best = re.findall(r"[\d.]+", page.locator("#apply").inner_text())
    page.click("#apply")
    page.get_by_role("tab", name="Player").click()
    wait_for_status(page, "^Done: the same run with")
    wait_for_rest(page, dict(zip(HEADS, map(float, best), strict=True)))


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
