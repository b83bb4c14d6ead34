"""The menu of figures below the player."""

import csv
import re
import struct
from pathlib import Path

import pytest
from lxml import etree
from playwright.sync_api import Page, expect

from stepscope.app.web.payload import pack_run
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, PATIENCE_MS
from tests.support.reviews.played import judge, make_run

pytestmark = [*NEEDS_CHROMIUM, pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("player")
    run = make_run(folder)
    write_h264(folder / "a.mp4", moving_square(100, shade=200), fps=10)
    (folder / "a.json").write_text(pack_run(run, judge(run)), encoding="utf-8")
    return folder


def test_a_button_saves_the_visible_range_in_the_chosen_look(page: Page) -> None:
    page.wait_for_selector(".ss-has-run")
    page.keyboard.press("+")  # half of the video, from its start
    page.select_option(".ss-figureWidth", "85mm")
    page.select_option(".ss-figureTheme", "dark")
    with page.expect_download() as saving:
        page.click("[data-figure=svg]")
    svg = etree.parse(str(saving.value.path())).getroot()
    assert re.fullmatch(r"a, \w{12}, 0:00\.0 to 0:05\.0", svg.find("{*}title").text)
    assert (svg.get("width"), svg.find("{*}rect").get("fill")) == ("85mm", "#18181b")
    assert "http" not in re.sub(r"http://www\.w3\.org/[\w/]+", "", etree.tostring(svg).decode()), (
        "no address of the page"
    )
    name = saving.value.suggested_filename
    assert re.fullmatch(r"a-\w{12}-figure\.svg", name)
    expect(page.locator(".ss-said")).to_have_text(f"Saved {name}.")
    with page.expect_download() as saving:
        page.click("[data-figure=png]")
    width, height = struct.unpack(">II", saving.value.path().read_bytes()[16:24])
    assert (width, height) == pytest.approx((1003, width * float(svg.get("height")[:-2]) / 85), abs=2)
    with page.expect_download() as saving:
        page.click("[data-figure=csv]")
    times = [float(row["time_s"]) for row in csv.DictReader(saving.value.path().read_text("utf-8").splitlines())]
    assert max(times) == 5


def test_the_server_prints_the_pdf_and_draws_the_charts(page: Page) -> None:
    page.wait_for_selector(".ss-has-run")
    expect(page.locator("[data-figure=json]")).to_be_hidden()
    sent = page.locator("#let_go textarea, #let_go input")
    page.click("[data-figure=pdf]")
    expect(page.locator(".ss-said")).to_have_text("Drawing PDF of 0:00.0 to 0:10.0.")
    expect(sent).to_have_value(
        re.compile(r"^timeline pdf 180mm light a, \w+, 0:00.0 to 0:10.0 corrected (False|false);$"), timeout=PATIENCE_MS
    )
    page.select_option(".ss-figureChart", "roc")
    page.click("[data-figure=json]")
    expect(sent).to_have_value(re.compile(r";roc json 180mm light  corrected (False|false);$"), timeout=PATIENCE_MS)


def test_a_figure_has_the_thresholds_of_the_run_while_others_are_previewed(page: Page) -> None:
    page.wait_for_selector(".ss-has-run")
    page.evaluate(
        """() => document.dispatchEvent(new CustomEvent("stepscope:threshold", { detail: { speak: 0.01 } }))"""
    )
    assert page.evaluate('() => document.querySelector(".ss").inspect().thresholds.speak') == 0.01
    with page.expect_download() as saving:
        page.click("[data-figure=svg]")
    svg = saving.value.path().read_text("utf-8")
    assert "speak &gt; 0.50" in svg
    assert "speak &gt; 0.01" not in svg
