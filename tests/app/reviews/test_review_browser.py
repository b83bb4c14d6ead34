import json
import signal
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from stepscope.app.reviews.actions import Action, Event
from stepscope.app.reviews.store import ReviewStore, open_store, read_review
from stepscope.eval.annotations.corrected_samples import apply_corrections
from stepscope.eval.annotations.corrections import Verdict
from tests.app.test_accessibility_browser import RULES
from tests.support.pages.browser import NEEDS_CHROMIUM, free_port, inspect, start_player, wait_until_drawn
from tests.support.reviews.played import HOSTILE, make_run
from tests.support.reviews.reviewing import go_to, make_folder, name_reviewer, open_player, press, wait_until_saved

pytestmark = NEEDS_CHROMIUM


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
    assert Axe().run(page, context=".ss", options=RULES).response["violations"] == []
    press(page, "g", "1", "2", "3", "Escape", "q")  # Escape returns to the keys of the player
    (said,) = next(found.opinions for found in read_review(store).events if found.event.key == key)
    assert said.tags == ("dark", "dim", "cause:decoy")
    assert inspect(page)["event"]["key"] != key
    assert page.evaluate("window.hacked") is None


def page_folder(store: ReviewStore) -> Path:
    assert store.engine.url.database is not None
    return Path(store.engine.url.database).parent.parent


@pytest.mark.slow
def test_corrections_by_keyboard_and_by_hand_are_a_layer(page: Page, store: ReviewStore) -> None:
    name_reviewer(page, "bea")
    sample = make_run(page_folder(store)).clip.sample
    assert sample is not None

    def corrected() -> list[tuple[float, str]]:
        found = [c for c in read_review(store).corrections.get("a", ()) if c.reviewer == "bea"]
        return [(turn.time_s, turn.text) for turn in apply_corrections(sample, found).sample.turns]

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
    assert "among S1, S2" in inspect(page)["said"]

    go_to(page, "reference", "Careful!")
    press(page, "d")
    assert "Careful! " not in [text for _, text in corrected()]
    assert [turn["text"] for turn in inspect(page)["layer"] if turn["look"] == "deleted"] == ["Careful! "]
    press(page, "d")
    assert (6.0, "Careful! ") in corrected()

    page.keyboard.press("End")
    page.keyboard.press("a")
    page.keyboard.type("Done.")
    page.keyboard.press("Enter")
    wait_until_saved(page)
    assert (9.5, "Done.") in corrected()
    assert inspect(page)["event"]["text"] == "Done."

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
def test_only_what_is_chosen_is_stepped_through(page: Page) -> None:
    name_reviewer(page, "hal")
    page.keyboard.press("Home")
    page.select_option(".ss-scope", "failures")
    wait_until_drawn(page)
    assert inspect(page)["event"] is None  # nothing has failed yet
    page.keyboard.press("1")
    assert "no event here" in inspect(page)["said"]
    seen = list[tuple[str, str]]()
    for _ in range(60):
        page.keyboard.press("w")
        wait_until_drawn(page)
        event = inspect(page)["event"]
        if (event["kind"], event["text"]) in seen:
            break
        seen.append((event["kind"], event["text"]))
    assert ("reference", "S1->complete") not in seen  # it was met
    assert {kind for kind, _ in seen} == {"generated", "update", "reference", "state"}
    assert "No event after" in inspect(page)["said"]


@pytest.mark.slow
def test_reviewers_stand_side_by_side_unless_blind_and_see_later_verdicts_of_each_other(
    page: Page, store: ReviewStore
) -> None:
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
    said = next(found.opinions for found in read_review(store).events if found.event == about)
    assert {"<b>eve</b>": "unclear", "fay": "unclear", "dan": "redundant"}.items() <= {
        opinion.reviewer: opinion.verdict for opinion in said
    }.items()
    page.uncheck(".ss-blind")
    name_reviewer(page, "gil")
    event = go_to(page, "generated", "Now the wheel")
    store.append(Action(kind="verdict", reviewer="hal", video_id="a", event=about, verdict="unclear"))
    other = page.locator(".ss-other", has_text="hal unclear")
    for _ in range(100):  # the server is asked at most every two seconds
        for key in ("w", "q"):
            page.keyboard.press(key)
            wait_until_drawn(page)
        if other.count():
            break
    assert inspect(page)["event"]["key"] == event["key"]
    expect(other).to_be_visible()


@pytest.mark.slow
def test_what_was_shown_as_saved_outlives_a_kill_and_the_rest_is_sent_again(browser: Browser, tmp_path: Path) -> None:
    folder, port = make_folder(tmp_path), free_port()
    laptop = browser.new_context(viewport={"width": 1440, "height": 900})
    server = start_player(folder, port=port)
    try:
        page = open_player(laptop, f"http://127.0.0.1:{port}", reviewer="gil")
        page.keyboard.press("w")
        judged = [inspect(page)["event"]["key"]]
        press(page, "1")
        server.end(signal.SIGKILL)
        for key in ("2", "3"):
            judged.append(inspect(page)["event"]["key"])
            page.keyboard.press(key)
        page.wait_for_function("document.querySelector('.ss-saved').textContent.includes('2 not saved')")
        assert read_verdicts(folder) == [(judged[0], "correct")]
        page.close()
        server = start_player(folder, port=port)
        page = open_player(laptop, f"http://127.0.0.1:{port}")
        wait_until_saved(page)
        assert read_verdicts(folder) == list(zip(judged, ("correct", "redundant", "missed"), strict=True))
        assert set(judged) <= set(inspect(page)["opinions"]), "and the other sides of the pairs that were judged"
    finally:
        laptop.close()
        server.end(signal.SIGKILL)


def read_verdicts(folder: Path) -> list[tuple[str, Verdict | None]]:
    with open_store(folder / "reviews" / "reviews.sqlite") as store:
        return [(action.event.key, action.verdict) for action in store.read() if action.event]
