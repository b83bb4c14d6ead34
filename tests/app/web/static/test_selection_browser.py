"""A verdict key applies to the selected event: a failure, a row, or a mark in a lane; all have one order."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.reviews.events import name_events
from stepscope.app.reviews.store import ReviewStore
from stepscope.app.web.payload import pack_run
from stepscope.eval.annotations.corrections import name_turns
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, wait_until_drawn
from tests.support.pages.signals import find_row, point
from tests.support.reviews.played import judge, keys_of_failures, make_run
from tests.support.reviews.reviewing import make_folder, name_reviewer

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("selection"))
    write_ties(folder)
    return folder


def write_ties(folder: Path) -> None:
    """Write a run with three failures at 4 s: a wrong update, a missed response, and a wrong state."""
    run = make_run(folder)
    sample = run.clip.sample
    assert sample is not None
    wrong: dict[int, dict[str, Any]] = {
        8: {"updates": ("S2->start",), "legality": ("legal",)},
        7: {"updates": (), "legality": ()},
        11: {"response": None},
    }
    states = {"S1": "in_progress", "S2": "not_started"}
    outputs = [replace(output, **wrong.get(output.frame_index, {})) for output in run.outputs]
    outputs = [replace(output, dst_state=states if output.frame_index >= 2 else output.dst_state) for output in outputs]
    run = replace(run, outputs=tuple(outputs))
    judged = judge(run)
    events = name_events("a", outputs=outputs, references=name_turns(sample.turns), judged=judged)
    (folder / "ties.json").write_text(pack_run(run, judged, events=events), encoding="utf-8")


def read_pack(folder: Path, name: str) -> dict[str, Any]:
    pack: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return pack


def wait_for(page: Page, condition: str) -> dict[str, Any]:
    """Wait until the player's state ``seen`` satisfies a condition."""
    page.wait_for_function(f"(() => {{ const seen = document.querySelector('.ss').inspect(); return {condition}; }})()")
    return inspect(page)


def go_to_first_event(page: Page) -> None:
    """Select the first event: from any event, back until it does not change."""
    page.keyboard.press("Home")
    wait_for(page, "seen.time < 0.01 && seen.frame === 0")
    while inspect(page)["event"] is None:
        page.keyboard.press("w")
        wait_until_drawn(page)
    before = None
    while (key := inspect(page)["event"]["key"]) != before:
        before = key
        page.keyboard.press("q")


def check_failures(page: Page, pack: dict[str, Any]) -> None:
    """Step forwards and back through all failures; each must select its own event."""
    page.keyboard.press("Home")
    keys = keys_of_failures(pack)
    last = len(keys) - 1
    steps = [("n", number) for number in range(len(keys))] + [("p", number) for number in range(last - 1, -1, -1)]
    for key, number in steps:
        page.keyboard.press(key)
        seen = wait_for(page, f"seen.cursor === {number}")
        assert seen["event"]["key"] == keys[number], (key, pack["failures"][number])
        assert pack["failures"][number]["kind"] in page.inner_text(".ss-event")


def check_rows(page: Page, store: ReviewStore) -> None:
    """Click every row and give a verdict: it must be stored for the row's event, which the first shows in each tab."""
    judged = list[str]()
    for number in range(page.locator(".ss-row").count()):
        page.click("[data-tab=rows]")
        row = page.locator(".ss-row").nth(number)
        row.scroll_into_view_if_needed()
        time_text, text = row.locator(".ss-time").inner_text(), row.locator(".ss-words > *").first.text_content()
        row.locator(".ss-time").click()
        for tab in ("rows",) if judged else ("review", "curves", "rows"):
            page.click(f"[data-tab={tab}]")
            assert (text or "").removeprefix("missed") in (page.text_content(".ss-event") or "")
            assert time_text in page.inner_text(".ss-event")
        page.keyboard.press("5")
        wait_for(page, "seen.saved && !seen.waiting")
        event = store.read()[-1].event
        assert event is not None
        assert event.text == (text or "").removeprefix("missed").removeprefix("reference")
        assert f"{int(event.time_s // 60)}:{event.time_s % 60:04.1f}" == time_text
        judged.append(event.key)
    assert len(set(judged)) == len(judged)


