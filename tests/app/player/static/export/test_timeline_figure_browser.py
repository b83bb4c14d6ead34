"""Figures of a run of 20 frames at 2 fps whose turns, states and decisions are listed in ``make_run``."""

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from playwright.sync_api import Browser, Page

from stepscope.app.core.run import Run
from stepscope.app.figures.charts.layout import PLOTLY_PATH
from stepscope.app.style.colours import COLOURS, css_variables
from stepscope.app.window.payload import pack_run
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import address, open_modules
from tests.support.pages.modules import run as run_in
from tests.support.reviews.played import HOSTILE, judge, make_run

pytestmark = NEEDS_CHROMIUM
LOOK = {"width": "180mm", "theme": "light", "start": 0, "end": 10}
SVG = "{http://www.w3.org/2000/svg}"
DRAW = """
    const { unpack } = await import(arg.data);
    return drawFigure(window.Plotly, unpack(JSON.parse(arg.packed)), arg.look);
"""


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with open_modules(browser) as page:
        page.add_style_tag(content=css_variables())
        page.add_script_tag(path=str(PLOTLY_PATH))
        yield page


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return make_run(tmp_path)


def pack(run: Run, other: Run | None = None) -> str:
    judged = judge(run) if run.clip.sample is not None else None
    return pack_run(run, judged, other=(other, judge(other)) if other is not None else None)


def draw(page: Page, packed: str, **look: Any) -> etree._Element:
    argument: dict[str, Any] = {"data": address("data"), "packed": packed, "look": {**LOOK, **look}}
    drawn = run_in(page, "timeline_figure", "drawFigure", DRAW, argument)
    svg = etree.fromstring(drawn["svg"].encode())
    assert svg.get("width") == argument["look"]["width"]
    return svg


def rows(page: Page, packed: str, start: float = 0, end: float = 10) -> list[dict[str, str]]:
    body = "const { unpack } = await import(arg[0]); return csvOf(unpack(JSON.parse(arg[1])), arg[2], arg[3]);"
    text = run_in(page, "files", "csvOf", body, [address("data"), packed, start, end])
    return list(csv.DictReader(text.splitlines()))


def texts(svg: etree._Element) -> list[str]:
    """Return the texts that the lanes and the legend have, without those of Plotly."""
    return ["".join(text.itertext()) for text in svg.iter(f"{SVG}text") if text.get("font-size")]


def test_every_lane_has_its_marks_and_the_legend_the_signs(page: Page, run: Run) -> None:
    svg = draw(page, pack(run))
    words = texts(svg)
    labels = ["user", "reference", "assistant", "ref", "model", "decisions only", "● 2  ▲ 1  ✕ 1", "cache"]
    assert set(labels) <= set(words), words
    assert [word for word in words if word.startswith("✓ ")] == ["✓ Now the wheel. "]
    entries = ("matched", "early or late", "redundant", "missed", "not started", "model differs", "context cut")
    assert set(entries) <= set(words), words
    assert "wrong text" not in words
    assert svg.find(f"{SVG}title").text == f"a, {run.digest}, 0:00.0 to 0:10.0"
    colours = {shape.get("fill") for shape in svg.iter(f"{SVG}path")}
    assert {COLOURS["matched"].light, COLOURS["redundant"].light} <= colours, "dots and triangles of decisions"
    assert len(svg.findall(f"{SVG}svg")) == 1, "the signals of Plotly"


def test_a_range_includes_its_borders_and_nothing_beyond(page: Page, run: Run) -> None:
    packed = pack(run)
    counts = [word for word in texts(draw(page, packed, start=1, end=5.5)) if word.startswith("● ")]
    assert counts[-2:] == ["● 2  ▲ 0  ✕ 1", "● 2  ▲ 0  ✕ 0"]
    inner = texts(draw(page, packed, start=1.001, end=5.499))
    assert "● 0  ▲ 0  ✕ 1" in inner
    assert not [word for word in inner if "Now the wheel" in word]
    table = rows(page, packed, 1, 5.5)
    assert [row["time_s"] for row in table if row["series"] == "speak"] == [f"{frame / 2:g}" for frame in range(2, 12)]
    assert all(float(row["time_s"]) >= 1 and float(row["end_s"] or 0) <= 5.5 for row in table)


def test_the_table_has_the_values_of_the_run(page: Page, run: Run) -> None:
    table = rows(page, pack(run))
    assert [float(row["value"]) for row in table if row["series"] == "speak"] == [one.speak_prob for one in run.outputs]
    assert [float(row["value"]) for row in table if row["series"] == "tokens"] == [
        one.cache_tokens for one in run.outputs
    ]
    states = [(row["series"], row["time_s"], row["end_s"], row["text"]) for row in table if row["lane"] == "S2"]
    assert states == [
        ("reference", "0", "8.5", "not started"),
        ("reference", "8.5", "10", "in progress"),
        ("model", "0", "10", "not started"),
        ("differs", "8.5", "10", ""),
    ]
    assert {row["series"] for row in table if row["lane"] == "assistant"} == {"matched", "early or late", "redundant"}
    assert {row["series"] for row in table if row["lane"] == "speak"} >= {"in time", "unexpected", "no decision"}


def test_the_lanes_of_a_second_run_are_below_without_its_reference(page: Page, run: Run) -> None:
    first, second = replace(run, letter="A", name="first"), replace(run, letter="B", name="<i>late</i>")
    packed = pack(first, second)
    svg = draw(page, packed)
    words = texts(svg)
    order = ["A: first", "reference", "A assistant", "B: <i>late</i>", "B assistant"]
    assert [word for word in words if word in order] == order
    assert len(svg.findall(f"{SVG}svg")) == 2
    below = [row for row in rows(page, packed) if row["run"] == "<i>late</i>"]
    assert {row["lane"] for row in below} >= {"assistant", "speak", "update"}
    assert not [row for row in below if "reference" in (row["lane"], row["series"])]


def test_hostile_texts_are_text_and_nothing_else(page: Page, tmp_path: Path) -> None:
    run = replace(make_run(tmp_path, text=f"\x00\ud800 {HOSTILE}"), letter="A", name=HOSTILE)
    named = json.loads(pack(run, replace(run, letter="B")))
    named["video_id"] = f"]]>--><script>{HOSTILE}"
    svg = draw(page, json.dumps(named))
    tags = {str(element.tag).rpartition("}")[2] for element in svg.iter()}
    assert tags <= {"svg", "title", "rect", "defs", "clipPath", "path", "text", "tspan", "g", "style"}, tags
    attributes = {name for element in svg.iter() for name in element.attrib}
    assert not [name for name in attributes if name.startswith("on") or name.endswith("href")]
    assert [word for word in texts(svg) if "<img" in word]
    assert max(map(len, texts(svg))) < 100
    for formula in ("=1+1", "\uff1d1+1"):
        table = rows(page, json.dumps(named | {"run_name": formula}))
        assert {row["run"] for row in table if row["lane"] == "reference"} == {f"'{formula}"}
    assert not page.evaluate("() => window.hacked")
