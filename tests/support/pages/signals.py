"""The signals of the player: where their figure has drawn something."""

from typing import Any

from playwright.sync_api import Page

GUTTER, MARGIN = 150, 14
DRAWN_AT = """([number, name, value]) => {
    const { top, height } = document.querySelector('.ss').inspect().rows.find((row) => row.name === name);
    const { y0 } = document.querySelector('.ss-figure').layout.shapes[number];
    return Math.abs(y0 - (top + height - 5 - value * (height - 11))) < 1e-6;
}"""
"""Whether Plotly has drawn the threshold of a probability, a shape by its number, at a value."""


def wait_for_figure(page: Page) -> None:
    """Wait until Plotly has drawn the signals, as they are now."""
    page.wait_for_selector(".ss-figure .js-line", state="attached")


def find_row(page: Page, lane: str) -> tuple[dict[str, Any], dict[str, float], dict[str, float]]:
    """Return the last row of a kind or name, the view, and the box of the canvas."""
    page.locator(".ss-canvas").scroll_into_view_if_needed()
    seen: dict[str, Any] = page.evaluate("document.querySelector('.ss').inspect()")
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    row = [row for row in seen["rows"] if lane in (row["kind"], row.get("name"))][-1]
    return row, seen["view"], {"x": box["x"], "y": box["y"], "width": box["width"], "height": box["height"]}


def point(page: Page, lane: str, time_s: float, *, prob: float = 0.75) -> tuple[float, float]:
    """Return the screen position of a time and a probability in the row of a signal."""
    row, view, box = find_row(page, lane)
    x = GUTTER + (time_s - view["start"]) / (view["end"] - view["start"]) * (box["width"] - GUTTER - MARGIN)
    return box["x"] + x, box["y"] + row["top"] + row["height"] - 5 - prob * (row["height"] - 11)


def marker(page: Page, decision: str, time_s: float) -> tuple[float, float]:
    """Return the centre of the mark of a probability and kind, such as ``speak hits``."""
    name, kind = decision.split()
    read = """([name, at]) => {
        const run = document.querySelector('.ss').unpacked();
        return run[name][run.times.indexOf(at)];
    }"""
    prob = 0.0 if kind == "misses" else page.evaluate(read, [name, time_s])
    return point(page, name, time_s, prob=prob)
