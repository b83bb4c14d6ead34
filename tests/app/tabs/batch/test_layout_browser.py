"""The batch tab in a browser without a run of its own: the form, rows that open the player, Back, narrow windows."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from stepscope.eval.data.loading import read_split
from stepscope.eval.runs.batch import build_run_settings, parse_devices
from stepscope.eval.runs.folder import RunFolder, VideoRecord, digest_sample
from tests.app.tabs.batch.runs.test_scoring import repeat
from tests.app.tabs.batch.test_batch_browser import STATUS, choose, show_batch
from tests.app.test_page_browser import wait_for_address
from tests.app.web.static.test_stops_browser import painted_texts
from tests.support.data.batches import copies, make_worker_config, write_scores, write_split
from tests.support.pages.browser import NEEDS_CHROMIUM, forget, inspect, serve, wait_for_status
from tests.support.pages.thresholds import HEADS, wait_for_rest

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def address(tiny_folder: Path, demo_manifest: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the split ``other`` with runs ``prompt``, ``late`` and ``later`` of it; the form has another split."""
    folder = tmp_path_factory.mktemp("layout")
    videos = [{**video, "fps": 2.0, "num_frames": 12} for video in copies(demo_manifest, folder, 3)]
    split = write_split(folder, *videos).rename(folder / "other.json")
    work = make_worker_config(tiny_folder)
    for name, speak, late in (("prompt", 0.25, 0), ("late", 0.75, 3), ("later", 0.75, 4)):
        config = replace(work.config, speak_threshold=speak)
        (folder / "runs" / name).mkdir(parents=True)
        made = build_run_settings(read_split(split), replace(work, config=config), parse_devices("cpu:2"))
        RunFolder(folder / "runs" / name).write_settings(made)
        for sample in read_split(split).samples:
            record = VideoRecord(video_id=sample.video_id, source=digest_sample(sample), num_frames=12)
            RunFolder(folder / "runs" / name).save_video(record, repeat(sample, late=late))
        write_scores(split, folder / "runs" / name)
    more = ["--split", str(split)]
    with serve(data=demo_manifest, checkpoint=tiny_folder, runs=folder / "runs", more=more) as url:
        yield url


@pytest.fixture
def page(window: Page, address: str) -> Page:
    forget(window, address)
    show_batch(window, address)
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return window


def entries(page: Page) -> tuple[str, str, str]:
    split, speak, devices = (
        page.locator(f"#{box}").first.input_value()
        for box in ("split input", "batch_speak input[type=number]", "devices input")
    )
    return split, speak, devices


def compare(page: Page) -> None:
    """Compare ``prompt`` (A) with ``late`` (B)."""
    choose(page, "batch_runs", "prompt")
    page.get_by_role("tab", name="Compare").click()
    choose(page, "other", "late", beside="later")  # the list of the run that was open before has one of them
    wait_for_status(page, "^A is prompt, B is late; 3 videos", status="#compared [role=status]")


def test_a_reload_keeps_the_split_of_the_form_and_a_link_brings_its_own(page: Page, browser: Browser) -> None:
    assert entries(page)[0] == "test"
    choose(page, "split", "other")
    wait_for_address(page, "tab=batch")
    page.reload()
    page.wait_for_function("document.querySelector('#split input')?.value === 'other'")
    linked = browser.new_page()
    linked.goto(page.url.partition("?")[0] + "?video=v2&split=other&tab=batch")
    linked.wait_for_function("document.querySelector('#split input')?.value === 'other'")
    choose(linked, "split", "test")
    for tab in ("Reviews", "Batch"):
        linked.get_by_role("tab", name=tab, exact=True).click()
    linked.wait_for_function("document.querySelector('#split input')?.checkVisibility()")
    assert entries(linked)[0] == "test", "the choice of this window goes before the link"
    linked.close()


def test_a_refusal_goes_with_its_form_which_takes_the_settings_of_a_run_once_asked(page: Page) -> None:
    problem = page.locator("#start_problem .status-line")
    assert not problem.is_visible(), "there is no empty box"
    page.fill("#run_name textarea, #run_name input", "no/name")
    page.click("#start")
    wait_for_status(page, "a run's name may have letters", status="#start_problem [role=status]")
    page.fill("#batch_speak input[type=number]", "0.6")
    problem.wait_for(state="hidden")
    choose(page, "batch_runs", "late")
    page.wait_for_function(
        "/run late · split other.json .* speak 0.75 /.test(document.querySelector('#origin').textContent)"
    )
    assert entries(page) == ("test", "0.6", "auto"), "what was typed stays"
    page.click("#use_settings")
    wait_for_status(page, "^⚠ The form has the settings of late, but ", status=STATUS)  # made with short answers
    assert entries(page) == ("other", "0.75", "cpu:2")


