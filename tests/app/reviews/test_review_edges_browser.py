"""Reviewing at its edges: what is typed while things change, names that are refused, videos without a run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from app.player.display.payload import pack_run
from app.reviews.events import name_events
from app.reviews.history import read_review
from app.reviews.store import ReviewStore
from engine.video.writer import write_h264
from eval.annotations.corrections import name_turns
from eval.data.samples import Turn
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect
from tests.support.reviews.played import judge, make_run, write_reviewed
from tests.support.reviews.reviewing import go_to, name_reviewer, press, wait_until_saved

pytestmark = NEEDS_CHROMIUM
OFF_GRID = Turn(time_s=7.3, role="assistant", text="Slowly.")
BELL = "\a"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run with a turn between two frames, its reference alone, and nothing."""
    folder = tmp_path_factory.mktemp("edges")
    run = make_run(folder)
    assert run.clip.sample is not None
    turns = sorted((*run.clip.sample.turns, OFF_GRID), key=lambda turn: turn.time_s)
    run = replace(run, clip=replace(run.clip, sample=replace(run.clip.sample, turns=tuple(turns))))
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    write_reviewed(folder / "a.json", run, judge(run))
    events = name_events(run.clip.video_id, references=name_turns(turns))
    alone = pack_run(replace(run, outputs=(), is_finished=False), events=events)
    (folder / "alone.json").write_text(alone, encoding="utf-8")
    (folder / "none.json").write_text("", encoding="utf-8")
    return folder


def notes(store: ReviewStore, reviewer: str) -> dict[str, str]:
    """Return what a reviewer noted, by the texts of the events."""
    return {
        found.event.text: opinion.note
        for found in read_review(store).events
        for opinion in found.opinions
        if opinion.reviewer == reviewer and opinion.note
    }


def wait_for(page: Page, condition: str) -> dict[str, Any]:
    """Wait until what the player says of itself, ``seen``, fulfils a condition."""
    page.wait_for_function(f"(() => {{ const seen = document.querySelector('.ss').inspect(); return {condition}; }})()")
    return inspect(page)


def seek(page: Page, time_s: float) -> None:
    page.evaluate("(time) => { document.querySelector('#video video').currentTime = time; }", time_s)
    wait_for(page, f"Math.abs(seen.time - {time_s}) < 0.02")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def turn_at(page: Page, key: str) -> tuple[float, float]:
    """Return where a turn of the corrected reference is on the screen."""
    box, seen = page.locator(".ss-canvas").bounding_box(), inspect(page)
    assert box is not None
    row = next(row for row in seen["rows"] if row["kind"] == "corrected")
    turn = next(turn for turn in seen["layer"] if turn["key"] == key)
    x = 150 + turn["time"] / 10 * (box["width"] - 150 - 14)  # between the gutter of the labels and the margin
    return box["x"] + x, box["y"] + row["top"] + (19 if turn["role"] == "update" else 7)


def leave(page: Page, **action: Any) -> None:
    """Put an action into the outbox of the browser, before all others."""
    kept = {"action_id": "old", "kind": "verdict", "video_id": "a", "reviewer": "ann", **action}
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", ["stepscope:outbox:0-old", json.dumps(kept)])


@pytest.mark.slow
def test_what_the_server_refuses_of_one_name_holds_up_no_other(page: Page) -> None:
    leave(page, reviewer=f"a{BELL}b")
    name_reviewer(page, "cal")
    page.keyboard.press("w")
    page.keyboard.press("1")
    seen = wait_for(page, "seen.saved && seen.waiting === 1")
    assert {said[0]["reviewer"] for said in seen["opinions"].values()} == {"cal"}
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved: ')")
    assert "printable characters" in page.inner_text(".ss-saved")
    assert "ss-unsaved" in (page.get_attribute(".ss-saved", "class") or "")

    with page.expect_request(lambda request: '"old"' in (request.post_data or "")):
        name_reviewer(page, "cam")  # the refused is tried again
    wait_for(page, "seen.waiting === 1")


@pytest.mark.slow
def test_a_name_that_cannot_be_shown_is_not_taken(page: Page) -> None:
    name_reviewer(page, "dee")
    for name in ("zero\u200bwidth", "tab\tbed", "🙂" * 41):
        page.evaluate("document.querySelector('.ss-who').maxLength = 200")  # the server counts letters, the box halves
        name_reviewer(page, name)
        assert ("is not valid" in inspect(page)["said"]) == (name != "🙂" * 41)
        assert page.input_value(".ss-who") == (name if name == "🙂" * 41 else "dee")
        assert page.evaluate("localStorage['stepscope:reviewer']") == page.input_value(".ss-who")


