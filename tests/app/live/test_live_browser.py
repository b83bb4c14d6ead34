"""The live tab in Chromium, with its fake camera."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.folder import RunFolder
from tests.support.pages.browser import NEEDS_CHROMIUM, open_browser, serve, wait_until_open

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]

FAKE_CAMERA = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
NUM_FRAMES = "() => document.querySelector('#live_player .ss')?.unpacked?.()?.times.length ?? 0"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser(FAKE_CAMERA) as chromium:
        yield chromium


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    window = browser.new_page()
    yield window
    window.close()


@pytest.fixture(scope="module")
def address(tiny_folder: Path, demo_manifest: Path, runs: Path) -> Iterator[str]:
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=runs) as url:
        yield url


def choose_webcam(page: Page) -> None:
    """Choose the webcam, with the task of the bundled video."""
    boxes = [page.locator(f"#live_{name} :is(textarea, input)") for name in ("goal", "steps")]
    task = [box.input_value() for box in boxes]
    page.get_by_role("radio", name="Webcam").check()
    expect(page.locator("#live_status"), "it was about the source before").to_have_text("")
    for box, text in zip(boxes, task, strict=True):
        expect(box).to_have_value("")  # it was that of the bundled video
        box.fill(text)


def test_a_webcam_is_streamed_asked_and_opened_in_the_player(page: Page, address: str, runs: Path) -> None:
    before = set(runs.glob("live-*"))
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#player .ss")
    page.get_by_role("tab", name="Live").click()
    choose_webcam(page)
    first = "window.first ||= document.querySelector('#live_player .ss-now')?.innerText.match(/frame 1\\b.*/)?.[0]"
    page.evaluate(f"(function look() {{ {first}; requestAnimationFrame(look); }})()")
    page.click("#live_start")
    page.wait_for_function(f"{NUM_FRAMES.removeprefix('() => ')} >= 4")
    assert page.evaluate("window.first").strip() == "frame 1", "a session has no length"
    assert "NaN" not in page.inner_text("#live_player .ss-now")
    assert page.evaluate("document.querySelector('#live_monitor video').videoWidth") > 0
    assert not page.is_visible("#live_monitor img")
    page.fill("#live_question :is(textarea, input)", "What is next?")
    page.click("#live_ask")
    page.wait_for_function("document.querySelector('#live_player .ss-rows').innerText.includes('What is next?')")
    page.wait_for_function("document.querySelector('#live_numbers').innerText.includes('real-time factor')")
    rows = page.evaluate("document.querySelector('#live_player .ss').inspect().rows.map((row) => row.label)")
    assert "user" in rows, "the first question adds a lane"
    page.click("#live_stop")
    page.wait_for_function("document.querySelector('#live_status').innerText.includes('Recorded as')")
    page.click("#live_open")
    page.wait_for_function("document.querySelector('#player .ss').inspect().video?.startsWith('live-')")
    assert page.is_visible("#player .ss-board")
    assert problems == []
    (folder,) = set(runs.glob("live-*")) - before
    sample = read_split(RunFolder(folder).split_path()).samples[0]
    assert [turn.text for turn in sample.turns if turn.role == "user"] == ["What is next?"]
    assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["source"] == "webcam"
    assert len(RunFolder(folder).outputs(sample)) == sample.num_frames


def test_a_session_is_in_the_address_and_asks_before_its_page_ends(page: Page, address: str, runs: Path) -> None:
    before = set(runs.glob("live-*"))
    asked: list[str] = []

    def accept(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", accept)
    page.goto(address)
    wait_until_open(page)
    page.get_by_role("tab", name="Live").click()
    page.wait_for_url("**tab=live")
    choose_webcam(page)
    page.click("#live_start")
    page.wait_for_function(f"{NUM_FRAMES.removeprefix('() => ')} >= 2")
    page.wait_for_function("JSON.parse(sessionStorage.getItem('stepscope:recording'))")
    assert asked == []
    page.reload()
    assert asked == ["beforeunload"]
    page.wait_for_function("document.querySelector('.live-none')?.textContent.includes('was recorded as live-')")
    page.reload()
    assert asked == ["beforeunload"], "no session is lost now"
    (folder,) = set(runs.glob("live-*")) - before
    until_complete = f"document.querySelector('.live-none')?.textContent.includes('{folder.name}')"
    page.wait_for_function(until_complete)
