"""Points and titles of the signals, from modules that are imported in the browser without the page."""

import random
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.player.static import test_script_data_browser as scripts
from tests.app.player.static.test_script_data_browser import floats, packed_run
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import address, run

pytestmark = NEEDS_CHROMIUM
page = scripts.page
POINTS = """
    const { Axis } = await import(arg.axis), { unpack } = await import(arg.data), axis = new Axis();
    Object.assign(axis, { width: 264, view: { start: arg.start, end: arg.end } }); // 100 pixels of time
    const data = unpack(arg.run), { x, y } = linePoints(axis, data, "speak");
    return [[...x], [...y]];
"""


def points(page: Page, values: list[float], start: float, end: float) -> tuple[list[float], list[float]]:
    """Return the points of a signal in a view of 100 pixels."""
    times = floats(*(frame / 2 for frame in range(len(values))))
    series = {"times": times, **{name: floats(*values) for name in ("speak", "update", "cache", "latency")}}
    argument: dict[str, Any] = {name: address(name) for name in ("axis", "data")}
    argument |= {"start": start, "end": end, "run": packed_run(0, **series, duration_s=len(values) / 2)}
    x, y = run(page, "figure", "linePoints", POINTS, argument)
    return x, y


def test_a_dense_signal_keeps_minimum_and_maximum_of_each_column(page: Page) -> None:
    chance = random.Random(3)
    values = [chance.random() for _ in range(3000)]
    x, y = points(page, values, 0, 1500)
    assert len(x) == len(y) <= 2 * 102
    assert x == sorted(x)
    assert (min(y), max(y)) == (min(values), max(values))
    lows, highs = y[::2], y[1::2]
    assert all(low <= high for low, high in zip(lows, highs, strict=True))
    at = values.index(max(values))
    assert abs(x[y.index(max(values))] - at / 2) <= 1500 / 100, "in the column of its frame"


def test_only_the_visible_range_is_drawn_and_there_every_frame(page: Page) -> None:
    values = [frame / 3000 for frame in range(3000)]
    x, y = points(page, values, 100, 150)
    assert x == [frame / 2 for frame in range(199, 302)], "one more frame on either side"
    assert y == values[199:302]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>&lt;</b>", "&lt;b&gt;&amp;lt;&lt;/b&gt;"),
        ("x" * 300, "x" * 60 + "…"),
    ],
)
def test_a_title_is_escaped_and_cut(page: Page, text: str, shown: str) -> None:
    assert run(page, "curves", "plainText", "return plainText(arg);", text) == shown
