"""Charts in a browser: clicks, zoom, themes, files, hostile names and accessibility."""

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from stepscope.app.figures.charts.registry import CHARTS
from stepscope.engine.io.files import write_csv, write_json
from stepscope.eval.reports.table_files import read_video_rows
from tests.app.test_accessibility_browser import RULES
from tests.support.data.scored_run import score
from tests.support.pages.browser import NEEDS_CHROMIUM, forget, serve_page

HOSTILE = '<img src=x onerror="window.hacked=1"> <b>bold</b> <a href="https://example.com/">link</a>'
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


def read_axis(page: Page, chart: str) -> list[float]:
    axis: list[float] = page.evaluate("(id) => document.querySelector(`#${id} .ss-chart`).layout.xaxis.range", chart)
    return axis


def test_a_click_on_a_point_sends_what_it_stands_for_and_names_are_text(page: Page) -> None:
    page.mouse.click(*point_at(page, "failures", 0))
    page.wait_for_function("document.querySelector('#picked textarea, #picked input').value === 'missed'")
    page.mouse.click(*point_at(page, "videos", 0))
    page.wait_for_function("document.querySelector('#picked textarea, #picked input').value === 'a'")
    page.mouse.move(*point_at(page, "videos", 1))
    page.wait_for_function("document.querySelector('#videos .hovertext')?.textContent.includes('<img src=x onerror')")
    assert page.locator("#videos .hovertext a, #videos .hovertext [style*=bold]").count() == 0
    page.mouse.click(*point_at(page, "videos", 1))
    page.wait_for_function(
        "(name) => document.querySelector('#picked textarea, #picked input').value === name", arg=HOSTILE
    )
    assert page.evaluate("window.hacked") is None


def test_the_zoom_lasts_while_the_run_is_the_same_and_charts_fit_the_window(page: Page) -> None:
    x, y = point_at(page, "videos", 0)
    page.mouse.move(x - 60, y)
    page.mouse.down()
    page.mouse.move(x + 10, y, steps=4)
    page.mouse.up()
    page.wait_for_function("document.querySelector('#videos .ss-chart').layout.xaxis.range[0] > 0")
    zoomed = read_axis(page, "videos")
    page.get_by_role("tab", name="Second").click()
    page.set_viewport_size({"width": 1024, "height": 768})
    page.click("#again")
    page.get_by_role("tab", name="First").click()
    page.wait_for_function(
        """() => {
            const box = document.querySelector("#videos .ss-chart");
            return box.clientWidth > 0 && box.clientWidth === box.querySelector(".main-svg").clientWidth;
        }"""
    )
    assert read_axis(page, "videos") == pytest.approx(zoomed)


def test_a_chart_follows_the_theme_and_patterns_survive_a_change_of_the_address(page: Page) -> None:
    colour = "getComputedStyle(document.querySelector('#roc .gtitle')).fill"
    assert page.evaluate(colour) == "rgb(39, 39, 42)"
    page.evaluate("history.replaceState(null, '', '?video=other'), document.body.classList.add('dark')")
    for drawn in (colour, colour.replace("#roc", "#leads")):
        page.wait_for_function(f"{drawn} === 'rgb(244, 244, 245)'")
    references: list[str] = page.evaluate(
        """[...document.querySelectorAll(".ss-chart svg *")].flatMap((part) => [...part.attributes])
            .map((attribute) => attribute.value).filter((value) => value.includes("url("))"""
    )
    assert any('fill: url("#p' in reference for reference in references), "patterns of bars"
    assert [reference for reference in references if not re.search(r"url\([\"']?#", reference)] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_charts_meet_wcag_aa_and_no_text_is_tiny(browser: Browser, address: str, theme: str) -> None:
    page = browser.new_page(viewport={"width": 1024, "height": 768})
    hosts = set[str]()
    page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page.goto(f"{address}?__theme={theme}")
    wait_for_charts(page)
    found: list[dict[str, Any]] = Axe().run(page, options=RULES, context=".charts").response["violations"]
    assert [(rule["id"], node["target"]) for rule in found for node in rule["nodes"]] == []
    sizes: list[float] = page.evaluate(
        """[...document.querySelectorAll(".ss-chart text")].filter((text) => text.textContent)
            .map((text) => parseFloat(getComputedStyle(text).fontSize))"""
    )
    assert min(sizes) >= 11
    basis = "contents judged by cosine bands 0.5/0.8, text"
    assert page.locator("#failures .chart-basis").inner_text().startswith(basis)
    assert page.locator("#roc .chart-basis").inner_text() == ""
    label = page.locator("#roc .main-svg").first.get_attribute("aria-label") or ""
    assert "speak: AUROC 0.750" in label
    assert hosts == {address.split("/")[2]}
    scripts = "performance.getEntriesByType('resource').filter((entry) => entry.name.includes('plotly-')).length"
    assert page.evaluate(scripts) == 1
    page.close()


def test_a_chart_is_saved_as_svg_and_png_for_a_light_page(page: Page, tmp_path: Path) -> None:
    page.evaluate("document.body.classList.add('dark')")
    page.locator("#failures").scroll_into_view_if_needed()
    for kind in ("SVG", "PNG"):
        page.hover("#failures .ss-chart")
        with page.expect_download() as download:
            page.locator("#failures").get_by_role("button", name=f"Download as {kind}").click()
        assert download.value.suggested_filename == f"failures-by-kind.{kind.lower()}"
        download.value.save_as(tmp_path / kind)
    drawn = ET.parse(tmp_path / "SVG").getroot()
    words = "".join(drawn.itertext())
    assert "Failures by kind" in words
    assert "contents judged by cosine bands" in words
    assert "fill: rgb(255, 255, 255)" in (drawn[0].get("style") or ""), "the background"
    assert (tmp_path / "PNG").read_bytes().startswith(b"\x89PNG")
