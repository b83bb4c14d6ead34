"""The thresholds on the signals: handles, the preview while one moves, and the precision-recall curves."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.pages.signals import DRAWN_AT, point, wait_for_figure
from tests.support.reviews.reviewing import make_folder

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("handles"))


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
    found = page.evaluate("""Object.fromEntries(document.querySelector('.ss-figure').data
        .filter(({ customdata }) => customdata)
        .map(({ uid, customdata }) => [uid, customdata.filter(([name]) => name === 'speak').length]))""")
    assert found == counts
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


def test_one_place_says_what_is_still_of_the_run(page: Page) -> None:
    wait_for_figure(page)
    page.keyboard.press("n")
    page.wait_for_selector(".ss-now .ss-failure")
    page.mouse.move(*point(page, "speak", 3, prob=0.5))
    page.mouse.down()
    page.mouse.move(*point(page, "speak", 3, prob=0), steps=5)
    expect(page.locator(".ss-counts")).to_contain_text(
        "stay those of the run at speak 0.50. Release to run it exactly."
    )
    expect(page.get_by_text("run at speak 0.50")).to_have_count(1)
    expect(page.locator(".ss-decision", has_text="speak").locator("b")).to_have_text("would speak")
    page.mouse.move(*point(page, "speak", 3, prob=0.5), steps=5)
    expect(page.locator(".ss-counts")).to_be_empty()
    page.mouse.up()


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
