"""The state of a player: its outbox, messages, thresholds and a long session, in modules without server or page."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from stepscope.app.web.component import STATIC
from stepscope.app.web.payload import pack_run
from tests.app.web.static import test_script_data_browser as scripts
from tests.app.web.static.test_script_data_browser import packed_run
from tests.support.pages.browser import NEEDS_CHROMIUM
from tests.support.pages.modules import MAKE_PLAYER, address, run
from tests.support.reviews.played import judge, make_run

pytestmark = NEEDS_CHROMIUM
page = scripts.page


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
        ("{ speak: 0.4 }", False, [0.4, 0.6, False, True]),
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


def test_a_page_without_a_run_keeps_the_thresholds_for_the_next_one(page: Page) -> None:
    body = """given.move({ update: 0.2 });
        const event = given.request(), kept = seen();
        given.settle(runAt(0.4, 0.6));
        given.settle(null);
        return [event, kept, seen()];"""
    event = {"speak": 0.5, "update": 0.2, "ticket": 1, "has_run": False}
    assert states(page, body) == [event, [0.5, 0.2, False, True], [0.4, 0.6, False, True]]


def test_a_moved_run_without_frames_takes_the_thresholds_and_keeps_those_of_its_signals(page: Page) -> None:
    body = """const run = runAt(0.4, 0.6, { times: [] });
        run.thresholds.extra = 0.7;
        given.settle(run);
        given.move({ speak: 0.1 });
        given.request();
        return [run.thresholds, seen()];"""
    assert states(page, body) == [{"speak": 0.1, "update": 0.6, "extra": 0.7}, [0.1, 0.6, False, True]]


def test_thresholds_of_a_sweep_stay_with_the_videos_of_their_run(page: Page) -> None:
    body = """
        const video = () => runAt(0.4, 0.6, {
            run_name: "toy", s: [0.5],
            named: [{ name: "s", key: "gate", decides: "speak", hasThreshold: true, series: "s" }],
        });
        const found = [given.applySweep({ run: "toy", signals: { gate: 0.9, none: 0.1 } }), given.shown.s ?? null];
        given.settle(video());
        found.push(given.shown.s, given.isPreview, given.move({ s: 0.2 }), given.shown.s, given.isAtRest);
        given.settle(video());
        found.push(given.shown.s);
        given.settle({ ...video(), run_name: "other" });
        return [...found, given.shown.s ?? null];"""
    assert states(page, body) == [False, None, 0.9, False, True, 0.2, True, 0.9, None]


MOUNT = """
    const { thresholds } = JSON.parse(arg.pack), settings = { verdicts: [], plotly_url: "none.js", thresholds };
    const players = ["", "a second player"].map((hint) => {
        const element = document.body.appendChild(document.createElement("div"));
        element.innerHTML = arg.markup;
        mount({
            element, settings: { ...settings, hint, video_id: "none" }, props: { value: arg.pack },
            trigger() {}, server: {}, watch() {},
        });
        return element.querySelector(".ss");
    });
"""


def test_what_is_done_in_one_player_stays_in_it(page: Page, tmp_path: Path) -> None:
    body = """
        const [first, second] = players, before = second.inspect();
        document.dispatchEvent(new CustomEvent("stepscope:threshold", { detail: { speak: 0.9 } }));
        first.querySelector("[data-tab=curves]").click();
        first.querySelectorAll(".ss-row")[2].click();
        first.querySelector("[data-do=loop]").click();
        const seen = (player) => {
            const { thresholds, isPreview, tab, time, isLooping, said } = player.inspect();
            return { speak: thresholds.speak, isPreview, tab, time, isLooping, said };
        };
        return [seen(first), seen(second), first.unpacked() === second.unpacked(), before.said];"""
    made = make_run(tmp_path)
    argument = {"pack": pack_run(made, judge(made)), "markup": (STATIC / "player.html").read_text(encoding="utf-8")}
    found: list[Any] = run(page, "main", "mount", MOUNT + body, argument)
    first, second, is_shared, said = found
    assert (first["speak"], first["isPreview"], first["tab"], first["isLooping"]) == (0.9, True, "curves", True)
    assert first["time"] > 0
    expected = {"isPreview": False, "tab": "rows", "time": 0, "isLooping": False, "said": said}
    assert {name: second[name] for name in expected} == expected
    assert second["speak"] != 0.9
    assert not is_shared


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


def test_a_frame_without_a_decision_has_its_reason_in_words(page: Page) -> None:
    script = """
    const states = [[0, 'no picture'], [1, null], [2, 'constructor'], [3, 'dropped']];
    const data = { speak: [NaN, NaN, NaN, 0.5], assistant_states: states };
    return data.speak.map((_, frame) => gapText(data, frame));
    """
    assert run(page, "data", "gapText", script, None) == ["the source had no picture", None, None, None]
