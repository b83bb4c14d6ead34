"""Reviewing in a browser: verdicts, pairs, notes, corrections, and what happens where the server does not answer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.app.review_store.actions import Action, Event
from stepscope.app.review_store.store import ReviewStore, read_review
from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Correction, TurnName, Verdict, name_turns
from tests.support.pages.axe import find_violations
from tests.support.pages.browser import (
    NEEDS_CHROMIUM,
    hold_requests,
    inspect,
    release_requests,
    wait_until_drawn,
)
from tests.support.reviews.played import HOSTILE, make_run
from tests.support.reviews.reviewed import opinion
from tests.support.reviews.reviewing import go_to, make_folder, name_reviewer, press, wait_until_saved

pytestmark = NEEDS_CHROMIUM
SAID = Event(video_id="a", kind="generated", role="assistant", time_s=5.5, text="Now the roof. ")
WANTED = Event(video_id="a", kind="reference", role="assistant", time_s=4.0, text="Now the roof. ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("review"))


def test_a_whole_review_by_keyboard_alone(page: Page, store: ReviewStore) -> None:
    page.keyboard.press("1")
    assert "no event here" in inspect(page)["said"]
    page.keyboard.press("w")
    page.keyboard.press("1")
    assert "Type your name" in inspect(page)["said"]
    judged = {inspect(page)["event"]["key"]: 0}  # the number of each event's verdict, from 0
    page.keyboard.type("ann")
    page.keyboard.press("Enter")  # the first verdict waited for the name
    wait_until_saved(page)
    pack = json.loads((page_folder(store) / "a.json").read_text(encoding="utf-8"))
    pairs = [turn for turn in pack["turns"] if turn["verdict"] == "matched"]
    num_events = len(pack["events"]) - len(pairs)  # a pair is judged once
    assert len(pairs) == 4
    verdicts = page.evaluate("[...document.querySelectorAll('.ss-verdict')].map((button) => button.dataset.verdict)")
    for number in range(1, num_events):
        enabled = page.evaluate("[...document.querySelectorAll('.ss-verdict')].map((button) => !button.disabled)")
        assert enabled.count(False) <= 1  # the verdict that this kind of event cannot have
        choice = number % 7 if enabled[number % 7] else (number + 1) % 7
        judged[inspect(page)["event"]["key"]] = choice
        press(page, str(choice + 1))
    seen = list(judged)
    assert len(seen) == num_events  # the next unreviewed follows, until there is none
    assert "Every event has your verdict" in inspect(page)["said"]
    assert page.text_content(".ss-done") == f"{num_events} of {num_events} judged"
    review = read_review(store)
    given = {found.event.key: found.opinions[0] for found in review.events}
    assert len(given) == len(pack["events"])  # and counts for both of its events
    assert {key: given[key].verdict for key in seen} == {key: verdicts[choice] for key, choice in judged.items()}
    for key, said in given.items():
        assert key in seen or said.verdict == given[said.paired_with["verdict"]].verdict
    kept = store.read()[-1]
    assert (kept.reviewer, kept.moment.speak_threshold) == ("ann", 0.5)
    assert kept.moment.run_digest == json.loads((page_folder(store) / "a.json").read_text(encoding="utf-8"))["run"]
    assert kept.moment.playhead_s is not None

    last = seen[-1]
    press(page, "z")
    assert inspect(page)["event"]["key"] == last
    assert {found.event.key for found in read_review(store).events} & set(seen) == set(seen[:-1])
    press(page, "x")
    assert {found.event.key for found in read_review(store).events} == set(given)

    key = go_to(page, "generated", "!?%&/")["key"]
    page.keyboard.press("g")
    page.keyboard.type("dark, odd")
    page.keyboard.press("Enter")
    page.keyboard.press("m")
    page.keyboard.type(HOSTILE[:80])
    page.reload()  # with the text in its box
    page.wait_for_function("document.querySelector('.ss')?.inspect?.().layer.length")
    wait_until_saved(page)
    (said,) = next(found.opinions for found in read_review(store).events if found.event.key == key)
    assert (said.tags, said.note) == (("dark", "odd"), HOSTILE[:80])

    words = {"tags": {"odd": HOSTILE[:80], "dim": ""}, "causes": {"decoy": ""}}
    (page_folder(store) / "reviews" / "split.vocabulary.json").write_text(json.dumps(words), encoding="utf-8")
    page.reload()
    name_reviewer(page, "ann")
    go_to(page, "generated", "!?%&/")
    assert page.locator(".ss-word").all_inner_texts() == ["1\nodd", "2\ndim", "3\ncause: decoy"]
    assert find_violations(page, ".ss") == []
    press(page, "g", "1", "2", "3", "Escape", "q")  # Escape returns to the keys of the player
    (said,) = next(found.opinions for found in read_review(store).events if found.event.key == key)
    assert said.tags == ("dark", "dim", "cause:decoy")
    assert inspect(page)["event"]["key"] != key
    assert page.evaluate("window.hacked") is None


def page_folder(store: ReviewStore) -> Path:
    assert store.engine.url.database is not None
    return Path(store.engine.url.database).parent.parent


@pytest.mark.slow
def test_reviewers_stand_side_by_side_unless_blind(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "dan")
    event = go_to(page, "generated", "Now the wheel")
    verdict: Verdict = "unclear"
    about = Event(video_id="a", kind="generated", role="assistant", time_s=event["time"], text=event["text"], number=0)
    for name in ("<b>eve</b>", "fay"):
        store.append(Action(kind="verdict", reviewer=name, video_id="a", event=about, verdict=verdict))
    press(page, "2", "q")
    go_to(page, "generated", "Now the wheel")
    others = page.locator(".ss-other").all_text_contents()
    assert [text for text in others if not text.startswith("ann")] == ["<b>eve</b> unclear", "fay unclear"]
    page.check(".ss-blind")
    page.wait_for_function("document.querySelectorAll('.ss-other').length === 0")
    assert opinion(read_review(store), about, "dan").verdict == "redundant"


def test_one_verdict_on_a_pair_counts_for_both_and_a_split_pair_has_one_for_each_side(
    page: Page, store: ReviewStore
) -> None:
    def judged() -> list[Verdict | None]:
        return [opinion(read_review(store), event, "pia").verdict for event in (SAID, WANTED)]

    name_reviewer(page, "pia")
    assert page.inner_text(".ss-done") == "0 of 11 judged"  # 15 events, of which 8 are 4 pairs
    go_to(page, "generated", "Now the roof")
    assert "and its reference" in page.inner_text(".ss-event")
    press(page, "4")
    assert judged() == ["early or late"] * 2
    assert page.inner_text(".ss-done") == "1 of 11 judged"
    press(page, "z")
    assert judged() == [None, None]
    press(page, "x")
    go_to(page, "generated", "Now the roof")
    press(page, "s")
    assert "without its reference" in page.inner_text(".ss-event")
    press(page, "2")
    assert judged() == ["redundant", "early or late"]


@pytest.mark.slow
def test_what_is_typed_stays_with_its_event(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "gus")
    event = go_to(page, "reference", "Now the roof")
    page.keyboard.press("m")
    page.keyboard.type("over")
    seek(page, 8.6)
    assert inspect(page)["event"]["pair"]["key"] == event["key"]
    page.keyboard.type("hangs")
    page.keyboard.press("Enter")
    wait_for(page, "seen.event.time === 8.5")  # and now it follows
    wait_until_saved(page)
    assert notes(store, "gus") == {event["text"]: "overhangs"}


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
    wait_until_drawn(page)


@pytest.mark.slow
def test_what_the_server_refuses_of_one_name_holds_up_no_other(page: Page) -> None:
    kept = {"action_id": "old", "kind": "verdict", "video_id": "a", "reviewer": "a\ab"}
    page.evaluate("([key, text]) => localStorage.setItem(key, text)", ["stepscope:outbox:0-old", json.dumps(kept)])
    name_reviewer(page, "cal")
    page.keyboard.press("w")
    page.keyboard.press("1")
    seen = wait_for(page, "seen.saved && seen.waiting === 1")
    reviewers = {one["reviewer"] for said in seen["opinions"].values() for one in said}
    assert ("cal" in reviewers, "a\ab" in reviewers) == (True, False)
    page.wait_for_function("document.querySelector('.ss-saved').textContent.startsWith('1 not saved: ')")
    assert "printable characters" in page.inner_text(".ss-saved")


@pytest.mark.slow
def test_what_is_not_saved_outlives_a_reload_and_is_sent_again(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "gil")
    page.keyboard.press("w")
    judged = [inspect(page)["event"]["key"]]
    press(page, "1")
    hold_requests(page, refuse=True)
    for key in ("2", "3"):
        judged.append(inspect(page)["event"]["key"])
        page.keyboard.press(key)
    page.wait_for_function("document.querySelector('.ss-saved').textContent.includes('2 not saved')")
    assert read_verdicts(store, "gil") == [(judged[0], "correct")]
    page.reload()
    page.wait_for_function("document.querySelector('.ss')?.inspect?.().layer.length")
    wait_until_saved(page)
    assert read_verdicts(store, "gil") == list(zip(judged, ("correct", "redundant", "missed"), strict=True))


def read_verdicts(store: ReviewStore, reviewer: str) -> list[tuple[str, Verdict | None]]:
    return [
        (action.event.key, action.verdict) for action in store.read() if action.event and action.reviewer == reviewer
    ]


@pytest.mark.slow
def test_corrections_by_keyboard_and_by_hand_are_a_layer(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "bea")
    sample = make_run(page_folder(store)).clip.sample
    assert sample is not None

    def corrected() -> list[tuple[float, str]]:
        found = [c for c in read_review(store).corrections.get("a", ()) if c.reviewer == "bea"]
        return [(turn.time_s, turn.text) for turn in apply_corrections(sample, found).sample.turns]

    (turn,) = [name for name in name_turns(sample.turns) if name.text == "Careful! "]
    proposal = Correction(reviewer="agent:x", kind="text", turn=turn, text="<b>Stop!</b>")
    store.append(Action(kind="correction", reviewer="agent:x", video_id="a", correction=proposal))
    go_to(page, "reference", "S1->complete")
    seen = press(page, "b", "b")
    assert (5.0, "S1->complete") in corrected()  # two frames of half a second after 4.0
    assert seen["time"] == pytest.approx(5.0, abs=0.01)
    press(page, "v")
    assert (4.5, "S1->complete") in corrected()
    page.keyboard.press("e")
    page.keyboard.type("S2->complete")
    page.keyboard.press("Enter")
    wait_until_saved(page)
    assert (4.5, "S2->complete") in corrected()
    page.keyboard.press("e")
    page.keyboard.type("S7->complete")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.ss-said').textContent.startsWith('Not kept')")
    assert "must be S1->start or S1->complete, of a step among S1, S2;" in inspect(page)["said"]
    refused = "document.activeElement.className === 'ss-{}' && document.activeElement.value === 'S7->complete'"
    page.wait_for_function(refused.format("edited"))
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.keyboard.type("S7->complete")
    page.select_option(".ss-addedRole", "update")
    page.press(".ss-addedText", "Enter")
    page.wait_for_function(refused.format("addedText"))
    page.fill(".ss-addedText", "")
    page.select_option(".ss-addedRole", "assistant")
    page.press(".ss-addedText", "Escape")
    page.focus(".ss-canvas")

    go_to(page, "reference", "Careful!")
    press(page, "d")
    assert "Careful! " not in [text for _, text in corrected()]
    assert [turn["text"] for turn in inspect(page)["layer"] if turn["look"] == "deleted"] == ["Careful! "]
    page.click(".ss-undo")
    page.wait_for_function("document.querySelector('.ss').inspect().layer.every(({ look }) => look !== 'deleted')")
    wait_until_saved(page)
    hold_requests(page)
    for _ in range(2):  # the server says whether a turn is deleted
        page.keyboard.press("d")
    assert inspect(page)["said"] == "Not saved yet: D works again once it is."
    assert inspect(page)["waiting"] == 1
    release_requests(page)
    wait_until_saved(page)
    assert "Careful! " not in [text for _, text in corrected()]
    press(page, "d")
    assert (6.0, "Careful! ") in corrected()
    assert inspect(page)["said"] == "Brought back the reference turn “Careful! ” at 0:06.0. Z takes it back."

    accept = page.get_by_role("button", name="accept")
    assert "agent:x proposes: text “<b>Stop!</b>”" in page.locator(".ss-other").all_inner_texts()[-1]
    assert not [one for one in read_review(store).corrections["a"] if one.reviewer == "agent:x"]
    for name in ("eva", "bea"):
        page.fill(".ss-who", "")
        page.keyboard.type(f"{name}\n" if name == "eva" else name)
    accept.click()  # it takes the focus from the name, so that the panel is drawn again
    accept.wait_for(state="hidden")
    assert (6.0, "<b>Stop!</b>") in corrected()

    page.locator(".ss-undo").wait_for(state="hidden")
    page.keyboard.press("End")
    page.keyboard.press("a")
    assert inspect(page)["said"] == "Type the text: Enter adds it at 0:09.5, the frame at the playhead."
    page.keyboard.type("Done.")
    page.keyboard.press("Enter")
    wait_until_saved(page)
    assert (9.5, "Done.") in corrected()
    assert inspect(page)["event"]["text"] == "Done."
    assert press(page, "z")["said"] == "Taken back: your addition of reference turn “Done.” at 0:09.5."
    press(page, "x")

    box = page.locator(".ss-canvas").bounding_box()
    assert box is not None
    row = next(row for row in inspect(page)["rows"] if row["kind"] == "corrected")
    second = (box["width"] - 150 - 14) / 10  # pixels, between the gutter of the labels and the margin
    y = box["y"] + row["top"] + 7
    page.mouse.move(box["x"] + 150 + 9.5 * second, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 150 + 7.1 * second, y, steps=6)
    page.mouse.up()
    wait_until_saved(page)
    assert (7.0, "Done.") in corrected()  # at the nearest frame

    page.check(".ss-against")
    page.wait_for_function("document.querySelector('#let_go textarea').value.includes('corrected')")


@pytest.mark.slow
def test_a_late_reply_leaves_the_failure_that_was_selected_since(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "ida")
    go_to(page, "reference", "Now the roof")
    hold_requests(page)
    page.keyboard.press("b")
    page.wait_for_function("document.querySelector('.ss').inspect().waiting === 1")
    page.keyboard.press("Home")
    page.keyboard.press("n")
    before = inspect(page)
    assert "· ◇ wrong update" in before["said"]
    release_requests(page)
    after = wait_until_saved(page)
    assert all(after[name] == before[name] for name in ("event", "time", "said"))
    press(page, "2")
    given = Event(video_id="a", kind="update", role="update", time_s=3.5, text="S2->begin")
    assert opinion(read_review(store), given, "ida").verdict == "redundant"


def test_a_correction_that_another_reviewer_contradicts_is_reported_without_a_key(
    page: Page, store: ReviewStore
) -> None:
    name_reviewer(page, "uma")
    text = go_to(page, "reference", "What is next?")["text"]
    assert press(page, "b")["said"].startswith("Corrected the user turn")
    turn = TurnName(role="user", time_s=3.0, text=text)
    moved = Correction(reviewer="vic", kind="time", turn=turn, time_s=2.0)
    store.append(Action(kind="correction", reviewer="vic", video_id="a", correction=moved))
    wait_for(
        page, "seen.said.startsWith('Your correction of the user turn “What is next? ” at 0:03.0 does not apply.')"
    )
    wish = "Reviewers disagree about its time (uma: 3.5, vic: 2.0): the source is kept."
    assert inspect(page)["said"].endswith(wish)
    assert page.inner_text(".ss-troubles") == wish
    (torn,) = [turn for turn in inspect(page)["layer"] if turn["isTorn"]]
    assert (torn["text"], torn["time"]) == (text, 3.0)
    press(page, "z")
    taken_back = Action(kind="correction", reviewer="vic", video_id="a", correction=replace(moved, time_s=3.0))
    store.append(taken_back)
