"""WCAG 2.1 AA by axe-core, the focus of the keyboard, and live regions."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.axe import find_violations
from tests.support.pages.browser import NEEDS_CHROMIUM, open_page, run

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    window = browser.new_page(viewport={"width": 1440, "height": 900})
    yield window
    window.close()


def violations(page: Page, part: str | None = None) -> list[str]:
    """Return the violations on the page or in a part of it, measured after all transitions."""
    page.wait_for_selector("#run:enabled", state="attached")
    page.add_style_tag(content="* { transition: none !important; animation: none !important; }")
    return find_violations(page, part)


def test_every_tab_meets_wcag_aa(page: Page, tiny_page: str) -> None:
    open_page(page, f"{tiny_page}?__theme=light")
    run(page)
    page.wait_for_selector(".ss-states")
    assert violations(page) == []
    shown = '[role="tabpanel"]:not([style*="display: none"])'
    for name, part in (("Chat", "#chat_status"), ("Batch", "#videos .wb-said"), ("Reviews", "#desk_status")):
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(part).wait_for()
        assert violations(page, shown) == []
    for name in ("Queue", "Assign", "Agreement"):
        page.get_by_role("tab", name=name, exact=True).first.click()
        assert violations(page, shown) == []


def test_keyboard_focus_has_a_ring_and_status_lines_are_live_regions(page: Page, tiny_page: str) -> None:
    open_page(page, tiny_page)
    page.keyboard.press("Tab")  # from now on focus is the keyboard's
    for part in ("#speak_threshold input[type=range]", ".focus [data-part=video]", "#run", "#goal textarea"):
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