def test_two_compared_runs_keep_their_letters_and_back_returns_to_the_comparison(page: Page) -> None:
    compare(page)
    wait_for_address(page, "tab=batch&view=Compare&shown=prompt&against=late")
    first = page.locator("#compared_failures tr[data-hint]").first
    assert first.inner_text().split()[0] == "Failures"
    above, turns = first.bounding_box(), page.locator("#turns").bounding_box()
    assert above is not None
    assert turns is not None
    assert above["y"] < turns["y"]
    heights = "[...document.querySelectorAll('#compared_failures tr[data-hint]')].map((row) => row.clientHeight)"
    assert max(page.evaluate(heights)) < 35, "each score has one line"
    page.fill("#batch_speak input[type=number]", "0.3")
    page.locator("#compared_videos [data-testid^=cell]", has_text="v1").first.click()
    wait_for_status(page, "^v1 in the run late, .*; the lanes of the run prompt are below. A is prompt, B is late.")
    page.wait_for_function("document.querySelector('.ss').inspect().cursor !== null")
    assert page.locator(".ss-failure").is_visible(), "the failure of the worst moment is selected"
    assert inspect(page)["tab"] == "rows"
    wait_for_address(page, "video=v1&saved=prompt&other=late&above=B&t=")
    assert {"B assistant", "A: prompt", "A assistant"} <= set(painted_texts(page))
    origins = page.locator(".ss-origins summary").all_text_contents()
    assert [origin[:11] for origin in origins] == ["B: run late", "A: run prom"]
    page.go_back()
    page.wait_for_selector("#compared_videos", state="visible")
    wait_for_address(page, "tab=batch&view=Compare&shown=prompt&against=late")
    assert page.input_value("#batch_speak input[type=number]") == "0.3", "a reload would reset it"
    page.go_forward()
    wait_for_address(page, "video=v1&saved=prompt&other=late&above=B&t=")
    page.reload()
    wait_for_status(page, "^v1 in the run late, .*; the lanes of the run prompt are below. A is prompt, B is late.")
    page.go_back()
    wait_for_status(page, "^A is prompt, B is late; 3 videos", status="#compared [role=status]")
    page.locator("#compared_videos [data-testid^=cell]", has_text="v1").first.wait_for()


def test_other_thresholds_of_a_compared_run_leave_the_run_below_it_also_after_a_reload(page: Page) -> None:
    page.goto(page.url.partition("?")[0] + "?video=v1&saved=prompt&other=late&above=B")
    wait_for_status(page, "^v1 in the run late, .* A is prompt, B is late.")
    page.fill("#speak_threshold input[type=number]", "0.35")
    below = "; the lanes of the run prompt are below. A is prompt, B is this run."
    wait_for_status(page, f"^Done: the same run with speak 0.35, update 0.5, 12 frames.*{below}$")
    wait_for_address(page, "video=v1&split=other&run=[0-9a-f]{12}&speak=0.35&update=0.5.*&other=prompt&above=B")
    page.locator(".ss-canvas").focus()
    page.keyboard.press("y")
    page.wait_for_function("document.querySelector('.ss-said').textContent.startsWith('Link copied.')")
    for address in (page.url, page.evaluate("navigator.clipboard.readText()")):
        page.goto(address)
        wait_for_status(page, f"^v1, 0:06, the earlier run.*{below} Press N for the next failure.$")
        page.wait_for_function("document.querySelectorAll('.ss-origins summary').length === 2")
        assert [origin[:6] for origin in page.locator(".ss-origins summary").all_text_contents()] == [
            "B: run",
            "A: run",
        ]
        assert {"B assistant", "A: prompt", "A assistant"} <= set(painted_texts(page))
        assert inspect(page)["runThresholds"] == {"speak": 0.35, "update": 0.5}
    page.goto(address.replace("other=prompt", "other=gone"))
    wait_for_status(page, "^⚠ the link cannot be opened: there is no run 'gone'")


def test_back_from_a_tab_leads_to_the_tab_before_without_a_new_page(page: Page) -> None:
    wait_for_address(page, "tab=batch")
    page.get_by_role("tab", name="Charts").click()
    wait_for_address(page, "view=Charts")
    page.evaluate("window.isOld = true")
    page.go_back()
    page.wait_for_selector("#video", state="visible")
    page.go_forward()
    page.wait_for_selector("#batch_runs", state="visible")
    assert page.get_by_role("tab", name="Charts").get_attribute("aria-selected") == "true"
    assert page.evaluate("window.isOld"), "a reload would stop what runs"
    page.get_by_role("tab", name="Reviews", exact=True).click()
    wait_for_address(page, "tab=reviews")
    page.get_by_role("tab", name="Player", exact=True).click()
    page.wait_for_function("!location.search.includes('tab=')")
    page.go_back()
    wait_for_address(page, "tab=reviews")  # also where it was open for a moment only


