"""A page whose thresholds are moved, and the wait until it is idle."""

import re
from typing import Any

from playwright.sync_api import Page

from tests.support.pages.browser import STATUS

HEADS = ("speak", "update")


def drag_slider(page: Page, name: str, to: float) -> None:
    slider = page.locator(f"#{name}_threshold input[type=range]")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * to, box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()


def sliders(page: Page) -> dict[str, float]:
    return {name: float(page.input_value(f"#{name}_threshold input[type=number]")) for name in HEADS}


def wait_for_rest(page: Page, expected: dict[str, float] | None = None) -> dict[str, Any]:
    """Wait until the page is idle, check that all parts agree, and return the player's state."""
    rest = page.wait_for_function(
        """([status, expected]) => {
            const said = document.querySelector(status).textContent, seen = document.querySelector('.ss').inspect();
            const isAsExpected = Object.entries(expected ?? {}).every(([name, at]) => seen.thresholds[name] === at);
            return seen.isAtRest && isAsExpected && !/^(Wait|Run)/.test(said) && [seen, said];
        }""",
        arg=[STATUS, expected],
        timeout=120_000,
    )
    seen, status = rest.json_value()
    assert not seen["isPreview"]
    assert seen["thresholds"] == seen["runThresholds"] == sliders(page)
    if said := re.search(r"speak (\S+), update ([^\s,.]+(\.\d+)?)", status):
        assert {"speak": float(said[1]), "update": float(said[2])} == seen["thresholds"], status
    return dict(seen)
