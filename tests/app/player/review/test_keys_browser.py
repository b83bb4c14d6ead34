"""Keys while reviewing: input methods, other layouts, and the text field of a failure whose turns are paired."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.engine.dialogue import fill_legality, initial_state
from stepscope.engine.video.writer import write_h264
from tests.conftest import moving_square
from tests.support.pages.browser import NEEDS_CHROMIUM, inspect, wait_until_drawn
from tests.support.reviews.played import STEPS, judge, make_run, write_reviewed
from tests.support.reviews.reviewing import go_to, name_reviewer, press, wait_until_saved

pytestmark = NEEDS_CHROMIUM
END_OF_COMPOSITION = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 229, "nativeVirtualKeyCode": 229}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run whose last message and last update are paired with a reference that they do not match."""
    folder = tmp_path_factory.mktemp("keys")
    write_h264(folder / "a.mp4", moving_square(100, shade=90), fps=10)
    run, outputs = make_run(folder), list(make_run(folder).outputs)
    outputs[12] = replace(outputs[12], response="A bun is no wheel.")
    outputs[17] = replace(outputs[17], updates=("S2->complete",), legality=None)
    run = replace(run, outputs=fill_legality(outputs, initial_state(STEPS)))
    write_reviewed(folder / "a.json", run, judge(run))
    return folder


def compose(page: Page, text: str) -> None:
    """Type a text with an input method, and press the Enter that ends its composition."""
    devtools = page.context.new_cdp_session(page)
    for end in range(1, len(text) + 1):
        devtools.send("Input.imeSetComposition", {"text": text[:end], "selectionStart": end, "selectionEnd": end})
    devtools.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **END_OF_COMPOSITION})
    devtools.send("Input.dispatchKeyEvent", {"type": "keyUp", **END_OF_COMPOSITION, "windowsVirtualKeyCode": 13})
    wait_until_drawn(page)


def strike(page: Page, key: str, code: str, *, shift: bool = False) -> dict[str, Any]:
    """Press the key at the place ``code``, which the layout of the user's keyboard gives the character ``key``."""
    devtools = page.context.new_cdp_session(page)
    event = {"key": key, "code": code, "text": key, "modifiers": 8 if shift else 0}
    devtools.send("Input.dispatchKeyEvent", {"type": "keyDown", **event})
    devtools.send("Input.dispatchKeyEvent", {"type": "keyUp", **event})
    wait_until_drawn(page)
    return inspect(page)


OPEN_BOX: dict[str, Callable[[Page], object]] = {
    "addedText": lambda page: page.keyboard.press("a"),
    "edited": lambda page: page.keyboard.press("e"),
    "note": lambda page: page.keyboard.press("m"),
    "tags": lambda page: page.focus(".ss-tags"),
    "who": lambda page: page.focus(".ss-who"),
    "when": lambda page: page.focus(".ss-when"),
}


@pytest.mark.parametrize("box", OPEN_BOX)
def test_an_enter_that_ends_a_composition_submits_nothing_and_stays_in_its_box(page: Page, box: str) -> None:
    name_reviewer(page, "ken")
    go_to(page, "reference", "Careful!")
    OPEN_BOX[box](page)
    before = page.input_value(f".ss-{box}")
    page.fill(f".ss-{box}", "")
    compose(page, "ふね")
    assert page.evaluate("document.activeElement.className") == f"ss-{box}"
    assert page.input_value(f".ss-{box}") == "ふね"
    seen = inspect(page)
    assert seen["waiting"] == 0
    assert "ふね" not in [turn["text"] for turn in seen["layer"]]
    page.fill(f".ss-{box}", before)  # else the page may send it when the next test leaves the page


