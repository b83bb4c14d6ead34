"""The lane of the reviewer's verdicts, imported as an ES module in the browser."""

import pytest
from playwright.sync_api import Page

from tests.app.web.static import test_script_data_browser as scripts
from tests.app.web.static.test_lanes_browser import on_timeline
from tests.support.pages.browser import NEEDS_CHROMIUM

pytestmark = NEEDS_CHROMIUM
page = scripts.page


@pytest.mark.parametrize(
    ("verdicts", "shape"),
    [
        (["correct", None], "ring"),
        ([None, "correct"], "ring"),
        (["false alarm", "correct"], "triangle"),
        (["correct", "unclear", None], "ring"),
        (["correct", "correct"], "dot"),
    ],
)
def test_events_of_one_moment_are_marked_as_judged_once_all_are(
    page: Page, verdicts: list[str | None], shape: str
) -> None:
    body = """
        const drawn = [], pen = { radius: 0, beginPath() {}, moveTo() { pen.radius = 0; }, lineTo() {} };
        pen.arc = (x, y, radius) => { pen.radius = radius; };
        pen.stroke = () => drawn.push("ring");
        pen.fill = () => drawn.push(pen.radius ? "dot" : "triangle");
        const judged = packed[0].verdicts.map((verdict) => ({ time: 2, verdict }));
        const lane = LANES.find(({ kind }) => kind === "judged");
        lane.paint({ pen, colours: {}, width: arg.width, x: (time) => 150 + 10 * time }, { top: 0, run: { judged } });
        return drawn;"""
    assert on_timeline(page, body, {"verdicts": verdicts}) == [shape]