def test_the_name_and_blindness_follow_the_reviews_tab(page: Page) -> None:
    name_reviewer(page, "dee")
    tell = "([name, detail]) => document.dispatchEvent(new CustomEvent('stepscope:' + name, {detail}))"
    page.evaluate(tell, ["reviewer", "fay"])
    page.evaluate(tell, ["blind", "yes"])
    assert page.input_value(".ss-who") == "fay"
    assert page.is_checked(".ss-blind")
    page.keyboard.press("w")
    seen = press(page, "1")
    assert "fay" in {opinion["reviewer"] for said in seen["opinions"].values() for opinion in said}


@pytest.mark.slow
def test_a_damaged_entry_of_the_outbox_does_not_count(page: Page) -> None:
    page.evaluate("localStorage.setItem('stepscope:outbox:0-broken', '{')")
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    name_reviewer(page, "flo")
    page.keyboard.press("w")
    press(page, "1")
    assert page.inner_text(".ss-saved").startswith("saved ")
    assert page.evaluate("localStorage.getItem('stepscope:outbox:0-broken')") == "{"
    del asked[:]
    page.wait_for_timeout(400)
    assert asked == []


def test_what_is_typed_stays_with_its_event(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "gus")
    event = go_to(page, "reference", "Now the roof")
    page.keyboard.press("k")
    assert not inspect(page)["isPaused"]
    page.keyboard.press("m")
    assert inspect(page)["isPaused"]
    page.keyboard.type("over")
    seek(page, 8.6)
    assert inspect(page)["event"]["pair"]["key"] == event["key"]
    page.keyboard.type("hangs")
    page.keyboard.press("Enter")
    wait_for(page, "seen.event.time === 8.5")  # and now it follows
    wait_until_saved(page)
    assert notes(store, "gus") == {event["text"]: "overhangs"}

    page.keyboard.press("m")
    seek(page, 6.1)
    page.keyboard.press("Escape")  # nothing was typed
    careful = wait_for(page, "seen.event.time === 6")["event"]

    page.keyboard.press("m")
    page.keyboard.type("half a wo")
    other = next(turn for turn in inspect(page)["layer"] if turn["text"] == "S2->start")
    page.mouse.move(*turn_at(page, other["key"]))
    page.mouse.down()
    wait_for(page, f"seen.event.key === {other['key']!r}")
    page.mouse.up()
    wait_until_saved(page)
    assert notes(store, "gus") == {event["text"]: "overhangs", careful["text"]: "half a wo"}


def test_a_note_waits_for_the_name(page: Page, store: ReviewStore) -> None:
    event = go_to(page, "reference", "Now the roof")
    page.keyboard.press("m")
    page.keyboard.type("dark")
    page.keyboard.press("Enter")
    assert "Type your name" in inspect(page)["said"]
    page.keyboard.type("dna")  # d deletes, n goes on, a adds: commands where this is no name
    assert page.input_value(".ss-who") == "dna"
    assert page.input_value(".ss-note") == "dark"
    assert "1 not saved yet" in page.inner_text(".ss-saved")
    page.keyboard.press("Enter")
    wait_until_saved(page)
    assert notes(store, "dna") == {event["text"]: "dark"}
    page.keyboard.press("w")
    wait_for(page, f"seen.event.key !== {event['key']!r}")
    assert page.input_value(".ss-note") == ""


def test_a_verdict_waits_for_the_name_and_is_saved_with_it(page: Page, store: ReviewStore) -> None:
    event = go_to(page, "reference", "Careful!")
    page.keyboard.press("1")
    assert inspect(page)["said"] == "Not saved yet. Type your name and press Enter."
    page.keyboard.press("Escape")
    assert inspect(page)["said"] == "Not saved: there is no reviewer's name."
    page.keyboard.press("1")
    page.keyboard.type("vera")
    page.keyboard.press("Enter")
    assert wait_until_saved(page)["said"].startswith("“correct”: reference turn “Careful! ” at 0:06.0.")
    given = [action for action in store.read() if action.reviewer == "vera"]
    assert [(action.verdict, action.event and action.event.key) for action in given] == [("correct", event["key"])]


