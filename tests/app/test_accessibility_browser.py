"""WCAG 2.1 AA by axe-core, and the layout of small and zoomed windows."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import NEEDS_CHROMIUM, open_page, run, wait_until_drawn

RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}}
pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    window = browser.new_page(viewport={"width": 1440, "height": 900})
    yield window
    window.close()


def violations(page: Page, options: dict[str, Any] = RULES) -> list[str]:
    """Return one line per violation, measured after all transitions."""
    page.wait_for_selector("#run:enabled", state="attached")
    page.add_style_tag(content="* { transition: none !important; animation: none !important; }")
    found: list[dict[str, Any]] = Axe().run(page, options=options).response["violations"]
    return [f"{rule['id']}: {node['target']}: {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize(("theme", "options"), [("light", RULES), ("dark", {"runOnly": ["color-contrast"]})])
def test_every_tab_meets_wcag_aa(page: Page, tiny_page: str, theme: str, options: dict[str, Any]) -> None:
    open_page(page, f"{tiny_page}?__theme={theme}")
    run(page)
    page.wait_for_selector(".ss-states")
    assert violations(page, options) == []
    for name in ("Review", "Precision, recall"):
        page.get_by_role("tab", name=name, exact=True).click()
        assert violations(page, options) == []
    for name, part in (("Chat", "#chat_status"), ("Batch", "#start"), ("Reviews", "#desk_status")):
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(part).wait_for()
        assert violations(page, options) == []
    for name in ("Queue", "Assign", "Agreement"):
        page.get_by_role("tab", name=name, exact=True).click()
        assert violations(page, options) == []


def test_keyboard_focus_has_a_ring_and_status_lines_are_live_regions(page: Page, tiny_page: str) -> None:
    open_page(page, tiny_page)
    page.keyboard.press("Tab")  # from now on focus is the keyboard's
    for part in ("#speak_threshold input[type=range]", "#chosen input", "#run", "#goal textarea"):
        page.locator(part).focus()
        page.wait_for_function(  # a button's ring grows to its width
            """(one) => {
                const { outlineStyle, outlineWidth } = getComputedStyle(one);
                return outlineStyle === "solid" && outlineWidth === "2px";
            }""",
            arg=page.locator(part).element_handle(),
        )
    for name in ("Batch", "Reviews"):
        page.get_by_role("tab", name=name, exact=True).click()
        page.wait_for_function("document.querySelectorAll('.status-line').length > 1")
    lines = page.locator("#status, #batch_status, #desk_status").get_by_role("status", include_hidden=True)
    assert lines.count() == 3
    assert {lines.nth(number).get_attribute("aria-live") for number in range(3)} == {"polite"}
    assert page.locator(".status-line:is(textarea, input)").count() == 0


def test_video_details_and_lanes_or_verdicts_are_seen_together(page: Page, tiny_page: str) -> None:
    open_page(page, tiny_page)
    page.evaluate("""() => {
        window.fonts_seen = new Set();
        const paint = CanvasRenderingContext2D.prototype.fillText;
        CanvasRenderingContext2D.prototype.fillText = function (...more) {
            window.fonts_seen.add(parseFloat(this.font));
            return paint.apply(this, more);
        };
    }""")
    run(page)
    page.get_by_role("button", name="Video, task, settings").click()  # the form folds, as it is without a choice
    page.wait_for_selector(".ss-states")
    page.wait_for_function("window.fonts_seen.size > 0")
    assert min(page.evaluate("[...window.fonts_seen]")) >= 11, "no text of the lanes is smaller"
    for part in ("#video video", ".ss-now", ".ss-rows", ".ss-canvas"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900
    page.get_by_role("tab", name="Review", exact=True).click()
    for width, height in ((1024, 768), (960, 600), (1280, 720), (1440, 900), (1920, 1080)):
        page.set_viewport_size({"width": width, "height": height})  # 960 x 600 and 1280 x 720: 1440 and 1920 at 150 %
        wait_until_drawn(page)
        page.evaluate("scrollTo(0, 0)")
        for part in ("#video video", ".ss-now", ".ss-verdict >> nth=0", ".ss-verdict >> nth=6"):
            box = page.locator(part).bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= height, (part, width)