def place(page: Page, lane: str, time_s: float, *, below: float) -> tuple[float, float]:
    """Return the screen position of a time in a lane, ``below`` pixels from the lane's top."""
    row, _, box = find_row(page, lane)
    return point(page, lane, time_s)[0], box["y"] + row["top"] + below


def test_every_failure_selects_its_own_event_also_right_after_a_seek(page: Page, folder: Path) -> None:
    check_failures(page, read_pack(folder, "a"))  # forwards, and back to the first
    page.keyboard.press("n")
    wait_for(page, "seen.cursor === 1")
    page.evaluate("""for (const key of ["Home", "n"]) {
        document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, composed: true}));
    }""")
    assert inspect(page)["cursor"] == 0


def test_a_verdict_lands_on_the_row_that_was_clicked(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "ann")
    check_rows(page, store)


@pytest.mark.slow
def test_no_failure_is_skipped_from_an_event_or_from_the_playhead(page: Page, folder: Path) -> None:
    name_reviewer(page, "eve")
    pack = read_pack(folder, "a")
    keys = keys_of_failures(pack)
    go_to_first_event(page)
    order = list[str]()
    while not order or order[-1] != inspect(page)["event"]["key"]:  # from event to event, to the last
        order.append(inspect(page)["event"]["key"])
        page.keyboard.press("w")
    places = [order.index(key) if key in order else -1 for key in keys]
    go_to_first_event(page)
    for place, key in enumerate(order):
        seen = wait_for(page, f"seen.event?.key === {json.dumps(key)}")
        if key not in keys:
            page.keyboard.press("n")
            later = [number for number, at in enumerate(places) if at > place]
            if later:
                seen = wait_for(page, f"seen.cursor === {later[0]}")
                assert seen["event"]["key"] == keys[later[0]]
                for _ in range(order.index(keys[later[0]]) - place):
                    page.keyboard.press("q")
                wait_for(page, f"seen.event?.key === {json.dumps(key)}")
        page.keyboard.press("w")
    for number, failure in enumerate(pack["failures"]):
        if number and failure["frame"] == pack["failures"][number - 1]["frame"]:
            continue
        page.keyboard.press("Home")
        page.evaluate(
            "(time) => { document.querySelector('#video video').currentTime = time; }", failure["frame"] / pack["fps"]
        )
        wait_for(page, f"Math.abs(seen.time - {failure['frame'] / pack['fps']}) < 0.02 && seen.cursor === null")
        page.keyboard.press("n")
        wait_for(page, f"seen.cursor === {number}")


@pytest.mark.slow
def test_a_mark_in_a_lane_selects_its_event(page: Page, folder: Path) -> None:
    page.set_viewport_size({"width": 1440, "height": 1200})
    page.click("[data-tab=review]")
    prob = make_run(folder).outputs[7].update_prob
    on_trace = 56 - 5 - prob * (56 - 11)
    marks = [  # lane, its time, pixels below its top, and of what kind and text the event is
        ("said", 5.5, 10.0, ("generated", "Now the roof. ")),
        ("said", 1.0, 10.0, ("generated", "Now the wheel. ")),
        ("reference", 6.0, 10.0, ("reference", "Careful! ")),
        ("user", 3.0, 10.0, ("reference", "What is next? ")),
        ("corrected", 6.0, 7.0, ("reference", "Careful! ")),
        ("corrected", 8.5, 19.0, ("reference", "S2->start")),
        ("judged", 9.0, 6.0, ("generated", "!?%&/ 12345 ")),
        ("update", 8.5, 51.0, ("reference", "S2->start")),
        ("update", 3.5, on_trace, ("update", "S1->complete")),
        ("update", 3.5, on_trace, ("update", "S2->begin")),  # a second click on a mark that two share
        ("step", 9.5, 14.0, ("state", "S2")),  # hatched: what is wrong there
    ]
    for kind, time_s, below, expected in marks:
        page.mouse.click(*place(page, kind, time_s, below=below))
        seen = wait_for(page, f"Math.abs(seen.time - {time_s}) < 0.05")
        assert (seen["event"]["kind"], seen["event"]["text"]) == expected, (kind, time_s)
        assert expected[1].strip() in page.inner_text(".ss-event")


