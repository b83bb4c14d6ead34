"""The player with data of two videos: seeks, keys, links, captions, speech and figures."""

import csv
import re
import struct
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from lxml import etree
from playwright.sync_api import Page, expect

from stepscope.eval.metrics.decisions import count_decisions, reference_frames
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, rows, wait_until_drawn
from tests.support.pages.two_videos import count_requests, cues, show, wait_for_time
from tests.support.reviews.played import HOSTILE, make_run

pytestmark = NEEDS_CHROMIUM


def test_a_click_seeks_with_at_most_one_request_and_what_is_there_is_told_in_full(page: Page) -> None:
    requested = count_requests(page)
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    left, right = box["x"] + 150, box["x"] + box["width"] - 14  # the gutter of the labels, and the margin
    page.mouse.click((left + right) / 2, box["y"] + 60)
    wait_for_time(page, 5.0)
    page.wait_for_timeout(300)
    assert len(requested) <= 1
    page.mouse.move(left + 10, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(left + 0.8 * (right - left), box["y"] + 60, steps=8)
    page.mouse.up()
    wait_for_time(page, 8.0)
    page.locator(".ss-row", has_text="0:05.5").click()
    wait_for_time(page, 5.5)
    page.wait_for_function("document.querySelector('.ss-now').textContent.includes('frame 12 of 20')")
    now = page.locator(".ss-now").inner_text()
    assert "spoke" in now
    assert "Now the roof." in now
    assert "matched similarity 1.00, cost" in now
    assert "1.5 s late" in now
    assert re.search(r"133 tokens in the context, \d\.\d ms of model time", now)
    page.keyboard.press("End")
    page.wait_for_function("document.querySelector('.ss-now').textContent.includes('frame 20 of 20')")
    assert "S2 put on the roof ○ not started should be ◐" in " ".join(page.locator(".ss-states").inner_text().split())
    assert page.locator(".ss-row.ss-current").count() == 1


def test_every_key_does_what_the_list_says_and_nothing_while_typing(page: Page) -> None:
    def press(key: str) -> dict[str, Any]:
        page.keyboard.press(key)
        wait_until_drawn(page)
        return inspect(page)

    page.click("#typing textarea")
    page.keyboard.type("n l ? 0")
    assert page.input_value("#typing textarea") == "n l ? 0"
    assert inspect(page)["time"] == 0
    assert not page.locator(".ss-help:not(.ss-replace)").is_visible()
    page.focus(".ss-canvas")
    assert not press(" ")["isPaused"]
    assert press("k")["isPaused"]
    page.evaluate("document.querySelector('#video video').currentTime = 0")
    assert press("ArrowRight")["frame"] == 1
    assert press("ArrowRight")["frame"] == 2
    assert press("ArrowLeft")["frame"] == 1
    before = inspect(page)["time"]
    assert press(".")["time"] == pytest.approx(before + 0.1, abs=0.02)
    assert press(",")["time"] == pytest.approx(before, abs=0.02)
    assert press("l")["time"] == pytest.approx(before + 5, abs=0.05)
    assert press("j")["time"] == pytest.approx(before, abs=0.05)
    assert press("End")["time"] > 9.9
    assert press("Home")["time"] == 0
    assert press(">")["rate"] == 1.5
    assert press("<")["rate"] == 1
    assert press("n")["time"] == pytest.approx(3.5, abs=0.01)
    assert press("i")["region"][0] == pytest.approx(3.5, abs=0.01)
    press("l")
    assert press("o")["region"][1] == pytest.approx(8.5, abs=0.01)
    assert press("r")["isLooping"]
    assert not press("r")["isLooping"]
    assert inspect(page)["region"] == pytest.approx([3.5, 8.5], abs=0.01)  # kept for the next loop
    assert press("f")["region"] is None
    view = press("+")["view"]
    assert view["end"] - view["start"] == pytest.approx(5)
    view = press("-")["view"]
    assert (view["start"], view["end"]) == pytest.approx((0, 10))
    press("+")
    assert press("0")["view"] == {"start": 0, "end": 10}
    assert [press("c")["captions"] for _ in range(3)] == ["model", "reference", "off"]
    assert [press("t")["tab"] for _ in range(4)] == ["curves", "what_if", "story", "rows"]
    page.focus("[data-tab=rows]")
    assert [press(key)["tab"] for key in ("ArrowLeft", "ArrowRight", "ArrowRight")] == ["story", "rows", "curves"]
    assert press("%")["tab"] == "what_if"
    press("t")
    press("t")
    page.locator(".ss-row").nth(1).focus()
    assert press(" ")["isPaused"]
    assert inspect(page)["time"] == pytest.approx(1, abs=0.01)
    page.focus(".ss-canvas")
    press("h")
    assert page.locator(".ss-inspection").is_visible()
    press("Escape")
    assert not page.locator(".ss-inspection").is_visible()
    press("?")
    assert page.locator(".ss-help:not(.ss-replace)").is_visible()
    assert page.locator(".ss-help:not(.ss-replace) tr:has(kbd)").count() == 21
    press("Escape")
    assert not page.locator(".ss-help:not(.ss-replace)").is_visible()


def test_previews_count_as_the_scores_do(page: Page, folder: Path) -> None:
    run = make_run(folder)
    sample = run.clip.sample
    assert sample is not None
    move = """([name, value]) => {
        document.querySelector('.ss').preview({[name]: value});
    }"""
    for name, role in (("speak", "assistant"), ("update", "update")):
        probs = [getattr(output, f"{name}_prob") for output in run.outputs]
        for threshold in (0.0, 0.2, 0.4, 0.7, 0.9, 1.0, probs[3]):
            page.evaluate(move, [name, threshold])
            counts = count_decisions(
                probs, [prob > threshold for prob in probs], expected_frames=reference_frames(sample, role), fps=2.0
            )
            hits = counts.num_pairs[2]  # within 1 s
            assert inspect(page)["counts"][name] == {
                "hits": hits,
                "misses": counts.num_expected - hits,
                "alarms": counts.num_decided - hits,
            }


def test_hostile_texts_stay_texts_in_every_lane(page: Page) -> None:
    show(page, "hostile")
    page.keyboard.press("t")
    page.keyboard.press("t")
    page.keyboard.press("c")
    for key in ("n", "n", "n", "+", "+", "Home", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
        wait_until_drawn(page)
    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    for y in range(8, int(box["height"]), 12):
        page.mouse.move(box["x"] + 60, box["y"] + y)
        page.mouse.move(box["x"] + 500, box["y"] + y)
    assert any(HOSTILE in row for row in rows(page))
    assert HOSTILE.split()[0] in page.locator(".ss-now").inner_text()
    assert page.evaluate("window.hacked === undefined && !document.querySelector('.ss img, .ss script')")
    captions = cues(page)
    assert len(captions) == 3
    assert all("<" not in text for _, _, text in captions)
    assert page.locator(".ss-now").bounding_box()["width"] < 500  # type: ignore[index]


@pytest.mark.slow
def test_data_and_video_can_be_exchanged(page: Page) -> None:
    page.keyboard.press("r")
    page.keyboard.press("+")
    show(page, "b")
    assert page.locator("[data-do=loop]").get_attribute("aria-pressed") == "false"
    assert inspect(page)["view"] == {"start": 0, "end": 4}
    assert "reused from the previous run, not computed again" in page.locator(".ss-now").inner_text()
    assert page.locator(".ss-kind").count() == 0, "there is no reference to fail against"
    video = page.locator("button:has-text('b.mp4')")
    video.click()
    page.wait_for_function("document.querySelector('#video video').duration < 5")
    page.wait_for_function("document.querySelector('#video video').readyState >= 2")
    page.keyboard.press("l")
    wait_until_drawn(page)
    assert inspect(page)["time"] == pytest.approx(3.99, abs=0.02)
    show(page, "none")
    assert page.locator(".ss-empty").inner_text().startswith("Press Run")
    page.keyboard.press("n")
    assert page.locator(".ss-said").inner_text() == "Nothing to play yet: press Run."


@pytest.mark.slow
def test_captions_are_cues_of_the_video_and_the_link_names_what_is_shown(page: Page, folder: Path) -> None:
    page.select_option(".ss-captions", "reference")
    wait_until_drawn(page)
    assert cues(page) == [[1, 4, "Now the wheel."], [4, 6, "Now the roof."], [6, 10, "Careful!"]]
    copied = "Object.assign(document.querySelector('.ss').unpacked(), { has_reference: false, is_copied: true })"
    page.evaluate(f"{{ {copied}; }}")
    page.select_option(".ss-captions", "off")
    page.select_option(".ss-captions", "reference")
    assert page.locator(".ss-said").inner_text() == "Captions: copy"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("document.querySelector('#video video').currentTime = 4.25")
    page.keyboard.press("y")
    page.wait_for_function("document.querySelector('.ss-said').textContent === 'Link copied.'")
    link = parse_qs(urlsplit(page.evaluate("navigator.clipboard.readText()")).query)
    assert link == {
        "video": ["a"],
        "run": [make_run(folder).digest],
        "t": ["4.25"],
        "speak": ["0.5"],
        "update": ["0.5"],
        "context": ["refresh"],
    }


@pytest.mark.slow
def test_a_region_loops(page: Page) -> None:
    page.evaluate("document.querySelector('#video video').currentTime = 2")
    page.keyboard.press("i")
    page.evaluate("document.querySelector('#video video').currentTime = 2.6")
    page.keyboard.press("o")
    page.keyboard.press("r")
    page.keyboard.press("k")
    times = page.evaluate("""new Promise((done) => {
        const times = [], { inspect } = document.querySelector(".ss");
        const draw = () => { // until it has begun again three times
            times.push(inspect().time);
            if (times.filter((time, index) => time < times[index - 1] - 0.1).length > 2) done(times);
            else requestAnimationFrame(draw);
        };
        draw();
    })""")
    assert all(1.9 < time < 2.75 for time in times)


def test_playback_that_stalls_with_its_data_buffered_continues(page: Page) -> None:
    page.keyboard.press(" ")
    page.wait_for_function("document.querySelector('.ss').inspect().time > 0.2")
    page.evaluate("""() => {
        const video = document.querySelector("#video video");
        let looks = 0; // it still seeks at the first look
        Object.defineProperty(video, "readyState", { value: 2 });
        Object.defineProperty(video, "seeking", { get: () => looks++ === 0 });
        video.addEventListener("seeking", () => (window.hasSought = true));
        video.dispatchEvent(new Event("waiting"));
    }""")
    page.wait_for_function("window.hasSought")


def play_until(page: Page, time_s: float) -> None:
    page.keyboard.press(" ")
    page.wait_for_function("(end) => document.querySelector('.ss').inspect().time >= end", arg=time_s)
    page.keyboard.press(" ")


@pytest.mark.slow
def test_responses_are_spoken_when_they_occur_once_that_is_switched_on(page: Page) -> None:
    spoken: list[str] = []
    statuses: list[int] = []

    def note(response: object) -> None:
        url = urlsplit(getattr(response, "url", ""))
        if url.path == "/speech":
            spoken.append(parse_qs(url.query)["text"][0])
            statuses.append(getattr(response, "status", 0))

    page.on("response", note)
    page.keyboard.press("Home")
    play_until(page, 1.3)
    assert spoken == []
    page.keyboard.press(";")
    assert page.locator(".ss-speech").get_attribute("aria-pressed") == "true"
    assert inspect(page)["said"].startswith("The model's responses are spoken")
    page.keyboard.press("Home")
    with page.expect_response("**/speech?*"):
        play_until(page, 1.6)
    assert [text.strip() for text in spoken] == ["Now the wheel."]
    assert statuses[0] in (200, 206)
    page.click(".ss-speech")
    assert page.locator(".ss-speech").get_attribute("aria-pressed") == "false"


@pytest.mark.slow
def test_a_button_saves_the_visible_range_in_the_chosen_look(page: Page) -> None:
    page.wait_for_selector(".ss-has-run")
    page.keyboard.press("+")  # half of the video, from its start
    preview = """document.querySelector(".ss").preview({ speak: 0.01 })"""
    page.evaluate(preview)
    page.select_option(".ss-figureWidth", "85mm")
    page.select_option(".ss-figureTheme", "dark")
    with page.expect_download() as saving:
        page.click("[data-figure=svg]")
    svg = etree.parse(str(saving.value.path())).getroot()
    assert re.fullmatch(r"a, \w{12}, 0:00\.0 to 0:05\.0", svg.find("{*}title").text)
    assert (svg.get("width"), svg.find("{*}rect").get("fill")) == ("85mm", "#18181b")
    assert "speak > 0.50" in "".join(svg.itertext()), "a preview is in no figure"
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
