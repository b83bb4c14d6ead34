"""Files of figures: formats, sizes, fonts, and pictures with a browser or without."""

import csv
import json
import re
import struct
import time
from pathlib import Path

import plotly.graph_objects as go
import plotly.io
import pytest
from lxml import etree

from stepscope.app.figures.browser import BrowserMissingError, draw_picture, find_browser
from stepscope.app.figures.charts.layout import add_basis, template
from stepscope.app.figures.charts.registry import CHARTS
from stepscope.app.figures.options import FigureFormat, Width, parse_width, read_format
from stepscope.app.figures.render import Drawing, for_file, write_figure
from stepscope.app.figures.text import MAX_TEXT, clean_text, from_markup, to_markup
from stepscope.app.style.colours import Theme
from stepscope.engine.errors import EngineError
from stepscope.eval.reports.table_files import Results
from tests.support.pages.browser import CHROMIUM, NEEDS_CHROMIUM

WIDTH = Width(number=85, unit="mm")


def make_drawing(theme: Theme = "light") -> Drawing:
    layout = {"template": template(theme), "width": 320, "height": 160, "title": {"text": "<b>Head</b>"}}
    traces = [
        go.Scatter(x=[0, 1], y=[0.25, None], text=["=1+1", "b"], name="<b>one</b> &lt;two&gt;"),
        go.Bar(x=[0], y=[2]),
    ]
    return Drawing(figure=go.Figure(traces, layout), width=Width(number=240, unit="pt"))


@pytest.mark.parametrize(
    ("text", "pixels", "half"),
    [
        ("180mm", 680, "90mm"),
        ("8.5cm", 321, "4.25cm"),
        ("3,5in", 336, "1.75in"),
        ("240pt", 320, "120pt"),
        ("1000", 1000, "500px"),
    ],
)
def test_a_width_has_a_unit(text: str, pixels: int, half: str) -> None:
    width = parse_width(text)
    assert width.pixels == pixels
    assert width.css(width.pixels / 2) == half


@pytest.mark.parametrize("text", ["", "5km", "-3mm", "0mm", "mm", "1e3", "nan"])
def test_other_widths_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a width is a number with px, mm, cm, in or pt, such as 180mm; got"):
        parse_width(text)


def test_a_width_with_many_spaces_is_refused_in_linear_time() -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="a width is a number"):
        parse_width(f"1{' ' * 40_000}x")
    assert time.process_time() - began < 1, "two groups of spaces took seconds"


def test_the_format_is_that_of_the_ending_unless_it_is_given() -> None:
    assert read_format(Path("a.SVG")) == "svg"
    assert read_format(Path("a.dat"), "pdf") == "pdf"
    with pytest.raises(
        ValueError, match=r"a.bmp ends in no format of a figure; choose one of svg, png, pdf, json, csv"
    ):
        read_format(Path("a.bmp"))
    with pytest.raises(ValueError, match="gif is no format of a figure"):
        read_format(Path("a.svg"), "gif")


