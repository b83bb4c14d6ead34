"""Failures, events and rows have one order, and the transcript shows the row that is selected."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.reviews.events import name_events
from stepscope.app.web.payload import pack_run
from stepscope.eval.annotations.corrections import name_turns
from tests.app.web.static.test_selection_browser import read_pack, wait_for
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.played import judge, keys_of_failures, make_run
from tests.support.reviews.reviewing import make_folder, name_reviewer

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("order"))
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