@pytest.mark.slow
def test_deleting_names_what_it_deleted(page: Page) -> None:
    name_reviewer(page, "bea")
    page.keyboard.press("n")
    wait_for(page, "seen.cursor === 0")
    page.keyboard.press("d")
    assert inspect(page)["said"].startswith("Only a turn of the reference can be corrected, and this is model update")
    for _ in range(3):
        page.keyboard.press("n")
    wait_for(page, "seen.cursor === 3")
    page.keyboard.press("d")
    wait_for(page, "seen.saved && !seen.waiting")
    assert inspect(page)["said"] == "Deleted the reference turn “Careful! ” at 0:06.0. Z brings it back."
    page.keyboard.press("z")
    wait_for(page, "seen.said.startsWith('Taken back')")
    assert inspect(page)["said"] == "Taken back: your deletion of reference turn “Careful! ” at 0:06.0."
    assert [turn for turn in inspect(page)["layer"] if turn["look"] == "deleted"] == []


@pytest.mark.slow
def test_no_failure_of_one_second_is_skipped_after_a_verdict(page: Page, folder: Path) -> None:
    name_reviewer(page, "tim")
    page.click("#ties")
    wait_for(page, "seen.rows.length && !seen.isAsking")
    page.wait_for_function("document.querySelector('.ss').unpacked().turns.length === 4")
    pack = read_pack(folder, "ties")
    tied = [number for number, failure in enumerate(pack["failures"]) if failure["frame"] == 8]
    assert [pack["failures"][number]["kind"] for number in tied] == ["wrong update", "missed", "wrong state"]
    keys, page_keys = keys_of_failures(pack), [event["key"] for event in pack["events"]]
    assert keys == sorted(keys, key=page_keys.index), "failures have the order of the events"
    rows = page.evaluate("document.querySelector('.ss').unpacked().rows.map((row) => row.key)")
    assert rows == [event["key"] for event in pack["events"] if event["kind"] != "state" and event["key"] in rows]
    page.click("[data-tab=rows]")
    page.keyboard.press("Home")
    for number in range(tied[0] + 1):
        page.keyboard.press("n")
        wait_for(page, f"seen.cursor === {number}")
    for number in tied[1:]:
        page.keyboard.press("7")
        wait_for(page, "seen.said.includes('The next one is selected') && seen.saved && !seen.waiting")
        if (seen := inspect(page))["cursor"] == number:
            assert f": Failure {number + 1} of {len(keys)} · " in seen["said"]
        page.keyboard.press("n")  # also stops at a failure that the verdict selected
        wait_for(page, f"seen.said.includes('Failure {number + 1} of {len(keys)} · ')")
        assert wait_for(page, f"seen.cursor === {number}")["event"]["key"] == keys[number]


@pytest.mark.slow
def test_the_transcript_shows_the_selected_row(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script("""addEventListener('DOMContentLoaded', () => {
        const style = document.createElement('style');
        style.textContent = '.ss-side { height: 170px !important; }';
        document.head.append(style);
    })""")
    page.goto(address)
    page.wait_for_selector(".ss-row")
    in_view = """(words) => {
        const panel = document.querySelector('.ss-rows'), row = panel.querySelector('.ss-current');
        if (!row?.textContent.includes(words)) return false;
        const top = row.offsetTop - panel.offsetTop - panel.scrollTop;
        return top > -2 && top + row.offsetHeight < panel.clientHeight + 2;
    }"""
    page.keyboard.press("End")
    page.hover(".ss-rows")
    page.evaluate("document.querySelector('.ss-rows').scrollTop = 0")
    page.keyboard.press("p")
    wait_for(page, "seen.cursor !== null && seen.time > 8")
    page.wait_for_function(in_view, arg="!?%&/ 12345")
    key = inspect(page)["event"]["key"]
    page.goto(f"{address}?video=a&t=9.0&event={key}")
    page.wait_for_selector(".ss-row")
    wait_for(page, f"seen.event?.key === {json.dumps(key)} && seen.cursor !== null")
    page.wait_for_function(in_view, arg="!?%&/ 12345")
    page.click("[data-tab=review]")
    page.keyboard.press("Home")
    wait_for(page, "seen.cursor === null")
    page.keyboard.press("n")
    wait_for(page, "seen.cursor === 0")
    page.click("[data-tab=rows]")
    page.wait_for_function(in_view, arg="S2->begin")
