"""Once idle, the sliders, lanes, scores, status line and run agree, however the thresholds were changed."""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.conftest import Uploads
from tests.support.data.batches import make_worker_config, run_to_end
from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    STATUS,
    inspect,
    open_page,
    rows,
    run,
    serve,
    upload,
    wait_for_status,
)
from tests.support.paths import ASSETS

BATCH_STATUS = "#batch_status [role=status]"
HEADS = ("speak", "update")
pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def address(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a page with a run of its own checkpoint and a run of a different one."""
    runs = tmp_path_factory.mktemp("runs")
    run_to_end(demo_manifest, make_worker_config(tiny_folder), runs / "own", devices="cpu:1")
    shutil.copytree(runs / "own", runs / "foreign")
    settings = json.loads((runs / "foreign" / "run.json").read_text(encoding="utf-8"))
    (runs / "foreign" / "run.json").write_text(json.dumps({**settings, "model_digest": "another"}), encoding="utf-8")
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=runs) as url:
        yield url


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    window = browser.new_page(viewport={"width": 1440, "height": 900})
    open_page(window, address)
    yield window
    window.close()


def choose(page: Page, box: str, option: str) -> None:
    page.click(f"#{box} input")
    page.get_by_role("option", name=option, exact=True).click()


def type_threshold(page: Page, name: str, value: float) -> None:
    box = page.locator(f"#{name}_threshold input[type=number]")
    box.fill(f"{value:g}")
    box.press("Enter")


def drag_line(page: Page, name: str, to: float) -> None:
    seen = inspect(page)
    row = next(row for row in seen["rows"] if row.get("name") == name)
    page.locator(".ss-canvas").scroll_into_view_if_needed()
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None

    def height(prob: float) -> float:
        return float(box["y"] + row["top"] + row["height"] - 5 - prob * (row["height"] - 11))

    x = box["x"] + box["width"] * 0.4
    page.mouse.move(x, height(seen["thresholds"][name]))
    page.mouse.down()
    page.mouse.move(x, height(to), steps=4)
    page.mouse.up()


def drag_slider(page: Page, name: str, to: float) -> None:
    slider = page.locator(f"#{name}_threshold input[type=range]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * to, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()


def sliders(page: Page) -> dict[str, float]:
    return {name: float(page.input_value(f"#{name}_threshold input[type=number]")) for name in HEADS}


def wait_for_rest(page: Page, expected: dict[str, float] | None = None) -> dict[str, Any]:
    """Wait until the page is idle, check that all parts agree, and return the player's state."""
    rest = page.wait_for_function(
        """([status, expected]) => {
            const said = document.querySelector(status).textContent, seen = document.querySelector('.ss').inspect();
            const isAsExpected = Object.entries(expected ?? {}).every(([name, at]) => seen.thresholds[name] === at);
            return seen.isAtRest && isAsExpected && !/^(Wait|Run)/.test(said) && [seen, said];
        }""",
        arg=[STATUS, expected],
        timeout=120_000,
    )
    seen, status = rest.json_value()
    assert not seen["isPreview"]
    assert seen["thresholds"] == seen["runThresholds"] == sliders(page)
    if said := re.search(r"speak (\S+), update ([^\s,.]+(\.\d+)?)", status):
        assert {"speak": float(said[1]), "update": float(said[2])} == seen["thresholds"], status
    return dict(seen)


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
    for _ in range(4):
        for _ in range(chance.randint(1, 5)):
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
    page.click("#run")
    wait_for_status(page, "^Running")
    type_threshold(page, "speak", 0.85)
    page.wait_for_function("document.querySelector('.ss').inspect().isPreview")
    page.evaluate("document.querySelector('#stop').click()")  # on a busy machine the run may be over by now
    wait_for_status(page, "^Done: the same run with speak 0.85", timeout_s=120)
    wait_for_rest(page, {"speak": 0.85, "update": 0.5})


@pytest.mark.slow
def test_a_saved_run_of_another_checkpoint_keeps_its_thresholds(page: Page) -> None:
    page.get_by_role("tab", name="Batch").click()
    choose(page, "batch_runs", "foreign")
    page.locator("#videos [data-testid^=cell]", has_text="truck-1").first.click()
    wait_for_status(page, "^truck-1 in the run foreign")
    page.wait_for_function("document.querySelector('.ss').inspect().video === 'truck-1'")
    wait_for_rest(page, {"speak": 0.5, "update": 0.5})
    type_threshold(page, "speak", 0.2)
    wait_for_status(page, "a different checkpoint .* It keeps speak 0.5, update 0.5")
    wait_for_rest(page, {"speak": 0.5, "update": 0.5})
    drag_line(page, "update", 0.9)
    wait_for_rest(page, {"speak": 0.5, "update": 0.5})


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
def test_a_move_while_a_bundled_video_is_run_again_is_not_lost(browser: Browser, tmp_path: Path) -> None:
    with serve(data=ASSETS / "demo" / "test.json", checkpoint=ASSETS / "checkpoint", runs=tmp_path / "runs") as url:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        open_page(page, f"{url}/?video=sandwich-hard-permuted")
        run(page)
        type_threshold(page, "speak", 0)
        wait_for_status(page, "^(Waiting to run|Running) again with speak 0, update 0.5")
        drag_line(page, "update", 0.85)
        wait_for_status(page, "^Done: the same run with speak 0, update 0.8")
        wait_for_rest(page)
        chance = random.Random(15)
        for move in (drag_line, type_threshold, drag_slider, drag_line, type_threshold):
            move(page, chance.choice(HEADS), round(chance.uniform(0.1, 0.9), 2))
            page.wait_for_timeout(chance.choice([0, 100, 750, 1500]))
        wait_for_rest(page)
        check_against_a_fresh_run(page, browser, url)
        page.close()


def ranges(page: Page) -> dict[str, str]:
    return {name: page.input_value(f"#{name}_threshold input[type=range]") for name in HEADS}


def test_a_threshold_is_shown_with_all_its_digits_and_only_a_hand_rounds_it(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/?video=truck-1&run=x&speak=0.725&update=0.6125001")
    wait_for_status(page, "^(⚠ )?Done")
    wait_for_rest(page, {"speak": 0.725, "update": 0.6125001})
    assert ranges(page) == {"speak": "0.725", "update": "0.6125001"}
    assert "speak 0.725 · update 0.6125001" in page.locator(".ss-origin summary").inner_text()
    assert "0.6125001" in page.locator(".ss-decision").last.inner_text()
    page.wait_for_function("new URLSearchParams(location.search).get('update') === '0.6125001'")
    row = next(row for row in inspect(page)["rows"] if row.get("name") == "speak")
    canvas = page.locator(".ss-canvas").bounding_box()
    assert canvas is not None
    y = canvas["y"] + row["top"] + row["height"] - 5 - 0.725 * (row["height"] - 11)
    page.mouse.move(canvas["x"] + 400, y)
    page.mouse.down()
    page.mouse.move(canvas["x"] + 400, y + 1)
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


def retype(page: Page, box: str, text: str) -> None:
    """Type into the number box of a threshold, key by key."""
    page.click(f"#{box} input[type=number]", click_count=3)
    expect(page.locator(f"#{box} input[type=number]")).to_be_focused()
    page.keyboard.press("Delete")
    page.keyboard.type(text)


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
    page.keyboard.press("Escape")
    page.evaluate("document.querySelector('#video video').currentTime = 1.1")
    page.wait_for_function("document.querySelector('.ss').inspect().frame === 2")
    page.locator("[data-do=nextFrame]").focus()
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('.ss').inspect().frame === 3")


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


def test_the_batch_tab_refuses_what_the_player_refuses(page: Page) -> None:
    page.get_by_role("tab", name="Batch").click()
    wait_for_status(page, ".", status=BATCH_STATUS)
    said = page.locator(BATCH_STATUS).text_content()
    retype(page, "batch_update", "")
    page.click("#start")
    problem = page.locator("#batch_update .threshold-problem")
    assert problem.inner_text() == "The update threshold must be a number from 0 to 1; got nothing. It stays 0.5."
    assert page.input_value("#batch_update input[type=number]") == "0.5"
    assert page.locator(BATCH_STATUS).text_content() == said
    retype(page, "batch_update", "0,4")
    assert page.input_value("#batch_update input[type=number]") == "0.4"
    assert problem.count() == 0