@pytest.mark.parametrize(
    ("key", "code", "is_as_wanted"),
    [
        ("т", "KeyN", lambda seen: seen["cursor"] == 0),  # Russian
        ("\u03bd", "KeyN", lambda seen: seen["cursor"] == 0),  # Greek
        ("ל", "KeyK", lambda seen: not seen["isPaused"]),  # Hebrew
        ("'", "KeyW", lambda seen: seen["time"] > 0),  # Hebrew has a sign there
        ("д", "KeyL", lambda seen: seen["time"] == pytest.approx(5, abs=0.05)),
        ("à", "Digit0", lambda seen: seen["view"] == {"start": 0, "end": 10}),  # French
        ("n", "KeyL", lambda seen: seen["cursor"] == 0),  # Dvorak has the letter, elsewhere
        ("ö", "Semicolon", lambda seen: seen["said"] == ""),  # German: another key has ";"
    ],
)
def test_letters_work_by_place_where_the_layout_has_none(
    page: Page, key: str, code: str, is_as_wanted: Callable[[dict[str, Any]], bool]
) -> None:
    page.focus(".ss-canvas")
    page.keyboard.press("+")
    assert is_as_wanted(strike(page, key, code))


def test_the_digits_of_a_french_keyboard_judge_without_shift(page: Page) -> None:
    name_reviewer(page, "léa")
    for number, key in enumerate("&é\"'(-è", start=1):
        event = go_to(page, "reference", "Careful!") if number == 3 else go_to(page, "generated", "Now the wheel")
        verdict = page.locator(".ss-verdict").nth(number - 1).get_attribute("data-verdict")
        strike(page, key, f"Digit{number}")
        (said,) = wait_until_saved(page)["opinions"][event["key"]]
        assert said["verdict"] == verdict


@pytest.mark.parametrize(
    ("kind", "text", "reference"),
    [("generated", "A bun", "Careful!"), ("update", "S2->complete", "S2->start")],
)
def test_e_edits_the_reference_of_a_failure_that_is_paired(page: Page, kind: str, text: str, reference: str) -> None:
    name_reviewer(page, "eli")
    assert "pair" not in go_to(page, kind, text)
    before = inspect(page)["layer"]
    page.keyboard.press("e")
    assert page.input_value(".ss-edited").strip() == reference
    page.keyboard.type("12 dvb, all done")
    assert page.input_value(".ss-edited") == "12 dvb, all done"
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    page.keyboard.type("S2->complete")
    page.keyboard.press("Enter")
    wait_until_saved(page)
    assert [turn["text"] for turn in inspect(page)["layer"]] == [
        "S2->complete" if turn["text"].strip() == reference else turn["text"] for turn in before
    ]


def test_what_is_typed_after_e_on_an_unpaired_failure_is_neither_kept_nor_obeyed(page: Page) -> None:
    name_reviewer(page, "ivo")
    before = inspect(page)
    event = go_to(page, "generated", "!?%&/")
    page.keyboard.press("e")
    assert "Only a turn of the reference" in inspect(page)["said"]
    page.keyboard.type("all mugs, done 1")
    seen = inspect(page)
    assert (seen["event"]["key"], seen["layer"], seen["waiting"]) == (event["key"], before["layer"], 0)
    assert page.evaluate("document.activeElement.matches('input, textarea')") is False


def test_n_skips_no_failure_beside_a_turn_that_was_moved(page: Page) -> None:
    name_reviewer(page, "noa")
    go_to(page, "update", "S2->complete")
    paired = inspect(page)["cursor"]
    seen = press(page, "b", "b")
    assert "it is at 0:09.5" in seen["said"], "after all other failures"
    assert (seen["cursor"], seen["event"]["text"]) == (paired, "S2->complete"), "the failure stays selected"
    page.keyboard.press("n")
    assert inspect(page)["cursor"] == paired + 1
    go_to(page, "reference", "What is next?")
    assert press(page, "b", "b")["time"] == pytest.approx(4, abs=0.01)
    page.keyboard.press("n")
    assert inspect(page)["said"].endswith("0:03.5"), "between its two times"
    go_to(page, "reference", "What is next?")
    assert (
        press(page, "v", "v")["said"]
        == "The user turn “What is next? ” at 0:03.0 has its time of the source again. Z takes it back."
    )