def test_without_a_run_events_follow_the_playhead_and_an_addition_lands_there(page: Page) -> None:
    name_reviewer(page, "hal")
    page.click("#alone")
    wait_for(page, "seen.rows.every((row) => row.kind !== 'judged') || seen.event === null")
    seek(page, 4.2)
    wait_for(page, "seen.event?.time === 4")
    page.click("[data-tab=rows]")  # a hidden transcript follows once it is shown
    page.wait_for_selector(".ss-row.ss-current")
    seek(page, 6.1)
    wait_for(page, "seen.event?.text.startsWith('Careful!')")
    seek(page, 2.8)
    page.keyboard.press("a")
    page.keyboard.type("Hold it.")
    page.keyboard.press("Enter")
    seen = wait_until_saved(page)
    assert [turn["time"] for turn in seen["layer"] if turn["text"] == "Hold it."] == [2.5]
    press(page, "z")


@pytest.mark.slow
def test_a_click_on_a_turn_moves_nothing(page: Page) -> None:
    name_reviewer(page, "ida")
    event = go_to(page, "reference", OFF_GRID.text)
    x, y = turn_at(page, event["key"])
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 2, y)
    page.mouse.up()
    assert inspect(page)["waiting"] == 0
    page.keyboard.press("1")  # what is sent after it tells that it was not sent
    seen = wait_until_saved(page)
    assert [turn["time"] for turn in seen["layer"] if turn["key"] == event["key"]] == [OFF_GRID.time_s]


@pytest.mark.slow
def test_without_a_video_there_is_nothing_to_review(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "jan")
    event = go_to(page, "reference", "Now the roof")
    page.keyboard.press("m")
    page.keyboard.type("typed")
    page.evaluate("document.querySelector('#none').click()")  # the focus stays where it is
    seen = wait_for(page, "seen.video === null")
    assert seen["event"] is None
    assert not page.is_visible(".ss-note")
    assert page.is_visible(".ss-who")
    assert (seen["said"], page.text_content(".ss-clock")) == ("", "0:00.0")
    page.evaluate("document.querySelector('.ss-note').value = 'late'")
    page.evaluate("document.querySelector('.ss-note').dispatchEvent(new Event('change'))")
    wait_until_saved(page)
    assert notes(store, "jan") == {event["text"]: "typed"}


@pytest.mark.slow
def test_a_correction_judges_again_where_the_corrected_reference_counts(page: Page) -> None:
    name_reviewer(page, "kim")
    go_to(page, "reference", "S2->start")
    page.check(".ss-against")
    page.wait_for_function("document.querySelector('#let_go textarea').value === 'corrected True;'")
    page.keyboard.press("Escape")
    press(page, "b")
    page.wait_for_function("document.querySelector('#let_go textarea').value === 'corrected True;corrected True;'")
    press(page, "1")  # is no correction
    page.wait_for_timeout(300)
    assert page.input_value("#let_go textarea") == "corrected True;corrected True;"


@pytest.mark.slow
def test_a_reference_that_is_not_read_yet_is_not_said_to_be_missing(page: Page) -> None:
    name_reviewer(page, "ada")
    page.route("**/component_server/**", lambda route: None)
    page.reload()
    page.wait_for_selector(".ss-row")
    page.locator(".ss-canvas").focus()
    page.keyboard.press("w")
    page.keyboard.press("d")
    assert inspect(page)["said"] == "The reviews of this video are still being read: press again in a moment."


@pytest.mark.slow
def test_an_answer_that_never_comes_is_asked_for_again(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "mia")
    page.route("**/component_server/**", lambda route: None)  # nor is it refused
    page.keyboard.press("w")
    page.keyboard.press("1")
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved')")
    page.unroute("**/component_server/**")
    assert wait_until_saved(page)["waiting"] == 0
    judged = [opinion for found in read_review(store).events for opinion in found.opinions if opinion.reviewer == "mia"]
    assert judged


@pytest.mark.slow
def test_a_player_that_is_gone_does_nothing_more(page: Page) -> None:
    name_reviewer(page, "lea")
    page.route("**/component_server/**", lambda route: route.abort())
    page.keyboard.press("w")
    page.keyboard.press("1")
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved')")
    page.evaluate("""new Promise((done) => {
        const canvas = document.querySelector('.ss-canvas'), read = window.getComputedStyle;
        document.querySelector('#player').remove();
        window.getComputedStyle = (of, ...more) => { window.looked ||= of === canvas; return read(of, ...more); };
        requestAnimationFrame(() => requestAnimationFrame(done));
    })""")
    asked = list[str]()
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("document.body.classList.toggle('dark')")
    page.wait_for_timeout(3500)  # longer than until the next attempt
    assert asked == []
    assert page.evaluate("window.looked") is None
