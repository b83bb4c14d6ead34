"""The signals are a Plotly figure on the time axis of the lanes, with the thresholds as handles."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from stepscope.app.window.payload import pack_run
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.pages.signals import DRAWN_AT, marker, point, wait_for_figure
from tests.support.pages.two_videos import count_requests
from tests.support.reviews.played import judge, make_run
from tests.support.reviews.reviewing import make_folder

pytestmark = NEEDS_CHROMIUM
HOSTILE = (
    "<a href='https://evil.test/'>here</a> <b>bold</b> &lt;i&gt; <img src=x onerror=window.hacked=1> %{x} ${1+1} " * 9
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("signals"))
    run = make_run(folder, text=HOSTILE)
    (folder / "hostile.json").write_text(pack_run(run, judge(run)), encoding="utf-8")
    return folder


def drag(page: Page, begin: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*begin)
    page.mouse.down()
    page.mouse.move(*end, steps=6)
    page.mouse.up()


def wait_for_view(page: Page, start: float, end: float, *, within_s: float = 0.05) -> dict[str, Any]:
    """Wait until the timeline's view and the axis of the figure have a range."""
    page.wait_for_function(
        """([start, end, within]) => {
            const near = (range) => Math.abs(range[0] - start) < within && Math.abs(range[1] - end) < within;
            const { view } = document.querySelector('.ss').inspect();
            return near([view.start, view.end]) && near(document.querySelector('.ss-figure').layout.xaxis.range);
        }""",
        arg=[start, end, within_s],
    )
    return inspect(page)


def test_the_playhead_lies_at_plotlys_time_while_the_video_plays(page: Page) -> None:
    wait_for_figure(page)
    page.click("[data-do=play]")
    page.wait_for_function("document.querySelector('#video video').currentTime > 0.2")
    requested = count_requests(page)
    shown = page.evaluate("""new Promise((done) => {
        const shown = [], head = document.querySelector('.ss-head'), video = document.querySelector('#video video');
        const look = () => {
            const axis = document.querySelector('.ss-figure')._fullLayout.xaxis;
            const drawn = new DOMMatrix(head.style.transform).e;
            shown.push([axis.p2l(drawn - axis._offset), video.currentTime]);
            if (shown.length < 50 || video.currentTime < 1.5) requestAnimationFrame(look); else done(shown);
        };
        requestAnimationFrame(look);
    })""")
    assert requested == []
    # The page moves the head once between two looks, however long they are apart on a busy machine.
    assert all(before - 0.01 <= head <= now + 0.01 for (_, before), (head, now) in pairwise(shown))


def test_a_box_zooms_both_and_a_double_click_or_a_key_shows_the_whole_video(page: Page) -> None:
    wait_for_figure(page)
    drag(page, point(page, "speak", 2), point(page, "speak", 6))
    wait_for_view(page, 2, 6)
    page.keyboard.press("+")
    wait_for_view(page, 2, 4)  # around the playhead, which is at the start
    page.keyboard.press("0")
    wait_for_view(page, 0, 10)
    drag(page, point(page, "update", 7), point(page, "update", 4))
    wait_for_view(page, 4, 7)
    for _ in range(20):  # a busy machine may take longer from click to click than Plotly lets a double click last
        page.mouse.dblclick(*point(page, "update", 5))
        if inspect(page)["view"] == {"start": 0, "end": 10}:
            break
    wait_for_view(page, 0, 10)


def test_a_click_seeks_and_on_a_marker_selects_and_shift_and_drag_sets_the_region(page: Page) -> None:
    wait_for_figure(page)
    page.mouse.click(*point(page, "speak", 7.25, prob=0.9))
    page.wait_for_function("Math.abs(document.querySelector('#video video').currentTime - 7.25) < 0.03")
    page.keyboard.down("Shift")
    drag(page, point(page, "speak", 3), point(page, "speak", 5))
    page.keyboard.up("Shift")
    seen = inspect(page)
    assert seen["region"] == pytest.approx([3, 5], abs=0.02)
    assert (seen["view"], seen["time"]) == ({"start": 0, "end": 10}, pytest.approx(7.25, abs=0.03))
    x, y = point(page, "update", 5)
    page.keyboard.down("Control")
    page.mouse.move(x, y)
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_function("document.querySelector('.ss').inspect().view.end < 9")
    page.keyboard.press("0")
    wait_for_view(page, 0, 10)
    for trace, time_s, expected in [
        ("speak hits", 5.5, ("generated", "Now the roof. ")),
        ("speak alarms", 9.0, ("generated", "!?%&/ 12345 ")),
        ("update misses", 8.5, ("reference", "S2->start")),
    ]:
        page.mouse.click(*marker(page, trace, time_s))
        page.wait_for_function(
            "(time) => Math.abs(document.querySelector('.ss').inspect().time - time) < 0.05", arg=time_s
        )
        event = inspect(page)["event"]
        assert (event["kind"], event["text"]) == expected


