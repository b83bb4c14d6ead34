"""The state of a player: its outbox and thresholds, in modules without server or page."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.web.static import test_script_data_browser as scripts
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import run

pytestmark = NEEDS_CHROMIUM
page = scripts.page


@pytest.mark.parametrize(("text", "time_s"), [("90", 90), ("1:30", 90), ("0:01:30.5", 90.5), ("", None), ("1:x", None)])
def test_a_typed_time_is_read(page: Page, text: str, time_s: float | None) -> None:
    body = "const time = parseTime(arg); return Number.isNaN(time) ? null : time;"
    assert run(page, "data", "parseTime", body, text) == time_s


def test_the_outbox_keeps_actions_in_order_until_they_are_removed(page: Page) -> None:
    body = """
        localStorage.clear();
        const outbox = new Outbox(), names = () => new Outbox().all().map(({ action_id }) => action_id);
        for (const action_id of ["b", "a", "c"]) outbox.put({ action_id, video_id: "v", reviewer: "Ada" });
        const before = names();
        outbox.remove("a");
        return [before, names(), new Outbox().all()[0].reviewer];"""
    assert run(page, "outbox", "Outbox", body) == [["b", "a", "c"], ["b", "c"], "Ada"]


def test_the_outbox_leaves_entries_alone_that_it_cannot_read(page: Page) -> None:
    body = """
        localStorage.clear();
        localStorage.setItem("stepscope:outbox:0-broken", "{");
        localStorage.setItem("stepscope:outbox:1-other", JSON.stringify({ action_id: 3 }));
        localStorage.setItem("other", "1");
        const outbox = new Outbox(), found = outbox.all();
        outbox.remove("x");
        return [found, Object.keys(localStorage).sort()];"""
    kept = ["other", "stepscope:outbox:0-broken", "stepscope:outbox:1-other"]
    assert run(page, "outbox", "Outbox", body) == [[], kept]


def test_the_outbox_works_without_storage(page: Page) -> None:
    body = """
        class Forbidden extends Outbox { get storage() { return null; } }
        const outbox = new Forbidden();
        outbox.put({ action_id: "a", video_id: "v", reviewer: "Ada" });
        const before = outbox.all().length;
        outbox.remove("a");
        return [before, outbox.all().length, new Forbidden().all().length];"""
    assert run(page, "outbox", "Outbox", body) == [1, 0, 0]


@pytest.mark.parametrize(
    ("actions", "done", "undone"),
    [
        ("a b", "ab", ""),
        ("a b undo:b undo:a redo:a", "a", "b"),
        ("a undo:a b", "b", "a"),
        ("a undo: redo:x undo:y", "a", ""),  # of actions that the server has
    ],
)
def test_waiting_actions_are_undone_and_redone_as_on_the_server(
    page: Page, actions: str, done: str, undone: str
) -> None:
    waiting = [
        {"action_id": f"{number}", "kind": word.partition(":")[0], "target": word.partition(":")[2] or None}
        if ":" in word
        else {"action_id": word, "kind": "verdict"}
        for number, word in enumerate(actions.split())
    ]
    body = "const { done, undone } = stacksOf(arg); return [done.join(''), undone.join('')];"
    assert run(page, "outbox", "stacksOf", body, waiting) == [done, undone]


PREPARE = """
    const given = new Thresholds({ speak: 0.5, update: 0.5 });
    const runAt = (speak, update, more) => ({ named: [], times: [0, 1], thresholds: { speak, update }, ...more });
    const seen = () => [given.shown.speak, given.shown.update, given.isPreview, given.isAtRest];
"""


def states(page: Page, body: str) -> Any:
    """Run a body with ``given`` thresholds, a run ``runAt`` two thresholds, and ``seen()``: shown, preview, at rest."""
    return run(page, "thresholds", "Thresholds", f"{PREPARE} {body}")


def test_a_move_is_a_preview_until_the_run_that_it_requests_is_shown(page: Page) -> None:
    body = """
        const found = [[given.settle(runAt(0.4, 0.6)), ...seen()], [given.move({ speak: 0.3 }), ...seen()]];
        const event = given.request();
        found.push(seen(), [given.settle(runAt(0.4, 0.6, { answers: 0 })), ...seen()]);
        found.push(event, [given.settle(runAt(0.3, 0.6, { answers: event.ticket })), ...seen()], given.request());
        return found;
    """
    assert states(page, body) == [
        [True, 0.4, 0.6, False, True],
        [True, 0.3, 0.6, True, False],
        [0.3, 0.6, True, False],
        [False, 0.3, 0.6, True, False],  # an answer to an earlier request
        {"speak": 0.3, "update": 0.6, "ticket": 1, "has_run": True},
        [False, 0.3, 0.6, False, True],
        None,
    ]


@pytest.mark.parametrize(
    ("values", "changed", "shown"),
    [
        ("{ speak: NaN }", True, [0.4, 0.6, False, True]),
        ("{ update: 2 }", True, [0.4, 0.6, False, True]),
        ("{ speak: 0, update: 1 }", True, [0, 1, True, False]),
    ],
)
def test_what_is_no_threshold_moves_nothing(page: Page, values: str, changed: bool, shown: list[Any]) -> None:
    body = f"given.settle(runAt(0.4, 0.6)); return [given.move({values}), seen()];"
    assert states(page, body) == [changed, shown]


def test_a_move_back_takes_the_request_back(page: Page) -> None:
    body = """given.settle(runAt(0.4, 0.6));
        given.move({ speak: 0.3 });
        given.request();
        given.move({ speak: 0.4 });
        return [given.request(), seen()];"""
    assert states(page, body) == [{"speak": 0.4, "update": 0.6, "ticket": 2, "has_run": True}, [0.4, 0.6, False, True]]