def test_json_opens_in_plotly(tmp_path: Path) -> None:
    write_figure(tmp_path / "a.json", make_drawing(), "json")
    figure = plotly.io.from_json((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert list(figure.data[0].x) == [0, 1]
    assert figure.layout.title.text == "<b>Head</b>"


def test_the_basis_of_scores_fits_between_the_edges_of_a_narrow_file() -> None:
    basis = "contents judged by cosine bands 0.5/0.8, text encoder all-MiniLM-L6-v2, match window -2.5 to 2.5 s"
    drawn = for_file(add_basis(make_drawing().figure, basis)).layout.title
    lines = drawn.subtitle.text.split("<br>")
    assert " ".join(lines) == basis
    assert (drawn.xref, drawn.x) == ("container", 0)  # labels may widen the margin of the plot
    size = template("light").layout.font.size
    assert all(drawn.pad.l + 0.6 * size * len(line) <= 320 for line in lines)  # of letters in a wide font
    wide = for_file(add_basis(make_drawing().figure, "視頻助手何時說話" * 6)).layout.title.subtitle.text.split("<br>")
    assert all(drawn.pad.l + size * len(line) <= 320 for line in wide)
    long = for_file(add_basis(make_drawing().figure, "word " * 50)).layout.title.subtitle.text
    assert (long.count("<br>"), long.endswith("word…")) == (3, True)


def test_csv_has_a_row_for_each_point_with_formulas_escaped(tmp_path: Path) -> None:
    write_figure(tmp_path / "a.csv", make_drawing(), "csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == [
        {"trace": "one <two>", "x": "0", "y": "0.25", "text": "'=1+1"},
        {"trace": "one <two>", "x": "1", "y": "", "text": "b"},
        {"trace": "trace 2", "x": "0", "y": "2", "text": ""},
    ]


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_of_a_run_has_points_in_its_files(results: Results, tmp_path: Path, name: str) -> None:
    figure = CHARTS[name].draw(results, "light").update_layout(width=321)
    drawing = Drawing(figure=figure, width=WIDTH)
    for file_format in ("json", "csv"):
        write_figure(tmp_path / f"a.{file_format}", drawing, file_format)
    layout = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["layout"]
    assert (layout["width"], layout["title"]["text"]) == (321, CHARTS[name].title)
    header, *rows = (tmp_path / "a.csv").read_text(encoding="utf-8").splitlines()
    assert rows
    is_judged = name in ("failures", "videos")  # frames, probabilities and times depend on no judge
    assert ("scoring" in header.split(","), "basis" in layout["meta"]) == (is_judged, is_judged)


@pytest.mark.parametrize("file_format", ["svg", "png", "pdf"])
def test_without_a_browser_a_picture_is_refused_in_one_sentence_and_no_file_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file_format: FigureFormat
) -> None:
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setattr("stepscope.app.figures.browser.Chromium.find_browser", lambda *, skip_local: None)
    with pytest.raises(BrowserMissingError, match=r"^this figure needs Chromium, which is not installed; install "):
        write_figure(tmp_path / f"a.{file_format}", make_drawing(), file_format)
    assert [*tmp_path.iterdir()] == []
    monkeypatch.setenv("BROWSER_PATH", "/nowhere")
    with pytest.raises(BrowserMissingError, match=r"^BROWSER_PATH names no file: /nowhere; "):
        find_browser()


def test_a_browser_of_playwright_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = tmp_path / "chromium_headless_shell-1200" / "chrome-linux" / "headless_shell"
    shell.parent.mkdir(parents=True)
    shell.write_text("")
    monkeypatch.delenv("BROWSER_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    monkeypatch.setattr("stepscope.app.figures.browser.Chromium.find_browser", lambda *, skip_local: None)
    assert find_browser() == shell


def write_browser(path: Path, script: str) -> Path:
    """Write a program in the place of Chromium."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_browser_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = write_browser(tmp_path / "chromium", "exit 1")
    monkeypatch.setenv("BROWSER_PATH", str(program))
    with pytest.raises(EngineError, match=re.escape(f"{program.name} cannot draw the figure: ") + r"\w.*; try another"):
        write_figure(tmp_path / "a.pdf", make_drawing(), "pdf")


class TestWithBrowser:
    """SVG, PNG and PDF as a browser draws them."""

    pytestmark = NEEDS_CHROMIUM

    @pytest.fixture(autouse=True)
    def chromium(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BROWSER_PATH", str(CHROMIUM))

    def test_svg_has_the_width_on_paper_a_background_and_common_fonts(self, tmp_path: Path) -> None:
        write_figure(tmp_path / "a.svg", make_drawing("dark"), "svg")
        svg = etree.parse(str(tmp_path / "a.svg")).getroot()
        assert (svg.get("width"), svg.get("height"), svg.get("viewBox")) == ("240pt", "120pt", "0 0 320 160")
        assert "rgb(24, 24, 27)" in svg.find(".//{*}rect[@width='320']").get("style")
        (title,) = svg.iterfind(".//{*}text[@class='gtitle']")
        assert "Helvetica, Arial" in title.get("style")
        assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]

    def test_png_has_300_pixels_per_inch(self, tmp_path: Path) -> None:
        write_figure(tmp_path / "a.png", make_drawing(), "png")
        content = (tmp_path / "a.png").read_bytes()
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", content[16:24]) == (1000, 500)  # 320 x 160 pixels of 1/96 inch


def runs(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    found = Path(f"/proc/{pid}/stat")
    return found.exists() and found.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_a_browser_that_never_answers_is_ended_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    browser = write_browser(tmp_path / "chromium", f"echo $$ >> {tmp_path}/pids; sleep 1000")
    monkeypatch.setenv("BROWSER_PATH", str(browser))
    monkeypatch.setattr("stepscope.app.figures.browser._TIMEOUT_S", 1)
    with pytest.raises(EngineError, match=r"no answer in 2 attempts of 1 s; try another in BROWSER_PATH$"):
        draw_picture(go.Figure(layout={"width": 200, "height": 100}), "png")
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 2
    until = time.monotonic() + 60
    while any(map(runs, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not [pid for pid in pids if runs(pid)]


def test_markup_of_untrusted_texts_is_only_characters() -> None:
    text = "<b>bold</b> & <img src=x onerror=alert(1)>"
    assert from_markup(to_markup(text)) == text
    assert from_markup("<b>a</b><br>b &lt;c&gt;") == "a\nb <c>"


def test_untrusted_texts_become_one_short_line_that_xml_can_hold() -> None:
    assert clean_text("a\x00b\r\nc\ud800") == "a b c?"
    assert len(clean_text("x" * 5000)) == MAX_TEXT
