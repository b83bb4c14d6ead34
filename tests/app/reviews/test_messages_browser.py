"""Opinions and messages about events, imported as ES modules in the browser without a server or the page."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.web.static import test_script_data_browser as scripts
from tests.app.web.static.test_script_data_browser import packed_run
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import MAKE_PLAYER, address, run

pytestmark = NEEDS_CHROMIUM
page = scripts.page
NAME = {"role": "assistant", "time_s": 6.0, "text": "Careful!"}
EVENT = {"key": "r", "kind": "reference", "role": "assistant", "time": 6.0, "text": "Careful!"}
SAID = {"key": "m", "kind": "generated", "role": "assistant", "time": 5.5, "text": "Look out!"}
CORRECTED = {"key": "r", "name": NAME, "text": "Mind your hand!", "time": 6.5}


def messages(page: Page, *, turns: list[Any], deleted: list[Any], is_copied: bool = False) -> list[str]:
    """Return the messages for deleting, bringing back and undoing on the reference of a joined pair."""
    body = """
        const player = makePlayer(), { review } = player, { sideByKey } = await import(arg.opinions);
        player.data = { is_copied: arg.isCopied };
        const unit = { ...arg.said, pair: arg.event };
        review.state = { layer: { turns: arg.turns, deleted: arg.deleted, conflicts: [] } };
        review.turns = new Map(arg.turns.map((turn) => [turn.key, turn]));
        review.units = new Map([["m", unit], ["r", unit]]);
        const say = (action) => describeAction(player, action, sideByKey(player, "r"), "your correction of");
        const correct = (kind) => say({ correction: { kind, turn: arg.name } });
        return [correct("delete"), correct("add"), say({ kind: "undo" })];"""
    modules = {name: address(name) for name in ("opinions",)}
    events = {"event": EVENT, "said": SAID, "name": NAME, "turns": turns, "deleted": deleted}
    argument = {**modules, **events, "isCopied": is_copied}
    written: list[str] = run(page, "event_words", "describeAction", MAKE_PLAYER + body, argument)
    return written


@pytest.mark.parametrize(
    ("turns", "deleted", "name"),
    [
        ([{**CORRECTED, "text": "Careful!", "time": 6.0}], [], "reference turn “Careful!” at 0:06.0"),
        ([CORRECTED], [], "reference turn “Mind your hand!” at 0:06.5"),
        ([], [CORRECTED], "reference turn “Mind your hand!” at 0:06.5"),
        ([], [], "reference turn “Careful!” at 0:06.0"),
        ([{**CORRECTED, "text": "x" * 99}], [], f"reference turn “{'x' * 60}…” at 0:06.5"),
    ],
    ids=["as in the source", "corrected", "deleted", "not read yet", "long"],
)
def test_deleting_and_undoing_name_one_event_by_one_text(
    page: Page, turns: list[Any], deleted: list[Any], name: str
) -> None:
    assert messages(page, turns=turns, deleted=deleted) == [
        f"Deleted the {name}. Z brings it back.",
        f"Added the {name}. Z takes it back.",
        f"Taken back: your correction of {name}.",
    ]


def test_a_turn_of_a_live_recording_is_called_a_copy(page: Page) -> None:
    assert messages(page, turns=[CORRECTED], deleted=[], is_copied=True)[0].startswith("Deleted the copy turn")


@pytest.mark.parametrize("kind", ["verdict", "tags", "note", "unknown"])
def test_an_action_of_this_browser_without_its_value_is_no_opinion(page: Page, kind: str) -> None:
    """The outbox is text in the browser's storage: a version before or another program may have written it."""
    events = [
        {"key": "m", "kind": "generated", "role": "assistant", "time": 2.0, "text": "Go", "turn": 0, "reference": None},
        {"key": "r", "kind": "reference", "role": "assistant", "time": 2.0, "text": "Go", "turn": None, "reference": 0},
    ]
    turn = {"role": "assistant", "frame": 4, "text": "Go", "link": 0, "verdict": "matched"}
    reference = {"role": "assistant", "frame": 4, "time": 2.0, "text": "Go", "is_missed": False}
    packed = packed_run(6, events=events, turns=[turn], references=[reference], video_id="v")
    action = {"action_id": "a", "video_id": "v", "reviewer": "ann", "kind": kind, "event": events[0]}
    body = """
        const player = makePlayer({ can_review: true }), { unpack } = await import(arg.data);
        localStorage.setItem("stepscope:outbox:0", JSON.stringify(arg.action));
        Object.assign(player, { transcript: { mark: () => {} }, data: unpack(arg.packed) });
        player.review.name = "ann";
        try {
            mergeOpinions(player);
            const { verdict, tags, note } = opinion(player, "m");
            return [player.review.events.map(({ key, pair }) => [key, pair?.key ?? null]), verdict, tags, note];
        } finally { localStorage.clear(); }"""
    argument = {"data": address("data"), "action": action, "packed": packed}
    assert run(page, "opinions", "mergeOpinions, opinion", MAKE_PLAYER + body, argument) == [[["m", "r"]], None, [], ""]
