"""The table page of a published run in a browser."""

import re

import pytest
from playwright.sync_api import Page

from stepscope.app.figures.charts.registry import CHARTS
from tests.app.publish.conftest import HOSTILE_IDS
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.pages.published import Traffic, link_of, open_charts, wait_for_time

pytestmark = NEEDS_CHROMIUM


def test_the_table_is_sorted_and_filtered(page: Page, address: str) -> None:
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
def test_charts_and_plotly_are_loaded_when_they_are_opened(page: Page, address: str) -> None:
    traffic = Traffic(page)
    page.goto(f"{address}scored/")
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
def test_a_scored_run_shows_all_scores_with_intervals(page: Page, address: str) -> None:
    page.goto(f"{address}scored/")
    page.click("summary >> text=All scores of 2 videos")
    row = page.locator(".groups tr", has_text="Response F1").first
    assert re.fullmatch(r"\d\.\d{3} to \d\.\d{3}", row.locator("td").nth(1).inner_text())


@pytest.mark.slow
def test_an_unknown_video_leads_to_the_table(page: Page, address: str) -> None:
    page.goto(f"{address}all/?video=ship")
    page.wait_for_selector("table.videos")
    assert "There is no video “ship” here." in page.inner_text("#status")


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
