import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.eval.metrics.decisions import count_decisions, reference_frames
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, rows, wait_until_drawn
from tests.support.pages.two_videos import count_requests, cues, show, wait_for_time
from tests.support.reviews.played import HOSTILE, make_run

pytestmark = NEEDS_CHROMIUM


def test_a_click_at_the_middle_seeks_there_with_at_most_one_request(page: Page) -> None:
    requested = count_requests(page)
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    left, right = box["x"] + 150, box["x"] + box["width"] - 14  # the gutter of the labels, and the margin
    page.mouse.click((left + right) / 2, box["y"] + 60)
    wait_for_time(page, 5.0)
    page.wait_for_timeout(300)
    assert len(requested) <= 1
    page.mouse.move(left + 10, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(left + 0.8 * (right - left), box["y"] + 60, steps=8)
    page.mouse.up()
    wait_for_time(page, 8.0)


def test_every_key_does_what_the_list_says(page: Page) -> None:
    def press(key: str) -> dict[str, Any]:
        page.keyboard.press(key)
        wait_until_drawn(page)
        return inspect(page)

    assert not press(" ")["isPaused"]
    assert press("k")["isPaused"]
    page.evaluate("document.querySelector('#video video').currentTime = 0")
    assert press("ArrowRight")["frame"] == 1
    assert press("ArrowRight")["frame"] == 2
    assert press("ArrowLeft")["frame"] == 1
    before = inspect(page)["time"]
    assert press(".")["time"] == pytest.approx(before + 0.1, abs=0.02)
    assert press(",")["time"] == pytest.approx(before, abs=0.02)
    assert press("l")["time"] == pytest.approx(before + 5, abs=0.05)
    assert press("j")["time"] == pytest.approx(before, abs=0.05)
    assert press("End")["time"] > 9.9
    assert press("Home")["time"] == 0
    assert press(">")["rate"] == 1.5
    assert press("<")["rate"] == 1
    assert press("n")["time"] == pytest.approx(3.5, abs=0.01)
    assert press("i")["region"][0] == pytest.approx(3.5, abs=0.01)
    press("l")
    assert press("o")["region"][1] == pytest.approx(8.5, abs=0.01)
    assert press("r")["isLooping"]
    assert not press("r")["isLooping"]
    assert inspect(page)["region"] == pytest.approx([3.5, 8.5], abs=0.01)  # kept for the next loop
    assert press("f")["region"] is None
    view = press("+")["view"]
    assert view["end"] - view["start"] == pytest.approx(5)
    view = press("-")["view"]
    assert (view["start"], view["end"]) == pytest.approx((0, 10))
    press("+")
    assert press("0")["view"] == {"start": 0, "end": 10}
    assert [press("c")["captions"] for _ in range(3)] == ["model", "reference", "off"]
    assert [press("t")["tab"] for _ in range(3)] == ["curves", "story", "rows"]
    press("h")
    assert page.locator(".ss-inspection").is_visible()
    press("Escape")
    assert not page.locator(".ss-inspection").is_visible()
    press("?")
    assert page.locator(".ss-help").is_visible()
    assert page.locator(".ss-help tr:has(kbd)").count() == 19
    press("Escape")
    assert not page.locator(".ss-help").is_visible()


def test_keys_are_left_alone_while_typing(page: Page) -> None:
    page.click("#typing textarea")
    page.keyboard.type("n l ? 0")
    assert page.input_value("#typing textarea") == "n l ? 0"
    assert inspect(page)["time"] == 0
    assert not page.locator(".ss-help").is_visible()


def test_previews_count_as_the_scores_do(page: Page, folder: Path) -> None:
    run = make_run(folder)
    sample = run.clip.sample
    assert sample is not None
    move = """([name, value]) => {
        document.dispatchEvent(new CustomEvent('stepscope:threshold', {detail: {[name]: value}}));
    }"""
    for name, role in (("speak", "assistant"), ("update", "update")):
        probs = [getattr(output, f"{name}_prob") for output in run.outputs]
        for threshold in (0.0, 0.2, 0.4, 0.7, 0.9, 1.0, probs[3]):
            page.evaluate(move, [name, threshold])
            counts = count_decisions(
                probs, [prob > threshold for prob in probs], expected_frames=reference_frames(sample, role), fps=2.0
            )
            hits = counts.num_pairs[2]  # within 1 s
            assert inspect(page)["counts"][name] == {
                "hits": hits,
                "misses": counts.num_expected - hits,
                "alarms": counts.num_decided - hits,
            }


def test_what_is_at_the_playhead_is_told_in_full(page: Page) -> None:
    page.locator(".ss-row", has_text="0:05.5").click()
    wait_for_time(page, 5.5)
    page.wait_for_function("document.querySelector('.ss-now').textContent.includes('frame 12 of 20')")
    now = page.locator(".ss-now").inner_text()
    assert "spoke" in now
    assert "Now the roof." in now
    assert "matched similarity 1.00, cost" in now
    assert "1.5 s late" in now
    assert re.search(r"133 tokens in the context, \d\.\d ms of model time", now)
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.ss-now').textContent.includes('frame 20 of 20')")
    assert "S2 put on the roof ○ not started ≠ ref. ◐" in " ".join(page.locator(".ss-states").inner_text().split())
    assert page.locator(".ss-row.ss-current").count() == 1


def test_hostile_texts_stay_texts_in_every_lane(page: Page) -> None:
    show(page, "hostile")
    page.keyboard.press("t")
    page.keyboard.press("t")
    page.keyboard.press("c")
    for key in ("n", "n", "n", "+", "+", "Home", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
        wait_until_drawn(page)
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    for y in range(8, int(box["height"]), 12):
        page.mouse.move(box["x"] + 60, box["y"] + y)
        page.mouse.move(box["x"] + 500, box["y"] + y)
    assert any(HOSTILE in row for row in rows(page))
    assert HOSTILE.split()[0] in page.locator(".ss-now").inner_text()
    assert page.evaluate("window.hacked === undefined && !document.querySelector('.ss img, .ss script')")
    captions = cues(page)
    assert len(captions) == 3
    assert all("<" not in text for _, _, text in captions)
    assert page.locator(".ss-now").bounding_box()["width"] < 500  # type: ignore[index]


def test_a_pack_is_one_string_of_json(folder: Path) -> None:
    pack = json.loads((folder / "a.json").read_text(encoding="utf-8"))
    assert {type(pack[name]) for name in ("times", "speak", "update", "cache", "latency")} == {str}
