"""The outbox of review actions, and typed times, without a server or the page."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import open_modules, run

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with open_modules(browser) as page:
        yield page


@pytest.mark.parametrize(("text", "time_s"), [("90", 90), ("1:30", 90), ("0:01:30.5", 90.5), ("", None), ("1:x", None)])
def test_a_typed_time_is_read(page: Page, text: str, time_s: float | None) -> None:
    body = "const time = parseTime(arg); return Number.isNaN(time) ? null : time;"
    assert run(page, "data", "parseTime", body, text) == time_s


def test_a_corrected_time_is_said_as_it_was_typed(page: Page) -> None:
    body = """
        const turn = { role: "assistant", text: "Stop", time_s: 7.12 }, said = (correction) =>
            describeAction({}, { kind: "correction", correction: { turn, ...correction } }, null);
        return [said({ kind: "time", time_s: 8.25 }), said({ kind: "span", time_s: 8.5, end_s: 61.007 })];"""
    moved, lasting = run(page, "event_words", "describeAction", body)
    assert moved == "Corrected the reference turn “Stop” at 0:07.1: it is at 0:08.250. Z takes it back."
    assert "it lasts from 0:08.5 to 1:01.007." in lasting


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
        ("a b undo:b", "a", "b"),
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
