"""A published player and its table in a browser, served from a sub-folder by ``python -m http.server``."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page

from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.publish.story import parse_story
from stepscope.engine.io.files import write_json
from stepscope.eval.data.loading import read_samples
from stepscope.eval.runs.folder import RunFolder
from tests.app.publish.conftest import HOSTILE
from tests.support.data.saved_runs import save_run
from tests.support.pages.axe import find_violations
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, rows
from tests.support.pages.published import (
    Traffic,
    link_of,
    open_charts,
    open_player,
    publish,
    serve_folder,
    wait_for_time,
)
from tests.support.paths import ASSETS

pytestmark = NEEDS_CHROMIUM


def test_keys_work_as_in_the_program_and_a_figure_needs_no_server(page: Page, address: str) -> None:
    traffic = Traffic(page)
    open_player(page, f"{address}all/?video=boat&t=0")
    page.wait_for_function("() => document.querySelector('#video video').readyState >= 2")
    page.keyboard.press("n")
    assert inspect(page)["cursor"] == 0
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    wait_for_time(page, 0.501)
    page.keyboard.press(" ")
    page.wait_for_function("() => document.querySelector('.ss').inspect().time > 0.3")
    page.keyboard.press(" ")
    page.wait_for_function("() => document.querySelector('.ss').inspect().isPaused")
    with page.expect_download() as saving:
        page.click("[data-figure=svg]")
    assert saving.value.path().read_bytes().startswith(b"<svg ")
    with page.expect_download() as saving:
        page.click("[data-export='traces.csv']")
    assert saving.value.suggested_filename == "boat-traces.csv"
    assert "boat" in saving.value.path().read_text(encoding="utf-8")
    assert traffic.problems == []


@pytest.mark.slow
def test_hostile_names_and_texts_are_text(page: Page, address: str) -> None:
    traffic = Traffic(page)
    page.goto(f"{address}hostile/")
    page.wait_for_selector("table.videos")
    assert page.evaluate("window.hacked") is None
    open_player(page, f"{address}hostile/?{urlencode({'video': HOSTILE})}")
    page.wait_for_function("() => document.querySelector('#video video').readyState >= 1")
    assert inspect(page)["video"] == HOSTILE
    assert any("window.hacked=1" in row for row in rows(page))
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.body.innerText.includes('\\u202e')") is False, "it is written as an escape"
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0, "a long word of the goal is broken"
    assert page.locator("main img, main script").count() == 0
    assert traffic.elsewhere(address) == []
    assert traffic.problems == []


def test_the_policy_of_the_page_stops_scripts_in_it_and_requests_elsewhere(page: Page, address: str) -> None:
    page.goto(f"{address}all/")
    page.wait_for_selector("table.videos")
    stopped: list[Any] = page.evaluate(
        """async () => {
            const seen = [];
            document.addEventListener('securitypolicyviolation', (event) => seen.push(event.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.hacked = 1';
            document.body.append(script);
            const image = document.createElement('img');
            image.src = 'http://127.0.0.1:9/x.png';
            await fetch('http://127.0.0.1:9/x').catch(() => {});
            while (seen.length < 3) await new Promise((done) => setTimeout(done, 20));
            return [window.hacked ?? null, ...seen.sort()];
        }"""
    )
    assert stopped == [None, "connect-src", "img-src", "script-src-elem"]


@pytest.mark.slow
def test_both_views_meet_wcag_aa(page: Page, address: str) -> None:
    page.goto(f"{address}all/")
    page.wait_for_selector("table.videos")
    assert find_violations(page) == []
    open_player(page, f"{address}all/?video=tower-hard")
    assert find_violations(page) == []


def test_the_table_is_sorted_and_filtered_and_shown_for_an_unknown_video(page: Page, address: str) -> None:
    page.goto(f"{address}all/")
    page.wait_for_selector("table.videos")

    def column(number: int) -> list[str]:
        return page.locator(f".videos tbody tr > :nth-child({number})").all_inner_texts()

    assert column(3) == sorted(column(3), key=int, reverse=True)
    page.click(".videos thead >> text=Failures")
    assert column(3) == sorted(column(3), key=int)
    page.click(".videos thead >> text=Failures")
    assert column(3) == sorted(column(3), key=int, reverse=True)
    page.click(".videos thead >> text=Video")
    assert column(1) == sorted(column(1))
    page.fill("input[type=search]", "tower")
    assert column(1) == ["tower-hard", "tower-permuted"]
    assert page.locator("text=2 of 16 videos").is_visible()
    page.goto(f"{address}all/?video=ship")
    page.wait_for_selector("table.videos")
    assert "There is no video “ship” here." in page.inner_text("#status")


@pytest.mark.parametrize(
    ("answer", "said"),
    [({"body": '{"title": "x'}, "is damaged: publish the folder again."), ({"status": 404}, "cannot be loaded (404)")],
)
def test_a_damaged_or_missing_file_is_named(page: Page, address: str, answer: dict[str, Any], said: str) -> None:
    page.route("**/data/0001-*.json", lambda route: route.fulfill(**answer))
    page.goto(f"{address}all/?video={read_samples(ASSETS / 'demo' / 'test.json')[0].video_id}")
    status = page.locator("#status", has_text="This page cannot be shown: data/0001-")
    assert said in str(status.text_content())


@pytest.mark.slow
def test_a_scored_run_has_all_scores_with_intervals_and_charts_once_they_are_opened(page: Page, address: str) -> None:
    traffic = Traffic(page)
    page.goto(f"{address}scored/")
    page.click("summary >> text=All scores of 2 videos")
    row = page.locator(".groups tr", has_text="Response F1").first
    assert re.fullmatch(r"\d\.\d{3} to \d\.\d{3}", row.locator("td").nth(1).inner_text())
    page.wait_for_selector("table.videos")
    assert [url for url in traffic.addresses if url.endswith(("plotly.min.js", "charts.json"))] == []
    open_charts(page)
    titles = page.locator(".charts .main-svg[role=img]").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    assert [title.split(". ")[0] for title in titles] == [chart.title for chart in CHARTS.values()]
    assert traffic.elsewhere(address) == []
    assert traffic.problems == []


@pytest.mark.slow
def test_a_click_in_the_table_opens_a_video_at_its_worst_moment(page: Page, address: str) -> None:
    traffic = Traffic(page)
    page.goto(f"{address}all/")
    page.wait_for_selector("table.videos")
    assert page.locator(".videos tbody tr").count() == 16
    assert [one for one in traffic.addresses if "/data/" in one] == [f"{address}all/data/run.json"]
    page.click(".videos >> text=tower-hard")
    page.wait_for_selector(".ss-failure")
    link = link_of(page)
    wait_for_time(page, float(link["t"]) + 0.001)
    assert inspect(page)["event"]["key"] == link["event"]
    assert page.evaluate("document.querySelector('#video video').duration") > 50
    page.wait_for_function("() => document.querySelector('#video video').readyState >= 2")
    assert page.inner_text("#status") == "tower-hard, 0:54."
    assert "N: next mistake" in page.inner_text(".ss-said"), "the line at its worst moment names the key"
    page.wait_for_selector(".ss-lanes .main-svg")  # a request that Back stops counts as a problem
    page.go_back()
    page.wait_for_selector("table.videos")
    assert traffic.elsewhere(address) == []
    assert traffic.problems == []


@pytest.mark.parametrize("busy_s", [0, 4.5])
def test_a_moment_of_a_story_plays_up_to_it_and_stops_with_its_explanation(
    page: Page, bundled_run: RunFolder, tmp_path: Path, busy_s: float
) -> None:
    publish(bundled_run, tmp_path / "plain", videos=["tower-hard"])
    row = json.loads((tmp_path / "plain" / "data" / "run.json").read_text(encoding="utf-8"))["videos"][0]
    moment = {"run": bundled_run.path.name, "video": row["id"], "time_s": row["t"], "event": row["event"]}
    story = parse_story(json.dumps({"title": "", "moments": [{**moment, "caption": "It was late."}]}))
    publish(bundled_run, tmp_path / "told", videos=["tower-hard"], story=story)
    with serve_folder(tmp_path / "told") as address:
        page.goto(address)
        if not busy_s:
            page.click(".story .still")
            page.wait_for_function(
                "(at) => { const video = document.querySelector('.story video');"
                " return video?.paused && Math.abs(video.currentTime - at) < 0.01; }", arg=row["t"],
            )  # fmt: skip
        page.click(".story a")
        page.wait_for_function("() => document.querySelector('.ss')?.inspect?.().isPaused === false")
        began, link = inspect(page)["time"], link_of(page)
        assert row["t"] - 3.1 < began < row["t"]
        assert page.locator(".ss-failure").is_visible()
        page.evaluate(
            "(busy_s) => { const end = performance.now() + 1000 * busy_s; while (performance.now() < end); }", busy_s
        )
        page.wait_for_function("() => document.querySelector('.ss').inspect().isPaused", timeout=30_000)
        seen = inspect(page)
        assert seen["time"] == pytest.approx(row["t"], abs=0.02)
        assert seen["event"]["key"] == row["event"] == link_of(page)["event"]
        assert link_of(page) == link
        assert page.locator(".ss-failure").is_visible()
        page.keyboard.press(" ")
        page.wait_for_function("(time) => document.querySelector('.ss').inspect().time > time + 1", arg=row["t"])


def test_the_published_page_marks_the_words_of_the_bundled_model_about_a_foreign_video(
    page: Page, demo_manifest: Path, tmp_path: Path
) -> None:
    run = save_run(tmp_path / "run", demo_manifest)
    model = json.loads((ASSETS / "demo" / "run" / "run.json").read_text(encoding="utf-8"))["model_digest"]
    write_json(tmp_path / "run" / "run.json", {**(run.settings() or {}), "model_digest": model})
    publish(run, tmp_path / "site", videos=["truck-1"])
    with serve_folder(tmp_path / "site") as address:
        open_player(page, address)
        marks = "bundled model on a foreign video: its words mean nothing · recorded: cannot be run again here"
        assert page.locator(".focus-mark").inner_text() == f"⚠ {marks}"
