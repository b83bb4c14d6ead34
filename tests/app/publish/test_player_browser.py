"""A published player and its table in a browser, served from a sub-folder by ``python -m http.server``."""

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from stepscope.app.figures.charts.registry import CHARTS
from tests.app.publish.conftest import HOSTILE, HOSTILE_IDS
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, rows
from tests.support.pages.published import Traffic, link_of, open_charts, open_player, wait_for_time

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
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
    lag = "document.querySelector('#video video').currentTime - document.querySelector('.ss-head').dataset.time"
    page.wait_for_function(f"() => Math.abs({lag}) < 0.01")  # the playhead follows, however late on a busy machine
    shown = page.locator(".ss-figures :is(button, select):visible")
    assert shown.count() == 5, "width, colours, SVG, PNG and CSV"
    for file_format, start in (("svg", b"<svg "), ("png", b"\x89PNG"), ("csv", b"video_id,run,lane,")):
        with page.expect_download() as saving:
            page.click(f"[data-figure={file_format}]")
        assert saving.value.path().read_bytes().startswith(start)
    with page.expect_download() as saving:
        page.click("[data-export='traces.csv']")
    assert saving.value.suggested_filename == "boat-traces.csv"
    assert "boat" in saving.value.path().read_text(encoding="utf-8")
    assert traffic.problems == []


@pytest.mark.slow
def test_a_copied_link_leads_to_the_moment_from_any_folder(page: Page, address: str) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_player(page, f"{address}all/?video=tower-hard&t=0")
    page.keyboard.press("n")
    before = inspect(page)
    page.keyboard.press("y")
    page.wait_for_function("() => document.querySelector('.ss-said').textContent.includes('Link copied.')")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{address}all/?")
    page.goto("about:blank")
    open_player(page, link)
    wait_for_time(page, before["time"])
    assert inspect(page)["event"] == before["event"]
    page.reload()
    wait_for_time(page, before["time"])


@pytest.mark.slow
def test_a_link_to_another_run_is_reported_nothing_offers_the_model_and_a_theme_is_kept(
    page: Page, address: str
) -> None:
    open_player(page, f"{address}all/?video=boat&t=1&run=feedfeedfeed")
    assert "The link was made from another run of this video." in page.inner_text("#status")
    assert page.locator(".ss-inspect").count() == 0
    assert not page.get_by_role("tab", name="Review").is_visible()
    page.keyboard.press("?")
    keys = page.locator(".ss-help kbd").all_inner_texts()
    assert "N" in keys
    assert {"H", "1", "Z"}.isdisjoint(keys)
    assert page.get_by_text("tour of the page").count() == 0
    page.keyboard.press("Escape")
    loaded = page.evaluate(
        "performance.getEntriesByType('resource').map(({name}) => name).filter((name) => /player\\/.*js$/.test(name))"
    )
    preloaded = page.evaluate("[...document.querySelectorAll('link[rel=modulepreload]')].map(({href}) => href)")
    assert set(loaded) == set(preloaded)
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.click("#theme")
    assert page.evaluate(background) == "rgb(15, 15, 17)"
    page.reload()
    page.wait_for_selector(".ss-states")
    assert page.evaluate(background) == "rgb(15, 15, 17)"


@pytest.mark.slow
def test_thresholds_are_previewed_and_kept_in_the_address(page: Page, address: str) -> None:
    open_player(page, f"{address}all/?video=boat&t=1")
    before = inspect(page)
    page.fill("#speak_number", "0.2")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.ss').inspect().isPreview")
    after = inspect(page)
    assert after["thresholds"] == {"speak": 0.2, "update": 0.5}
    assert after["counts"]["speak"]["alarms"] > before["counts"]["speak"]["alarms"]
    assert page.inner_text(".ss-counts").endswith("An exact run needs the program.")
    assert page.input_value(".threshold input[type=range] >> nth=0") == "0.2"
    page.wait_for_function("() => new URLSearchParams(location.search).get('speak') === '0.2'")
    page.reload()
    page.wait_for_function("() => document.querySelector('.ss')?.inspect?.().isPreview")
    assert inspect(page)["counts"] == after["counts"]
    page.click("text=reset")
    assert inspect(page)["counts"] == before["counts"]
    assert not inspect(page)["isPreview"]
    page.wait_for_function("() => !new URLSearchParams(location.search).has('speak')")
    page.get_by_role("slider", name="speak threshold").last.focus()
    page.keyboard.press("PageDown")
    moved = inspect(page)["thresholds"]["speak"]
    assert moved < 0.5
    assert float(page.input_value("#speak_number")) == moved, "the slider follows the handle"


