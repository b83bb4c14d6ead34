"""The batch tab in a browser: start, leave and come back, download, open, compare, charts, hostile names."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.app.agents.conftest import call_tools
from tests.app.batch.runs.test_scoring import repeat
from tests.app.player.static.test_stops_browser import painted_texts
from tests.app.test_page_browser import wait_for_address
from tests.support.data.batches import copies, make_worker_config, write_scores, write_split
from tests.support.pages.browser import NEEDS_CHROMIUM, forget, open_page, serve, wait_for_status
from tests.support.servers.served import ModelServer, serve_chat

HOSTILE = "<img src=x onerror=window.hacked=1> {{1+1}} ${1+1}"
STATUS = ".wb-run [role=status]"
pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with serve_chat(ModelServer(answers=[])) as server:
        yield server


@pytest.fixture(scope="module")
def address(
    tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory, runs: Path, model: ModelServer
) -> Iterator[str]:
    """Serve the split ``test`` of four videos, and the runs ``prompt`` and ``late`` of the split ``other``.

    One of the four has a hostile name, one is damaged.
    """
    folder = tmp_path_factory.mktemp("split")
    videos = [{**video, "fps": 2.0, "num_frames": 12} for video in copies(demo_manifest, folder, 4)]
    other = write_split(folder, *videos[:3]).rename(folder / "other.json")
    work = make_worker_config(tiny_folder)
    for name, speak, late in (("prompt", 0.25, 0), ("late", 0.75, 3)):
        config = replace(work.config, speak_threshold=speak)
        (runs / name).mkdir()
        made = build_run_settings(read_split(other), replace(work, config=config), parse_devices("cpu:2"))
        RunFolder(runs / name).write_settings(made)
        for sample in read_split(other).samples:
            record = VideoRecord(video_id=sample.video_id, source=digest_sample(sample), num_frames=12)
            RunFolder(runs / name).save_video(record, repeat(sample, late=late))
        write_scores(other, runs / name)
    videos[1]["video_id"] = HOSTILE
    (folder / "v2.mp4").write_bytes(b"noise")
    manifest = write_split(folder, *videos).rename(folder / "test.json")
    more = ["--split", str(other), "--endpoint", model.url, "--model", "m"]
    with serve(data=manifest, checkpoint=tiny_folder, runs=runs, more=more) as url:
        yield url


@pytest.fixture
def page(window: Page, address: str) -> Page:
    forget(window, address)
    show_batch(window, address)
    return window


def show_batch(window: Page, address: str) -> None:
    open_page(window, address)
    window.get_by_role("tab", name="Batch").click()
    wait_for(window, ".")
    window.locator("#videos .wb-video:not(.wb-head)").first.wait_for()


def wait_for(page: Page, pattern: str) -> str:
    return wait_for_status(page, pattern, status=STATUS, timeout_s=120)


def open_form(page: Page) -> None:
    if not page.locator("#new_run").is_visible():
        page.click("#new_run_fold button")


def start(page: Page, name: str) -> None:
    open_form(page)
    page.fill("#run_name textarea, #run_name input", name)
    page.click("#start")


def choose(page: Page, name: str) -> None:
    """Show a run by a click on its row."""
    page.get_by_role("button", name=name, exact=True).click()
    page.locator(".wb-run[aria-current] .wb-name", has_text=name).wait_for()


def cells(page: Page) -> list[str]:
    script = "[...document.querySelectorAll('#videos .wb-video .wb-name')].map((name) => name.textContent)"
    texts: list[str] = page.evaluate(script)
    return texts


def test_two_compared_runs_keep_their_letters_and_back_returns_to_the_comparison(page: Page) -> None:
    choose(page, "prompt")
    page.get_by_label("Compare late").check()
    wait_for_status(page, "^A is prompt, B is late; 3 videos", status="#compared [role=status]")
    wait_for_address(page, "tab=batch&view=Compare&shown=prompt&against=late")
    page.locator("#compared_videos [data-testid^=cell]", has_text="v1").first.click()
    expect(page.locator(".focus [data-part=run]")).to_contain_text("B late beside A prompt")
    page.locator(".ss-failure").wait_for()
    wait_for_address(page, "video=v1&saved=prompt&other=late&above=B&t=")
    assert {"B assistant", "A: prompt", "A assistant"} <= set(painted_texts(page))
    page.go_back()
    page.wait_for_selector("#compared_videos", state="visible")
    wait_for_address(page, "tab=batch&view=Compare&shown=prompt&against=late")


def test_a_question_is_answered_with_a_link_into_the_player_or_cancelled(page: Page, model: ModelServer) -> None:
    is_cancelled = threading.Event()

    def respond(request: dict[str, Any]) -> tuple[int, Any]:
        if "wait" in request["messages"][1]["content"][0]["text"]:
            is_cancelled.wait(60)
        if len(request["messages"]) == 2:
            return call_tools(("list_mistakes", {"run": "late"}))
        video, ((time_s, *_), *_) = next(iter(json.loads(request["messages"][-1]["content"])["mistakes"].items()))
        text = f"Late [here](?saved=late&video={video}&t={time_s}) <img src=x onerror=window.hacked=1>"
        return 200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}

    model.respond = respond
    choose(page, "late")
    page.get_by_role("tab", name="Ask", exact=True).click()
    page.get_by_label("Ask about this run").fill("Please wait")
    page.click("#start_ask_run")
    page.click("#cancel_ask_run")
    wait_for_status(page, "Cancelled", status="#ask_run_progress")
    is_cancelled.set()
    page.get_by_label("Ask about this run").fill("What is late?")
    page.click("#start_ask_run")
    page.get_by_role("link", name="here").click()
    expect(page.locator(".focus [data-part=run]")).to_contain_text("late")
    page.wait_for_function("document.querySelector('.ss').inspect?.()?.video === 'v0'")
    page.wait_for_function("location.search.includes('saved=late')")
    assert page.evaluate("window.hacked") is None


def test_nothing_is_cut_off(page: Page) -> None:
    choose(page, "prompt")
    page.wait_for_function("document.querySelector('#videos').textContent.includes('v2')")
    cut = """(parts) => [...document.querySelectorAll(parts)].filter((part) => part.checkVisibility())
        .filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.textContent || part.value)"""
    for width in (390, 1024, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(cut, "#videos :is(.wb-score, .wb-name), #shown button, .wb-run") == []
        if width > 390:  # which is a phone's, without a pointer that hovers
            page.locator("#corpus tr[data-hint]").first.hover()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "hints too are on the page"
    page.get_by_role("button", name="Over time").click()  # a view of all runs takes the place of the videos
    page.wait_for_function("""() => {
        const ids = ["bench", "bench_videos", "bench_views"],
            [bench, videos, views] = ids.map((id) => document.getElementById(id));
        const rightOf = (part) => part.getBoundingClientRect().right;
        return !videos.checkVisibility() && Math.abs(rightOf(bench) - rightOf(views)) < 2;
    }""")


def click_chart(page: Page, chart: str, x: float, y: float) -> None:
    """Click a place of the window once the chart shows the point there."""
    page.mouse.move(x - 1, y)
    page.mouse.move(x, y)
    page.wait_for_selector(f"{chart} .hovertext")
    page.mouse.click(x, y)


def test_points_of_charts_filter_videos_and_set_thresholds(page: Page) -> None:
    choose(page, "late")
    page.wait_for_function("/other.json/.test(document.querySelector('#origin').textContent)")
    page.get_by_role("tab", name="Charts").click()
    page.wait_for_selector("#chart_failures .point")
    kinds: list[int] = page.evaluate("document.querySelector('#chart_failures .ss-chart').data[0].x")
    number = next(at for at, count in enumerate(kinds) if count)
    page.locator("#chart_failures").scroll_into_view_if_needed()
    box = page.locator("#chart_failures .point").nth(number).bounding_box()
    assert box is not None
    click_chart(page, "#chart_failures", box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_function("document.querySelector('#search :is(input, textarea)').value.startsWith('failure:')")
    page.locator("#videos .wb-moment").first.wait_for()
    page.get_by_role("tab", name="Thresholds").click()
    page.wait_for_selector("#heat .main-svg[role=img]")
    page.locator("#heat .nsewdrag").hover(position={"x": 15, "y": 15})  # once it is at rest
    box = page.locator("#heat .nsewdrag").bounding_box()
    assert box is not None
    click_chart(
        page, "#heat", box["x"] + 15, box["y"] + 15
    )  # the cell of the least speak and the greatest update threshold
    wait_for_status(page, r"Done: speak 0\.05, update 0\.95 set for the next run", status="#swept .status-line")
    for slider in ("#batch_speak", "#speak_threshold"):
        assert page.locator(f"{slider} input[type=number]").input_value() == "0.05"


def test_a_run_is_left_and_come_back_to_and_a_row_opens_the_player(page: Page, address: str, runs: Path) -> None:
    start(page, "first")
    page.locator(".wb-run[aria-current] .wb-name", has_text="first").wait_for()
    expect(page.locator("#new_run"), "its row is in view").to_be_hidden()
    page.goto("about:blank")
    show_batch(page, address)
    assert "1 of them failed" in wait_for(page, "Done: first, 4 videos")
    assert {"v0", "v3", f"{HOSTILE[:32]}…"} <= set(cells(page))  # the hostile name, shortened
    with page.expect_download() as download:
        page.get_by_role("button", name="videos.csv").click()
    assert download.value.suggested_filename == "first-videos.csv"
    rows = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    kept = (runs / "first" / "videos.csv").read_text(encoding="utf-8").splitlines()
    assert all(row.startswith(start) for row, start in zip(rows, kept, strict=True)), "with its provenance"
    expect(page.locator("#origin table")).to_contain_text("test.json")
    page.wait_for_function("document.querySelector('#videos img')?.naturalWidth > 0")
    page.locator("#videos .wb-name", has_text="v3").click()
    page.wait_for_function("document.querySelector('.ss')?.inspect().video === 'v3'")
    assert page.evaluate("window.hacked") is None


def test_uploaded_annotations_are_listed_and_a_row_opens_its_drawn_video(page: Page, tmp_path: Path) -> None:
    (tmp_path / "tea.csv").write_text(f"video,start,end,step\nkettle,0,2,{HOSTILE}\n")
    open_form(page)
    page.click("#another_split button >> nth=0")
    page.check("#split_draws input")
    page.set_input_files("#split_file input[type=file]", tmp_path / "tea.csv")
    wait_for_status(
        page,
        "^The split “tea” has 1 video. .*1 step, 1 without a file [(]drawn[)].$",
        status="#batch_status [role=status]",
    )
    wait_for_status(page, "^tea: 1 video. Click a row", status="#split_said [role=status]")
    assert HOSTILE in page.locator("#split_recipes li").inner_text()
    page.locator("#split_videos [data-testid=cell-0-0]").click()
    expect(page.locator(".focus")).to_contain_text("no run")
    expect(page.locator(".focus [data-part=video]")).to_contain_text("kettle")
    page.wait_for_function("Math.abs(document.querySelector('#video video')?.duration - 2.5) < 0.3")