@pytest.mark.parametrize("width", [1024, 1920])
def test_nothing_is_cut_off(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    choose(page, "batch_runs", "prompt")
    page.wait_for_function("document.querySelector('#videos').textContent.includes('v2')")
    cut = """(parts) => [...document.querySelectorAll(parts)].filter((part) => part.checkVisibility())
        .filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.textContent || part.value)"""
    assert page.evaluate(cut, "#videos :is([data-testid^=header-] .header, [data-testid^=cell-])") == []
    assert page.evaluate(cut, "#shown button") == []
    page.get_by_role("tab", name="Scores").click()
    page.locator("#corpus tr[data-hint]").first.hover()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "hints too are on the page"
    page.get_by_role("tab", name="Charts").click()
    page.locator("#chart_videos .main-svg[role=img]").wait_for()
    widths = page.evaluate("[...document.querySelectorAll('.charts > .block .ss-chart')].map((one) => one.clientWidth)")
    assert len(widths) == 7
    assert max(widths) < min(widths) + 10, "all charts are of one size"
    edge = "(part) => document.querySelector(part).getBoundingClientRect().left"
    assert page.evaluate(edge, "#chart_precision_recall .ss-chart") == page.evaluate(edge, "#batch_views")
    page.get_by_role("tab", name="Training").click()
    page.wait_for_selector("#training_said .status-line", state="visible")
    assert page.evaluate(edge, "#training_said .status-line") == page.evaluate(edge, "#batch_views")
    page.get_by_role("tab", name="Thresholds").click()
    page.locator("#heat .main-svg[role=img]").wait_for()
    assert page.evaluate(cut, "#metric input") == []
    page.get_by_role("tab", name="Leaderboard").click()
    page.wait_for_selector("#board th", state="attached")
    end = "(selector) => Math.round(document.querySelector(selector).getBoundingClientRect().right)"
    page.wait_for_function(f"Math.abs(({end})('#board') - ({end})('#board th:last-child')) <= 2")
    page.get_by_role("tab", name="Protocols").click()
    wait_for_status(page, "^3 videos, 95 % intervals", status="#protocols_said [role=status]")
    page.locator("#protocol_cards section").first.wait_for()
    assert page.evaluate(cut, ".protocols section") == []


def click_chart(page: Page, chart: str, x: float, y: float) -> None:
    """Click a place of the window once the chart shows the point there."""
    page.mouse.move(x - 1, y)
    page.mouse.move(x, y)
    page.wait_for_selector(f"{chart} .hovertext")
    page.mouse.click(x, y)


def click_point(page: Page, chart: str, number: int = 0) -> None:
    """Click the middle of a drawn point or bar."""
    page.wait_for_selector(f"{chart} .point")
    page.locator(chart).scroll_into_view_if_needed()
    box = page.locator(f"{chart} .point").nth(number).bounding_box()
    assert box is not None
    click_chart(page, chart, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_points_of_charts_filter_and_open_videos_and_the_best_point_of_a_sweep_is_run(page: Page) -> None:
    choose(page, "batch_runs", "late")
    page.wait_for_function("/run late · split other/.test(document.querySelector('#origin').textContent)")
    page.get_by_role("tab", name="Charts").click()
    page.wait_for_selector("#chart_failures .point")
    kinds: list[int] = page.evaluate("document.querySelector('#chart_failures .ss-chart').data[0].x")
    click_point(page, "#chart_failures", next(at for at, number in enumerate(kinds) if number))
    page.wait_for_function("document.querySelector('#only').textContent.includes('failure: ')")
    page.locator("#videos").wait_for()
    page.get_by_role("tab", name="Thresholds").click()
    page.wait_for_selector("#heat .main-svg[role=img]")
    box = page.locator("#heat .nsewdrag").bounding_box()
    assert box is not None
    click_chart(
        page, "#heat", box["x"] + 15, box["y"] + 15
    )  # the cell of the least speak and the greatest update threshold
    wait_for_status(page, r"have speak 0\.05, update 0\.95\.$", status="#swept .status-line")
    assert entries(page)[1] == "0.05"
    assert page.locator("#speak_threshold input[type=number]").input_value() == "0.05"
    page.get_by_role("tab", name="Charts").click()
    click_point(page, "#chart_videos")
    wait_for_status(page, "in the run late")
    page.get_by_role("tab", name="Batch").click()
    page.get_by_role("tab", name="Thresholds").click()
    page.wait_for_selector("#apply:not([disabled])")
    best = re.findall(r"[\d.]+", page.locator("#apply").inner_text())
    page.click("#apply")
    page.get_by_role("tab", name="Player").click()
    wait_for_status(page, "^Done: the same run with")
    wait_for_rest(page, dict(zip(HEADS, map(float, best), strict=True)))