def hover_text(page: Page, trace: str, time_s: float) -> list[str]:
    """Move the mouse to a marker; return the lines of its tooltip."""
    page.mouse.move(0, 0)
    expect(page.locator(".ss-tip")).to_be_hidden()
    page.mouse.move(*marker(page, trace, time_s))
    expect(page.locator(".ss-tip")).to_be_visible()
    return page.locator(".ss-tip").inner_text().split("\n")


def test_a_decision_says_its_probability_text_and_reference_and_hostile_texts_stay_texts(
    page: Page, folder: Path
) -> None:
    wait_for_figure(page)
    outputs = make_run(folder).outputs
    assert hover_text(page, "speak hits", 5.5) == [
        "0:05.5 decision in time",
        f"speak {outputs[11].speak_prob:.3f} > 0.50",
        "model: Now the roof.",
        "reference 0:04.0: Now the roof.",
    ]
    assert hover_text(page, "update misses", 8.5) == [
        "0:08.5 no decision",
        f"update {outputs[17].update_prob:.3f} ≤ 0.50",
        "reference 0:08.5: S2->start",
    ]
    page.click("#hostile")
    page.wait_for_function("document.querySelector('.ss').unpacked().responses[0].text.includes('evil')")
    wait_for_figure(page)
    lines = hover_text(page, "speak hits", 1.0)
    shown = " ".join(lines)
    assert "<a href='https://evil.test/'>here</a> <b>bold</b> &lt;i&gt; <img src=x onerror=" in shown
    assert len(shown) < 2 * 120 + 120, "long texts are cut"
    assert page.evaluate("window.hacked === undefined && !document.querySelector('.ss-tip :is(a, img, b)')")


def test_a_kind_that_is_hidden_in_the_legend_has_no_tooltip(page: Page) -> None:
    wait_for_figure(page)
    assert hover_text(page, "speak alarms", 9.0)[0] == "0:09.0 unexpected decision"
    page.locator(".ss-figure .legend .traces", has_text="unexpected decision").locator(".legendtoggle").click()
    page.wait_for_selector(".ss-figure .legend .traces[style*='opacity: 0.5']")
    (value,) = hover_text(page, "speak alarms", 9.0)
    assert "speak 0." in value


def test_a_handle_moves_its_threshold_by_pointer_and_by_keys(page: Page) -> None:
    wait_for_figure(page)
    handle = page.get_by_role("slider", name="speak threshold")
    page.mouse.move(*point(page, "speak", 3, prob=0.5))
    page.mouse.down()
    page.mouse.move(*point(page, "speak", 3, prob=0.25), steps=5)
    value = inspect(page)["thresholds"]["speak"]
    assert value == pytest.approx(0.25, abs=0.02)
    assert inspect(page)["isPreview"]
    page.wait_for_function(DRAWN_AT, arg=[0, "speak", value])
    expect(handle).to_have_attribute("aria-valuenow", str(value))
    counts = inspect(page)["counts"]["speak"]
    assert counts["alarms"] > 1, "more decisions than at 0.5"
    assert page.locator(".ss-counts").inner_text().startswith("Preview from the trace")
    assert page.input_value("#let_go textarea") == "", "the server is asked on release"
    page.mouse.up()
    page.wait_for_function("document.querySelector('#let_go textarea').value")
    assert page.input_value("#let_go textarea") == f"{value:g} 0.5;"
    handle.focus()
    page.keyboard.press("ArrowUp")
    expect(handle).to_have_attribute("aria-valuenow", f"{value + 0.01:g}")
    page.keyboard.press("End")
    assert inspect(page)["thresholds"]["speak"] == 1
    page.wait_for_function("document.querySelector('#let_go textarea').value.endsWith('1 0.5;')")
    assert inspect(page)["time"] == 0, "the keys are the handle's"


@pytest.mark.slow
def test_a_click_on_a_curve_moves_the_threshold_there(page: Page) -> None:
    page.click("[data-tab=curves]")
    page.wait_for_selector(".ss-curve .js-line", state="attached")
    seen = inspect(page)["counts"]["update"]
    precision, recall = (seen["hits"] / (seen["hits"] + seen[other]) for other in ("alarms", "misses"))
    expect(page.locator(".ss-curve")).to_have_attribute(
        "aria-label", re.compile(f"update: precision {precision:.2f}, recall {recall:.2f}$")
    )
    x, y = page.evaluate("""(() => {
        const plot = document.querySelector('.ss-curve'), { left, top } = plot.getBoundingClientRect();
        const { xaxis2: x, yaxis2: y } = plot._fullLayout, curve = plot.data[2];
        return [left + x._offset + x.l2p(curve.x[5]), top + y._offset + y.l2p(curve.y[5])];
    })()""")
    page.mouse.move(x, y)
    page.wait_for_selector(".ss-curve .hovertext")
    hovered = re.match(r"threshold ([\d.]+)update: ", page.locator(".ss-curve .hovertext").text_content() or "")
    assert hovered
    page.mouse.click(x, y)
    at = float(hovered[1])
    page.wait_for_function("(at) => document.querySelector('.ss').inspect().thresholds.update === at", arg=at)
    page.wait_for_function("document.querySelector('#let_go textarea').value")
    assert page.input_value("#let_go textarea") == f"0.5 {at:g};"
