"""The signals are a Plotly figure on the time axis of the lanes."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from stepscope.app.style.colours import COLOURS
from stepscope.app.web.payload import pack_run
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.pages.signals import colour_at, marker, point, wait_for_figure
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
    page.mouse.dblclick(*point(page, "update", 5))
    wait_for_view(page, 0, 10)


@pytest.mark.slow
def test_what_is_drawn_moves_with_the_view_in_every_frame(page: Page) -> None:
    """Plotly draws ten times a second at most: between, its drawing is moved. Marks are painted in each frame."""
    wait_for_figure(page)
    apart_px = page.evaluate("""new Promise((done) => {
        const canvas = document.querySelector('.ss-canvas'), box = canvas.getBoundingClientRect(), apart = [];
        let number = 0;
        const panel = document.querySelector('.ss-now').firstChild; // it is made again only for another frame
        const wheel = {deltaY: -8, ctrlKey: true, cancelable: true, clientX: box.left + 300, clientY: box.top + 60};
        const look = () => {
            const { start, end } = document.querySelector('.ss').inspect().view, inner = box.width - 164;
            const placeOf = (time) => 150 + (time - start) / (end - start) * inner;
            const plot = document.querySelector('.ss-figure'), marks = document.querySelector('.ss-marks');
            const first = plot.data[0].x[0], { left } = plot.querySelector('.js-line').getBoundingClientRect();
            apart.push(Math.abs(left - box.left - placeOf(first)));
            const column = marks.getContext('2d').getImageData(Math.round(placeOf(1)), 0, 1, marks.height).data;
            if (!column.some((value) => value > 0) || !panel.isConnected) apart.push(Infinity);
            if ((number += 1) === 60) return void done(apart);
            canvas.dispatchEvent(new WheelEvent('wheel', wheel));
            requestAnimationFrame(() => setTimeout(look));
        };
        look();
    })""")
    assert max(apart_px) < 1.5
    assert inspect(page)["view"]["end"] < 4


@pytest.mark.slow
def test_a_click_in_the_figure_seeks_and_shift_and_drag_sets_the_region(page: Page) -> None:
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


def test_a_click_on_a_marker_selects_its_event(page: Page) -> None:
    wait_for_figure(page)
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
    """Move the mouse to a marker; return the lines of its hover text."""
    page.mouse.move(*marker(page, trace, time_s))
    page.wait_for_selector(".ss-figure .hovertext .nums")
    lines: list[str] = page.evaluate(
        "[...document.querySelectorAll('.ss-figure .hovertext .nums .line')].map((line) => line.textContent.trim())"
    )
    return lines


@pytest.mark.slow
def test_a_decision_says_its_probability_its_text_and_its_reference(page: Page, folder: Path) -> None:
    wait_for_figure(page)
    outputs = make_run(folder).outputs
    assert hover_text(page, "speak hits", 5.5) == [
        "0:05.5  decision in time",
        f"speak {outputs[11].speak_prob:.3f} > 0.50",
        "model: Now the roof.",
        "reference 0:04.0: Now the roof.",
    ]
    assert not page.locator(".ss-tip").is_visible(), "the tooltip of the lane would cover it"
    page.mouse.move(0, 0)
    page.wait_for_selector(".ss-figure .hovertext", state="detached")
    assert hover_text(page, "update misses", 8.5) == [
        "0:08.5  no decision",
        f"update {outputs[17].update_prob:.3f} ≤ 0.50",
        "reference 0:08.5: S2->start",
    ]


def test_hostile_texts_in_hover_texts_stay_texts(page: Page) -> None:
    page.click("#hostile")
    page.wait_for_function("document.querySelector('.ss').unpacked().responses[0].text.includes('evil')")
    wait_for_figure(page)
    lines = hover_text(page, "speak hits", 1.0)
    shown = " ".join(lines)
    assert "<a href='https://evil.test/'>here</a> <b>bold</b> &lt;i&gt; <img src=x onerror=" in shown
    assert len(shown) < 2 * 120 + 120, "long texts are cut"
    assert max(map(len, lines)) < 90
    assert page.evaluate("window.hacked === undefined && !document.querySelector('.ss-figure :is(a, img, b)')")


@pytest.mark.slow
def test_the_legend_hides_a_trace_and_shows_it_again(page: Page) -> None:
    wait_for_figure(page)
    entries = page.locator(".ss-figure .legendtext")
    assert entries.all_text_contents() == ["speak", "update", "decision in time", "unexpected decision", "no decision"]
    hit, alarm = marker(page, "speak hits", 5.5), marker(page, "speak alarms", 9.0)
    assert (colour_at(page, hit), colour_at(page, alarm)) == (COLOURS["matched"].light, COLOURS["redundant"].light)
    page.locator(".ss-canvas").scroll_into_view_if_needed()
    page.locator(".ss-figure .legendtoggle").nth(2).click()
    hidden = "document.querySelector('.ss-figure').data.filter(({ visible }) => visible === 'legendonly')"
    page.wait_for_function(f"{hidden}.length === 2")  # the sign, and the hover texts
    assert (colour_at(page, hit), colour_at(page, alarm)) == (None, COLOURS["redundant"].light)
    page.keyboard.press("+")
    wait_for_view(page, 0, 5)
    assert page.evaluate("document.querySelectorAll('.ss-figure .overplot .js-line').length") == 2
    assert page.evaluate(f"{hidden}.length") == 2, "it stays hidden when Plotly draws again"
    page.locator(".ss-figure .legendtoggle").first.click()
    page.wait_for_function("document.querySelectorAll('.ss-figure .overplot .js-line').length === 1")
    page.keyboard.press("0")
    page.locator(".ss-figure .legendtoggle").nth(2).click()
    page.wait_for_function(f"{hidden}.length === 1")  # the line of the first signal
    wait_for_view(page, 0, 10)
    assert colour_at(page, hit) == COLOURS["matched"].light


def rgb(colour: str) -> str:
    return f"rgb({', '.join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))})"


@pytest.mark.slow
def test_the_colours_follow_the_theme(page: Page) -> None:
    wait_for_figure(page)
    stroke = "getComputedStyle(document.querySelector('.ss-figure .js-line')).stroke"
    assert page.evaluate(stroke) == rgb(COLOURS["speak"].light)
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_function(f"{stroke} === '{rgb(COLOURS['speak'].dark)}'")
    fill = "getComputedStyle(document.querySelector('.ss-figure .legendtext')).fill"
    ink = "getComputedStyle(document.querySelector('.ss-figure .xtick text, .ss-figure .ytick text')).fill"
    assert page.evaluate(fill) == page.evaluate(ink) != "rgb(0, 0, 0)"
    sizes = page.evaluate(
        "[...document.querySelectorAll('.ss-figure text')].map((text) => parseFloat(getComputedStyle(text).fontSize))"
    )
    assert min(sizes) >= 11


@pytest.mark.slow
def test_without_plotly_a_message_says_so_and_the_rest_works(browser: Browser, address: str) -> None:
    page = browser.new_page(viewport={"width": 1440, "height": 1200})
    page.route("**/plotly-*", lambda route: route.abort())
    page.goto(address)
    expect(page.locator(".ss-note-signals")).to_contain_text("plotly.js did not load")
    page.mouse.click(*point(page, "speak", 4))
    page.wait_for_function("Math.abs(document.querySelector('.ss').inspect().time - 4) < 0.03")
    page.mouse.move(*point(page, "update", 3, prob=0.5))
    page.mouse.down()
    page.mouse.move(*point(page, "update", 3, prob=0.8), steps=5)
    page.mouse.up()
    assert inspect(page)["thresholds"]["update"] == pytest.approx(0.8, abs=0.02)
    page.click("[data-tab=curves]")
    expect(page.locator(".ss-curves")).to_contain_text("plotly.js did not load")
    page.close()