@pytest.mark.slow
def test_another_video_is_chosen_above_the_player_and_one_alone_opens_at_once(page: Page, address: str) -> None:
    open_player(page, f"{address}all/?video=toy-truck&t=1")
    page.keyboard.press(")")
    page.wait_for_url("**/?video=sandwich*")
    page.wait_for_selector(".ss-states")
    page.select_option("#chosen", index=3)
    page.wait_for_url("**/?video=boat*")
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.click("#home")
    page.wait_for_selector("table.videos")
    page.goto(f"{address}one/")
    page.wait_for_selector(".ss-failure")
    assert link_of(page)["video"] == "tower-hard"
    assert not page.is_visible("nav")


@pytest.mark.slow
def test_without_a_picture_the_timeline_plays_on_its_own_clock(page: Page, address: str) -> None:
    traffic = Traffic(page)
    open_player(page, f"{address}silent/?video=boat&t=1")
    assert page.locator("video").count() == 0
    page.keyboard.press(" ")
    page.wait_for_function("() => document.querySelector('.ss').inspect().time > 1.3")
    page.keyboard.press("End")
    page.wait_for_function("() => document.querySelector('.ss').inspect().isPaused")
    assert inspect(page)["time"] <= page.evaluate("document.querySelector('.ss').unpacked().duration_s")
    page.keyboard.press(" ")
    page.wait_for_function("() => !document.querySelector('.ss').inspect().isPaused")
    assert inspect(page)["time"] < 30, "it begins again"
    assert traffic.problems == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [HOSTILE, "a?b#c&d=e%2f"])
def test_hostile_names_and_texts_are_text(page: Page, address: str, name: str) -> None:
    traffic = Traffic(page)
    open_player(page, f"{address}hostile/?{urlencode({'video': name})}")
    page.wait_for_function("() => document.querySelector('#video video').readyState >= 1")
    assert inspect(page)["video"] == name
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
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_views_meet_wcag_aa_in_both_themes(browser: Browser, address: str, theme: Any) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme=theme)
    page = context.new_page()
    page.goto(f"{address}all/")
    page.wait_for_selector("table.videos")
    assert violations(page) == []
    open_player(page, f"{address}all/?video=tower-hard")
    assert page.evaluate("document.body.classList.contains('dark')") is (theme == "dark")
    assert violations(page) == []
    context.close()


def violations(page: Page) -> list[str]:
    found: list[dict[str, Any]] = Axe().run(page, options=RULES).response["violations"]
    return [f"{rule['id']}: {node['target']}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]


def test_the_table_is_sorted_and_filtered_and_shown_for_an_unknown_video(page: Page, address: str) -> None:
    page.goto(f"{address}all/")
    page.wait_for_selector("table.videos")

    def column(number: int) -> list[str]:
        return page.locator(f".videos tbody tr > :nth-child({number})").all_inner_texts()

    page.click(".videos thead >> text=Failures")
    assert column(3) == sorted(column(3), key=int, reverse=True)
    page.click(".videos thead >> text=Failures")
    assert column(3) == sorted(column(3), key=int)
    page.click(".videos thead >> text=Video")
    assert column(1) == sorted(column(1))
    page.fill("input[type=search]", "tower")
    assert column(1) == ["tower-hard", "tower-permuted"]
    assert page.locator("text=2 of 16 videos").is_visible()
    page.goto(f"{address}all/?video=ship")
    page.wait_for_selector("table.videos")
    assert "There is no video “ship” here." in page.inner_text("#status")


@pytest.mark.slow
def test_a_hostile_table_is_text(page: Page, address: str) -> None:
    traffic = Traffic(page)
    page.goto(f"{address}hostile/")
    page.wait_for_selector("table.videos")
    assert [link.get_attribute("title") for link in page.locator(".videos a").all()] == [
        name.replace("\u202e", r"\u202e") for name in HOSTILE_IDS
    ]
    assert page.evaluate("document.body.innerText.includes('\\u202e')") is False
    assert page.eval_on_selector(".videos a", "(link) => getComputedStyle(link).unicodeBidi") == "isolate"
    assert "<script>" in page.title()
    assert page.evaluate("window.hacked") is None
    assert traffic.problems == []


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
    page.click("#theme")
    page.wait_for_function("() => document.body.classList.contains('dark')")
    chart = page.locator(".charts > div", has=page.locator("[aria-label^='Failures by kind']"))
    chart.scroll_into_view_if_needed()
    bars = chart.locator(".point path").evaluate_all("(all) => all.map((one) => one.getBoundingClientRect().width)")
    box = chart.locator(".point path").nth(bars.index(max(bars))).bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".hovertext")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".videos [aria-sort=descending] [aria-label]")  # the column of the kind
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
    assert "This is its worst moment; press N" in page.inner_text("#status")
    page.wait_for_selector(".ss-lanes .main-svg")  # a request that Back stops counts as a problem
    page.go_back()
    page.wait_for_selector("table.videos")
    assert traffic.elsewhere(address) == []
    assert traffic.problems == []
