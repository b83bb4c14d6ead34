"""The state of a player: its outbox, thresholds and a long session, in modules without server or page."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.player.static import test_script_data_browser as scripts
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


STREAM = """
const pack = (values) => {
  let text = '';
  for (const byte of new Uint8Array(Float64Array.from(values).buffer)) text += String.fromCharCode(byte);
  return btoa(text);
};
const names = ['times', 'speak', 'update', 'cache', 'latency'];
const series = (make) => Object.fromEntries(names.map((name) => [name, pack(make(name))]));
const lists = { named: [], assistant_states: [], forgotten: [], questions: [] };
const empty = { ...lists, refreshed: [], decided: { speak: [], update: [] }, turns: [], changes: [] };
const head = {
  ...series(() => []), ...empty, fps: 2, duration_s: 60, failures: [], references: [], steps: [{ id: 'S1', name: 'a' }],
  bands: { model: [[[-1, 0]]], reference: [] }, thresholds: {}, policy: { has_updates: true },
  is_live: true, has_reference: false,
};
const made = new GrowingRun({ stream: 's', head });
const sizes = [], asked = [];
for (let first = 0; first < arg; first += 100) {
  asked.push(made.next);
  const frames = Array.from({ length: 100 }, (_, at) => first + at), at = first + 50;
  made.append({
    ...empty, ...series((name) => frames.map((frame) => name === 'times' ? frame / 2 : frame)),
    assistant_states: [[at, 'dropped'], [at + 1, null]],
    refreshed: [at], decided: { speak: [at], update: [] }, changes: first === 0 ? [[0, 7, 1]] : [], progress: null,
    turns: [{ role: 'assistant', frame: at, text: `t${at}`, link: null }],
    questions: [{ role: 'user', time: at / 2, frame: at, text: `q${at}`, is_given: true }],
  });
  made.drop();
  sizes.push([made.numFrames, made.data.rows.length, made.series.times.room.length]);
}
const { data } = made, place = data.decided.speak.at(-1), [{ time, role }] = data.rows;
return {
  sizes, next: made.next, asked, begin: data.begin_s, lastTime: data.times.at(-1), turn: data.turns.at(-1), place,
  timeAtPlace: data.times[place], state: data.bands.model[0], question: data.userTurns[0], row: { time, role },
  users: data.userTurns.length, response: data.responses.length, refreshed: data.refreshed.length,
  isSorted: data.rows.every((row, at) => at === 0 || data.rows[at - 1].time <= row.time), latency: data.latency[0],
  gaps: data.assistant_states,
};
"""


@pytest.fixture(scope="module")
def seen(page: Page) -> dict[str, Any]:
    result: dict[str, Any] = run(page, "increments", "GrowingRun", STREAM, 40_000)
    return result


def test_the_frames_of_a_long_session_take_no_more_than_an_hour(seen: dict[str, Any]) -> None:
    frames, rows, room = zip(*seen["sizes"], strict=True)
    assert max(frames) < 1.25 * 7200
    assert max(rows) <= 2 * 1.25 * 72 + 2
    assert max(room[100:]) == room[99], "the memory of the series does not grow"
    assert seen["asked"] == list(range(0, 40_000, 100)), "every frame is requested once"
    assert seen["next"] == 40_000


def test_times_and_indices_stay_those_of_the_session(seen: dict[str, Any]) -> None:
    forgotten = 40_000 - seen["sizes"][-1][0]
    assert seen["begin"] == forgotten / 2
    assert seen["lastTime"] == 39_999 / 2
    assert seen["turn"]["text"] == "t39950"
    assert seen["turn"]["frame"] == seen["place"] == 39_950 - forgotten
    assert seen["timeAtPlace"] == seen["turn"]["time"] == 39_950 / 2
    assert seen["latency"] == forgotten
    assert seen["gaps"][-2:] == [[seen["place"], "dropped"], [seen["place"] + 1, None]]
    assert len(seen["gaps"]) <= 2 * seen["refreshed"] + 1, "gaps of frames that the browser dropped are dropped"
    assert seen["state"] == [[-1, 1]], "a step keeps the state of a forgotten change"
    assert seen["question"]["time"] >= seen["begin"]
    assert seen["users"] == seen["response"] == seen["refreshed"]
    assert seen["isSorted"]
    assert seen["row"] == {"time": seen["question"]["time"], "role": "user"}


def test_a_run_without_thresholds_is_previewed_and_neither_requested_nor_given_some(page: Page) -> None:
    body = """
        const thresholds = new Thresholds({ speak: 0.3, update: 0.6 }), seen = [],
            see = (run) => { thresholds.settle(run); seen.push([thresholds.shown, thresholds.isPreview]); };
        const recorded = { run: "r", times: [0], named: [], thresholds: {} };
        see(recorded);
        thresholds.move({ speak: 0.4 });
        seen.push([thresholds.shown, thresholds.isPreview], thresholds.request());
        see({ ...recorded, run: "s" });
        see(null);
        return seen;"""
    kept = {"speak": 0.3, "update": 0.6}
    expected = [[{}, False], [{"speak": 0.4}, True], None, [{}, False], [{**kept, "speak": 0.4}, False]]
    assert run(page, "thresholds", "Thresholds", body) == expected
