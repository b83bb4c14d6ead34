"""The score tiles: hostile text stays text, and tiles wrap at every width."""

import math
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from playwright.sync_api import Browser, Page

from stepscope.app.templates import render
from stepscope.app.web.score_tiles import HEADLINES, SPANS, STATES, TEACHER_FORCED, make_tiles
from tests.support.pages.browser import NEEDS_CHROMIUM, open_page, run

HOSTILE = "\"><img src=x onerror='window.hacked=1'>&{{1+1}}"


def test_hostile_text_is_escaped_in_every_place() -> None:
    html = render("score_tiles", tiles=[SimpleNamespace(label=HOSTILE, figure=HOSTILE, hint=HOSTILE)], basis=HOSTILE)
    escaped = "&#34;&gt;&lt;img src=x onerror=&#39;window.hacked=1&#39;&gt;&amp;{{1+1}}"
    assert html.count(escaped) == 7
    assert "<img" not in html


def test_updates_and_reply_spans_have_tiles_where_they_are_known() -> None:
    bare = dict.fromkeys(HEADLINES, 0.5) | dict.fromkeys((*STATES, *SPANS, *TEACHER_FORCED), math.nan)
    assert len(make_tiles(bare)) == len(HEADLINES)
    hint = make_tiles(bare, rules="speak by score, above, threshold 2.00")[HEADLINES.index("speaking_event_f1_1s")].hint
    assert hint.endswith(
        "Here of the run's messages, not of its rule's decisions (speak by score, above, threshold 2.00)."
    )
    one = make_tiles(bare | {"dst_f1": 0.25})
    assert [tile.figure for tile in one[len(HEADLINES) :]] == ["undefined", "0.25", "undefined", "undefined"]
    spans = make_tiles(bare | {"PAUC_w0.5": 61.25, "PAUC_silent": 25.0, "span_coverage": 1.0})
    assert [tile.label for tile in spans[len(HEADLINES) :]] == ["PAUC, w 0.5", "PAUC, always silent", "Spans covered"]


@pytest.fixture(scope="module")
def page(browser: Browser, tiny_page: str) -> Iterator[Page]:
    """Open the page with a run, and add a tile for each score of a teacher-forced pass."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    open_page(page, tiny_page)
    run(page)
    page.wait_for_selector(".score")
    for _ in TEACHER_FORCED:
        page.evaluate("document.querySelector('.scores').append(document.querySelector('.score').cloneNode(true))")
    yield page
    page.close()


@pytest.mark.slow
@NEEDS_CHROMIUM[0]
@NEEDS_CHROMIUM[1]
@pytest.mark.parametrize("zoom", [1, 1.5])
@pytest.mark.parametrize("width", [1024, 1152, 1280, 1440, 1920, 2560])
def test_tiles_wrap_without_overlap_or_scrolling(page: Page, width: int, zoom: float) -> None:
    page.set_viewport_size({"width": round(width / zoom), "height": 900})  # as the browser's zoom does
    tiles: list[dict[str, float]] = page.evaluate("""[...document.querySelectorAll('.score')].map((tile) => {
        const { left, right, top, bottom } = tile.getBoundingClientRect();
        const cut = Math.max(tile.scrollWidth - tile.clientWidth, tile.scrollHeight - tile.clientHeight);
        return { left, right, top, bottom, cut };
    })""")
    assert len(tiles) == len(HEADLINES) + len(STATES) + len(TEACHER_FORCED)
    assert max(tile["cut"] for tile in tiles) <= 0, "each tile shows its whole text"
    for number, tile in enumerate(tiles):
        assert tile["right"] - tile["left"] > 90
        for other in tiles[:number]:
            assert other["right"] < tile["left"] or other["bottom"] < tile["top"], "none lies over another"
    overflow: list[int] = page.evaluate("""[...document.querySelectorAll('.score')].map((tile) => {
        tile.focus({ preventScroll: true });
        const page = document.documentElement, around = document.querySelector('#scores');
        return page.scrollWidth - page.clientWidth + around.scrollWidth - around.clientWidth;
    })""")
    assert set(overflow) == {0}, "no scroll bar, also with the explanation of a tile"
