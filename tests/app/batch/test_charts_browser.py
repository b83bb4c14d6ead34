"""Charts in a browser: clicks, hostile names and accessibility."""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from stepscope.app.figures.charts.registry import CHARTS
from stepscope.engine.io.files import write_csv, write_json
from stepscope.eval.reports.table_files import read_video_rows
from tests.support.data.scored_run import score
from tests.support.pages.axe import find_violations
from tests.support.pages.browser import NEEDS_CHROMIUM, forget, serve_page

HOSTILE = '<img src=x onerror="window.hacked=1"> <b>bold</b> <a href="https://example.com/">link</a>'
IS_ANOTHER_CLICK = """() => {
    const chart = document.querySelector("#videos .ss-chart");
    return Date.now() - chart._mouseDownTime > chart._context.doubleClickDelay;
}"""
"""Whether Plotly takes a click for a single one; the second of two within 0.3 s resets the zoom."""
pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the charts of a run with two videos, one with a hostile name."""
    folder = tmp_path_factory.mktemp("charts") / "run"
    score(folder)
    (row,) = read_video_rows(folder)
    scores = {"F1": 0.25, "dst_f1": 0.5}
    write_csv(folder / "videos.csv", [{**row, "F1": 0.75, "dst_f1": 1.0}, {**row, **scores, "video_id": HOSTILE}])
    charts = json.loads((folder / "charts.json").read_text(encoding="utf-8"))
    write_json(folder / "charts.json", {**charts, "failures": {**charts["failures"], "missed": 2}})
    with serve_page("chart_page", str(folder)) as url:
        yield url


@pytest.fixture
def page(window: Page, address: str) -> Page:
    forget(window, address)
    window.goto(address)
    wait_for_charts(window)
    return window


def wait_for_charts(page: Page) -> None:
    page.wait_for_function(
        "(number) => document.querySelectorAll('.ss-chart .main-svg[role=img]').length === number", arg=len(CHARTS)
    )


def point_at(page: Page, chart: str, number: int) -> tuple[float, float]:
    """Return the middle of a drawn point."""
    page.locator(f"#{chart}").scroll_into_view_if_needed()
    box = page.locator(f"#{chart} .point").nth(number).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_click_on_a_point_sends_what_it_stands_for_and_names_are_text(page: Page) -> None:
    page.mouse.click(*point_at(page, "failures", 0))
    page.wait_for_function("document.querySelector('#picked textarea, #picked input').value === 'missed'")
    page.mouse.click(*point_at(page, "videos", 0))
    page.wait_for_function("document.querySelector('#picked textarea, #picked input').value === 'a'")
    page.mouse.move(*point_at(page, "videos", 1))
    page.wait_for_function("document.querySelector('#videos .hovertext')?.textContent.includes('<img src=x onerror')")
    assert page.locator("#videos .hovertext a, #videos .hovertext [style*=bold]").count() == 0
    page.wait_for_function(IS_ANOTHER_CLICK)
    page.mouse.click(*point_at(page, "videos", 1))
    page.wait_for_function(
        "(name) => document.querySelector('#picked textarea, #picked input').value === name", arg=HOSTILE
    )
    assert page.evaluate("window.hacked") is None


def test_charts_meet_wcag_aa_and_no_text_is_tiny(page: Page) -> None:
    assert find_violations(page, ".charts") == []
    sizes: list[float] = page.evaluate(
        """[...document.querySelectorAll(".ss-chart text")].filter((text) => text.textContent)
            .map((text) => parseFloat(getComputedStyle(text).fontSize))"""
    )
    assert min(sizes) >= 11
    basis = "Contents judged by cosine bands 0.5/0.8, text"
    assert page.locator("#failures .chart-basis").inner_text().startswith(basis)
    assert page.locator("#roc .chart-basis").inner_text() == ""
    label = page.locator("#roc .main-svg").first.get_attribute("aria-label") or ""
    assert "speak: AUROC 0.750" in label
