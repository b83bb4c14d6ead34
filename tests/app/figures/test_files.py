"""Files of figures: formats, sizes, fonts, and pictures with a browser or without."""

import csv
import json
import struct
from pathlib import Path

import plotly.graph_objects as go
import pytest
from lxml import etree

from stepscope.app.figures.browser import BrowserMissingError, find_browser
from stepscope.app.figures.charts.layout import template
from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.figures.options import Width, parse_width, read_format
from stepscope.app.figures.render import write_figure
from stepscope.app.figures.text import from_markup, to_markup
from stepscope.app.style.colours import Theme
from stepscope.eval.reports.table_files import Results
from tests.support.pages.browser import CHROMIUM, NEEDS_CHROMIUM

WIDTH = Width(number=240, unit="pt")


def make_figure(theme: Theme = "light") -> go.Figure:
    layout = {"template": template(theme), "height": 160, "title": {"text": "<b>Head</b>"}}
    traces = [
        go.Scatter(x=[0, 1], y=[0.25, None], text=["=1+1", "b"], name="<b>one</b> &lt;two&gt;"),
        go.Bar(x=[0], y=[2]),
    ]
    return go.Figure(traces, layout)


@pytest.mark.parametrize(
    ("text", "pixels", "half"),
    [
        ("180mm", 680, "90mm"),
        ("3,5in", 336, "1.75in"),
        ("1000", 1000, "500px"),
    ],
)
def test_a_width_has_a_unit(text: str, pixels: int, half: str) -> None:
    width = parse_width(text)
    assert width.pixels == pixels
    assert width.css(width.pixels / 2) == half


def test_the_format_is_that_of_the_ending_unless_it_is_given() -> None:
    assert read_format(Path("a.SVG")) == "svg"
    assert read_format(Path("a.dat"), "pdf") == "pdf"
    with pytest.raises(
        ValueError, match=r"a.bmp ends in no format of a figure; choose one of svg, png, pdf, json, csv"
    ):
        read_format(Path("a.bmp"))


def test_csv_has_a_row_for_each_point_with_formulas_escaped(tmp_path: Path) -> None:
    write_figure(tmp_path / "a.csv", make_figure(), "csv", width=WIDTH)
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"trace": "one <two>", "x": "0", "y": "0.25", "text": "'=1+1"},
        {"trace": "one <two>", "x": "1", "y": "", "text": "b"},
        {"trace": "trace 2", "x": "0", "y": "2", "text": ""},
    ]


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_of_a_run_has_points_in_its_files(
    results: Results, diagnosed: Results, tmp_path: Path, name: str
) -> None:
    figure = CHARTS[name].draw(diagnosed if name in ("roots", "classes") else results, "light")
    for file_format in ("json", "csv"):
        write_figure(tmp_path / f"a.{file_format}", figure, file_format, width=WIDTH)
    layout = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["layout"]
    assert (layout["width"], layout["title"]["text"]) == (320, CHARTS[name].title)
    header, *rows = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert rows
    is_judged = name in ("failures", "roots", "videos")  # frames, probabilities and times depend on no judge
    assert ("scoring" in header.split(","), "basis" in layout["meta"]) == (is_judged, is_judged)


def test_without_a_browser_a_picture_is_refused_in_one_sentence_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setattr("stepscope.app.figures.browser.Chromium.find_browser", lambda *, skip_local: None)
    with pytest.raises(BrowserMissingError, match=r"^this figure needs Chromium, which is not installed; install "):
        write_figure(tmp_path / "a.svg", make_figure(), "svg", width=WIDTH)
    assert [*tmp_path.iterdir()] == []
    monkeypatch.setenv("BROWSER_PATH", "/nowhere")
    with pytest.raises(BrowserMissingError, match=r"^BROWSER_PATH names no file: /nowhere; "):
        find_browser()


class TestWithBrowser:
    """SVG and PNG as a browser draws them."""

    pytestmark = NEEDS_CHROMIUM

    @pytest.fixture(autouse=True)
    def chromium(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BROWSER_PATH", str(CHROMIUM))

    def test_svg_has_the_width_on_paper_a_background_and_common_fonts(self, tmp_path: Path) -> None:
        write_figure(tmp_path / "a.svg", make_figure("dark"), "svg", width=WIDTH)
        svg = etree.parse(str(tmp_path / "a.svg")).getroot()
        assert (svg.get("width"), svg.get("height"), svg.get("viewBox")) == ("240pt", "120pt", "0 0 320 160")
        assert "rgb(24, 24, 27)" in svg.find(".//{*}rect[@width='320']").get("style")
        (title,) = svg.iterfind(".//{*}text[@class='gtitle']")
        assert "Helvetica, Arial" in title.get("style")
        assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]

    def test_png_has_300_pixels_per_inch(self, tmp_path: Path) -> None:
        write_figure(tmp_path / "a.png", make_figure(), "png", width=WIDTH)
        content = (tmp_path / "a.png").read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", content[16:24]) == (1000, 500)  # 320 x 160 pixels of 1/96 inch


def test_markup_of_untrusted_texts_is_only_characters() -> None:
    text = "<b>bold</b> & <img src=x onerror=alert(1)>"
    assert from_markup(to_markup(text)) == text
    assert from_markup("<b>a</b><br>b &lt;c&gt;") == "a\nb <c>"
